"""Reach of one host: interface between a remote fleet and its transport.

    RemoteFleet ── run a command, connect to a socket ──► Reach ─┬─ ssh (`ssh.connection`)
                                                                 └─ this machine (tests)

A transport knows no fleet and no agent. All methods run on an event loop.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from chaoslab.core.errors import FleetError

RUN_S: Final = 60.0


class Unreached(FleetError):
    """A host that cannot be reached now; whether it still runs is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAddress:
    """A host that is to be reached, as an inventory or a provider says."""

    address: str
    """Name or address that ssh dials."""
    host_keys: tuple[str, ...] = ()
    """Its keys, where a provider reports them; else those that are known count."""


class LineReader(Protocol):
    """Reader of a stream's lines."""

    async def readline(self) -> bytes:
        """A line; without a newline at its end, or empty, where the stream ended. OSError."""
        ...


class LineWriter(Protocol):
    """Writer of a stream's lines."""

    def write(self, data: bytes, /) -> None:
        """Send it, sooner or later. OSError if the stream has ended."""
        ...

    def close(self) -> None:
        """End the stream."""
        ...


Streams: TypeAlias = tuple[LineReader, LineWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Result of a command on a host."""

    code: int
    stdout: bytes
    stderr: bytes


class Reach(Protocol):
    """A way to one host. What cannot be is an OSError or a FleetError; without a way, Unreached."""

    @property
    def name(self) -> str:
        """The host, as people and undo logs call it."""
        ...

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", within_s: float = RUN_S
    ) -> Ran:
        """Run a command to its end. No word of it is read by a shell."""
        ...

    async def connect(self, socket: str) -> Streams:
        """A new stream to a Unix socket there."""
        ...

    async def forward(self, port: int) -> int:
        """A port of this machine that leads to a port on the host's loopback, until `close`."""
        ...

    async def close(self) -> None:
        """End all connections. Safe to repeat."""
        ...


async def asked(
    reach: Reach, command: Sequence[str], *, stdin: bytes = b"", within_s: float = RUN_S
) -> Mapping[str, Any]:
    """Result of a command of `host_agent.__main__`. FleetError if it is refused."""
    return answer(reach.name, await reach.run(command, stdin=stdin, within_s=within_s))


def answer(name: str, ran: Ran) -> Mapping[str, Any]:
    """Result of a command on the host of this name. FleetError if it failed."""
    if ran.code != 0:
        raise FleetError(f"{name}: {_words(ran)}")
    try:
        found = json.loads(ran.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise FleetError(f"{name}: the answer is no JSON: {ran.stdout[-300:]!r}") from error
    if not isinstance(found, dict):
        raise FleetError(f"{name}: the answer is no JSON object: {found!r}")
    return found


def _words(ran: Ran) -> str:
    """Error of a failed command: that of the agent's program, or all of its last words."""
    text = (ran.stdout + ran.stderr).decode(errors="replace").strip()
    last = text.splitlines()[-1] if text else ""
    try:
        return str(json.loads(last)["error"])
    except (ValueError, KeyError, TypeError):
        return f"exit code {ran.code}: {text[-1000:] or 'it said nothing'}"
