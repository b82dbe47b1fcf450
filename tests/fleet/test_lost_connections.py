"""Connections to hosts that end in ways that a library does not foresee: nobody waits for ever."""

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from chaoslab.core.errors import ChaoslabError, FleetError, HarnessBug
from chaoslab.fleet.remote.client import AgentClient
from chaoslab.fleet.remote.protocol.reach import Streams
from chaoslab.fleet.remote.ssh.access import Access
from chaoslab.fleet.remote.ssh.connection import SshReach
from tests.fleet.fake_agents import FakeHost


class Breaking:
    """An ssh connection that breaks at the moment at which its channel is open."""

    is_aborted = False

    def is_closed(self) -> bool:
        return self.is_aborted

    async def open_unix_connection(self, _: str, *, window: int) -> Any:
        raise AssertionError  # as asyncssh does

    def abort(self) -> None:
        self.is_aborted = True


def test_a_connection_that_breaks_while_a_channel_opens_is_made_again() -> None:
    reach, breaking = SshReach(Access(host="far")), Breaking()
    reach._connection = breaking  # type: ignore[assignment]  # all of it that is used
    with pytest.raises(FleetError, match="far"):
        asyncio.run(reach.connect("/socket"))
    assert (breaking.is_aborted, reach._connection) == (True, None)


@pytest.mark.parametrize(
    "content", [b"garbage\n", b"# h\xf6st\n", b"@other far ssh-ed25519 AAAA\n"]
)
def test_a_file_of_known_hosts_that_is_none_is_named(content: bytes, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_bytes(content)
    with pytest.raises(FleetError, match=re.escape(str(known))):
        asyncio.run(SshReach(Access(host="far", known_hosts=str(known))).run(["true"]))


def test_a_client_that_fails_tells_all_who_wait() -> None:
    async def fail() -> Streams:
        raise ZeroDivisionError("a defect")

    async def opened() -> None:
        client = AgentClient(
            host="far", connect=fail, arrived=lambda *_: None, back=lambda _: None,
            lost=lambda _: None, lease_s=30.0, lost_s=30.0,
        )  # fmt: skip
        with pytest.raises(HarnessBug, match="far"):
            await client.open()
        with pytest.raises(HarnessBug, match="far"):
            await client.call("probe", "learner-0")

    asyncio.run(opened())


class Refused(SshReach):
    """A way to a host whose refusal comes in the very moment in which nobody wants it any more."""

    attempts = 0

    async def _dial(self) -> Any:
        self.attempts += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise asyncssh.ConnectionLost("refused") from None


def test_an_attempt_that_is_cancelled_as_it_is_refused_is_the_last_one() -> None:
    async def cancelled() -> int:
        reach = Refused(Access(host="far"))
        connecting = asyncio.create_task(reach.connect("/socket"))
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        return reach.attempts

    assert asyncio.run(cancelled()) == 1


def test_a_host_is_given_up_although_an_attempt_to_reach_it_does_not_end() -> None:
    """The test would not end either if somebody waited for that attempt."""
    lost = list[ChaoslabError]()

    async def given_up() -> None:
        host, is_trying, may_end = FakeHost("far"), asyncio.Event(), asyncio.Event()

        async def connect() -> Streams:
            if not host.is_off:
                return await host.connect("socket")
            is_trying.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await may_end.wait()
            raise ConnectionRefusedError

        client = AgentClient(
            host="far", connect=connect, arrived=lambda *_: None, back=lambda _: None,
            lost=lost.append, lease_s=30.0, lost_s=30.0,
        )  # fmt: skip
        await client.open()
        host.switch_off()
        await is_trying.wait()
        await client.give_up("its slice is gone")
        may_end.set()

    asyncio.run(given_up())
    assert [str(one) for one in lost] == ["far: its slice is gone"]
