"""Clients of a host agent: harnesses on its Unix socket, with what each still has to be sent.

    socket ─► lines ─► attach, call, renew ─► Answers ─────────┐
    spool ── what follows the number of each ──────────────────┴─► socket

No client holds up the agent: nothing waits for a socket, and a client that sends what is no message
is dropped.
"""

import socket
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, encode
from chaoslab.fleet.remote.host_agent.spool import Spool
from chaoslab.fleet.remote.protocol.messages import LINE_BYTES_MOST, Garbled, read_line

_CHUNK_BYTES: Final = 1 << 16
_LINES: Final = 256
"""Lines of the spool that are put into a client's outbox at once."""
_ANSWERS: Final = 1024
"""Remembered answers: far more than a harness has calls under way."""


class Answers:
    """Answers by the id of their call: a call that comes again is not done again."""

    def __init__(self, do: Callable[[Mapping[str, Any]], dict[str, Json]]) -> None:
        self._do = do
        self._known: OrderedDict[str, dict[str, Json]] = OrderedDict()

    def to(self, call: Mapping[str, Any]) -> dict[str, Json]:
        """The answer to a call, done now or before. Garbled if it has no id."""
        name = call.get("id")
        if not isinstance(name, str):
            raise Garbled(f"{call!r} has no id")
        if name not in self._known:
            self._known[name] = self._do(call)
            while len(self._known) > _ANSWERS:
                self._known.popitem(last=False)
        return self._known[name]


class Client:
    """One connection. `is_over` once it has ended."""

    def __init__(self, stream: socket.socket, spool: Spool) -> None:
        stream.setblocking(False)
        self.stream, self._spool = stream, spool
        self.is_over = False
        self._inbox = b""
        self._outbox = b""
        self._number: int | None = None
        """Number of the last line of the spool in the outbox; None before it has attached."""

    @property
    def wants_to_write(self) -> bool:
        """Whether there is something that the socket did not take yet."""
        return bool(self._outbox)

    def received(self) -> Iterator[Mapping[str, Any]]:
        """The messages that came since the last call. Garbled if there is something else."""
        while not self.is_over:
            try:
                chunk = self.stream.recv(_CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            self.is_over = not chunk
            *lines, self._inbox = (self._inbox + chunk).split(b"\n")
            if len(self._inbox) > LINE_BYTES_MOST:
                raise Garbled(f"a line of more than {LINE_BYTES_MOST} bytes")
            yield from map(read_line, lines)

    def attach(self, after: object) -> None:
        """Send what follows this number. Garbled for another value, FleetError if it is gone."""
        if isinstance(after, bool) or not isinstance(after, int):
            raise Garbled(f"{after!r} is no number of an observation")
        for _ in self._spool.after(after, 1):
            break
        self._number = after

    def send(self, message: Mapping[str, Json]) -> None:
        """Put a message into the outbox."""
        self._outbox += encode(message).encode() + b"\n"

    def flush(self) -> None:
        """Send as much as the socket takes now."""
        while not self.is_over and (self._outbox or self._refill()):
            try:
                sent = self.stream.send(self._outbox)
            except BlockingIOError:
                return
            except OSError:
                self.is_over = True
                return
            self._outbox = self._outbox[sent:]

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self.stream.close()

    def _refill(self) -> bool:
        if self._number is None:
            return False
        lines = list(self._spool.after(self._number, _LINES))
        self._number += len(lines)
        self._outbox = b"".join(lines)
        return bool(lines)


def refusal(error: FleetError) -> Mapping[str, Json]:
    """The last message to a client that is dropped."""
    return {"refused": str(error)}
