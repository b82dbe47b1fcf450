"""Hosts whose agents live in this process: they answer calls, fall silent, are switched off.

RemoteFleet ── AgentClient ── a stream in memory ──► FakeAgent: enlist, restart, probe, signal …
"""

import asyncio
import io
import json
import secrets
import tarfile
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.event_loop import EventLoop
from chaoslab.core.events import Json, encode
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.base import Node, NodeSpec, probed
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.ground import Ground
from chaoslab.fleet.remote.host import Runs
from chaoslab.fleet.remote.protocol.messages import (
    as_json,
    from_error,
    from_observation,
    read_as,
)
from chaoslab.fleet.remote.protocol.reach import RUN_S, HostAddress, Ran, Reach, Streams, Unreached
from tests.fleet.direct_hosts import ThisPython

RUN = "0123456789"


class FakeHost:
    """A host, and the way to it. What a test sets holds at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_mute = False
        """Nothing that is sent arrives, and nobody is told."""
        self.is_off = False
        """No way leads to it, and what ran there is gone."""
        self.may_start = asyncio.Event()
        """An agent that is started waits for this."""
        self.may_start.set()
        self.calls: list[str] = []
        """Verbs that its agents carried out."""
        self.started = 0
        """How many agents were started on it."""
        self.session = ""
        self.record = _no_files()
        """What it sends as the record of its nodes."""
        self.found: list[Found] = []
        """Nodes of a training that runs there already."""
        self.proxy = ""
        """Address of the proxy that its agents open."""
        self._nodes: dict[str, Node] = {}
        self._streams: list[asyncio.StreamReader] = []

    def switch_off(self) -> None:
        """To be called on the loop."""
        self.is_off, self.session = True, ""
        self._nodes.clear()
        for reader in self._streams:
            reader.feed_eof()

    # ---------------------------------------------------------------- see `reach.Reach`

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", within_s: float = RUN_S
    ) -> Ran:
        if self.is_off:
            raise Unreached(f"{self.name}: no way leads there")
        said: Json = {}
        if "start" in command:
            await self.may_start.wait()
            self.started += 1
            self.session = self.session or secrets.token_hex(4)
            said = {"socket": "socket", "folder": "folder"}
        if "halt" in command:
            self.session = ""
            self._nodes.clear()
        if "record" in command:
            return Ran(code=0, stdout=self.record, stderr=b"")
        return Ran(code=0, stdout=json.dumps(said).encode(), stderr=b"")

    async def connect(self, socket: str) -> Streams:
        if self.is_off or self.is_mute:
            raise ConnectionRefusedError(f"{self.name} does not answer")
        reader = asyncio.StreamReader()
        self._streams.append(reader)
        return reader, _Writer(self, reader)

    async def forward(self, port: int) -> int:
        return port

    async def close(self) -> None:
        """Nothing is kept open."""

    # ---------------------------------------------------------------- its agent

    def hear(self, message: Mapping[str, Any]) -> Json:
        """The answer to a message; None for silence."""
        match message:
            case {"attach": _}:
                return {"hello": {"session": self.session, "last": 0, "undone": []}}
            case {"renew": _}:
                return {"renewed": {}}
            case {"call": call}:
                self.calls.append(call["do"])
                return {"answer": {"id": call["id"], "number": 0, **self._carried_out(call)}}
        raise AssertionError(message)

    def _carried_out(self, call: Mapping[str, Any]) -> Mapping[str, Json]:
        names: list[str] = call["names"]
        match call["do"]:
            case "enlist":
                spec, first = read_as(NodeSpec, call["with"]["spec"]), call["with"]["first"]
                node = Node(
                    name=spec.name, role=spec.role, incarnation=first - 1, is_alive=False,
                    labels=spec.labels,
                )  # fmt: skip
                self._nodes[spec.name] = node
                return {"value": as_json(node)}
            case "restart":
                node = self._nodes[names[0]]
                if self.found:
                    return {"value": as_json(node)}
                again = Node(
                    name=node.name, role=node.role, incarnation=node.incarnation + 1,
                    is_alive=True, labels=node.labels,
                )  # fmt: skip
                self._nodes[names[0]] = again
                return {"value": as_json(again)}
            case "find":
                if not self.found:
                    return {"error": from_error(AbilityError("nothing matches"))}
                return {"value": [as_json(one) for one in self.found]}
            case "adopt":
                for shown in call["with"]["nodes"]:
                    one = read_as(Found, shown)
                    assert one.handle in {there.handle for there in self.found}
                    self._nodes[one.name] = Node(
                        name=one.name, role=one.role, labels={}, is_alive=True,
                        incarnation=call["with"]["first"][one.name],
                    )  # fmt: skip
                return {"value": [as_json(node) for node in self._nodes.values()]}
            case "probe":
                seen = probed(names[0], incarnation=1, pid=7, state="S")
                return {"value": from_observation(seen)}
            case "free_port":
                return {"value": 5000}
            case "open_proxy":
                return {"value": {"api": self.proxy, "token": "a token"}}
            case "leave" | "proxy_ended":
                return {"value": ""}
        return {"value": None}


class _Writer:
    def __init__(self, host: FakeHost, reader: asyncio.StreamReader) -> None:
        self._host, self._reader = host, reader

    def write(self, data: bytes, /) -> None:
        if self._host.is_off:
            raise ConnectionResetError(f"{self._host.name} is off")
        for line in data.splitlines():
            if not self._host.is_mute:
                answer = self._host.hear(json.loads(line))
                self._reader.feed_data(encode(answer).encode() + b"\n")

    def close(self) -> None:
        """The reader shows the end."""


def _no_files() -> bytes:
    made = io.BytesIO()
    tarfile.open(fileobj=made, mode="w").close()
    return made.getvalue()


def fake_ground(
    hosts: Sequence[FakeHost], terms: Terms, place: Mapping[str, Sequence[str]]
) -> Ground:
    """These hosts, with each node where `place` says; more can be taken in by their names."""
    by_name = {host.name: host for host in hosts}

    async def make_ready(found: HostAddress) -> tuple[Reach, Runs]:
        if by_name[found.address].is_off:
            raise FleetError(f"{found.address} is off")
        return by_name[found.address], ThisPython()

    ground = Ground(
        loop=EventLoop(),
        hosts={},
        place=lambda name: place[name],
        undo_facts=lambda name: {"host": name, "run": RUN},
        make_ready=make_ready,
        news=SimpleQueue(),
        run=RUN,
        terms=terms,
    )
    for name in dict.fromkeys(name for names in place.values() for name in names):
        ground.add(by_name[name], ThisPython())
    return ground
