"""Connections to hosts that end in ways that a library does not foresee: nobody waits for ever."""

import asyncio
from typing import Any

import pytest

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.fleet.remote.client import AgentClient
from chaoslab.fleet.remote.protocol.reach import Streams
from chaoslab.fleet.remote.ssh.access import Access
from chaoslab.fleet.remote.ssh.connection import SshReach


class Breaking:
    """An ssh connection that breaks at the moment at which its channel is open."""

    is_aborted = False

    def is_closed(self) -> bool:
        return self.is_aborted

    async def open_unix_connection(self, _: str) -> Any:
        raise AssertionError  # as asyncssh does

    def abort(self) -> None:
        self.is_aborted = True


def test_a_connection_that_breaks_while_a_channel_opens_is_made_again() -> None:
    reach, breaking = SshReach(Access(host="far")), Breaking()
    reach._connection = breaking  # type: ignore[assignment]  # all of it that is used
    with pytest.raises(FleetError, match="broke while a channel was opened"):
        asyncio.run(reach.connect("/socket"))
    assert (breaking.is_aborted, reach._connection) == (True, None)


def test_a_client_that_fails_tells_all_who_wait() -> None:
    async def fail() -> Streams:
        raise ZeroDivisionError("a defect")

    async def opened() -> None:
        client = AgentClient(
            host="far", connect=fail, arrived=lambda *_: None, back=lambda _: None,
            lost=lambda _: None, lease_s=30.0, lost_s=30.0,
        )  # fmt: skip
        with pytest.raises(HarnessBug, match="a defect"):
            await client.open()
        with pytest.raises(HarnessBug, match="a defect"):
            await client.call("probe", "learner-0")

    asyncio.run(opened())
