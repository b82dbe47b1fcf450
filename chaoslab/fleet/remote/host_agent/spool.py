"""Spool of a host agent: what it has seen, numbered, until the harness says that it has it.

    observation ─► number ─┬─► in memory until it was acknowledged ─► a client that attaches after N
                           └─► spool.jsonl, for people and for after the agent's end

A harness that lost its connection attaches after the last number that it has, so that nothing is
lost or repeated. While too much waits to be acknowledged the spool is full, and nodes are not read:
they wait at their pipes, as they do for a slow harness on one machine. While the disk refuses its
file the harness is told all the same, and that it does.
"""

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation, Payload, encode
from chaoslab.core.payloads import DiskBlocked, DiskFreed
from chaoslab.fleet.node_links import HARNESS
from chaoslab.fleet.remote.protocol.messages import from_observation

SPOOL: Final = "spool.jsonl"
BYTES_MOST: Final = 64 << 20
"""Most bytes that wait in memory; a run of an hour prints less."""


class Spool:
    """Numbered lines; the first number is 1."""

    def __init__(self, folder: Path) -> None:
        """Begins spool.jsonl; OSError if that cannot be."""
        self._file = (folder / SPOOL).open("ab", buffering=0)
        self._lines: deque[bytes] = deque()
        self._acknowledged = self._waiting_bytes = 0
        self._blocked_s: float | None = None
        """Beginning of the disk's refusal; None without one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def last(self) -> int:
        """Number of the newest line; 0 without one."""
        return self._acknowledged + len(self._lines)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be taken in now."""
        return self._waiting_bytes > BYTES_MOST

    def append(self, seen: Iterable[Observation], *, at_s: float) -> None:
        """Number what was seen at this time of the host's monotonic clock."""
        lines = self._number(seen, at_s)
        if lines and (changed := self._keep(b"".join(lines), at_s)) is not None:
            self._number([Observation.of(HARNESS, changed)], at_s)

    def _number(self, seen: Iterable[Observation], at_s: float) -> list[bytes]:
        """Have it wait for its reader; its lines."""
        lines = [self._line(one, number, at_s) for number, one in enumerate(seen, self.last + 1)]
        self._lines += lines
        self._waiting_bytes += sum(map(len, lines))
        return lines

    def after(self, number: int, most: int) -> Iterator[bytes]:
        """At most `most` lines after this one; FleetError if a later one was acknowledged."""
        if not self._acknowledged <= number <= self.last:
            raise FleetError(
                f"cannot replay after line {number}: the spool holds {self._acknowledged + 1} to "
                f"{self.last}"
            )
        first = number - self._acknowledged
        for index in range(first, min(first + most, len(self._lines))):
            yield self._lines[index]

    def acknowledge(self, number: int) -> None:
        """The reader has everything up to this number."""
        while self._acknowledged < min(number, self.last):
            self._waiting_bytes -= len(self._lines.popleft())
            self._acknowledged += 1

    @staticmethod
    def _line(seen: Observation, number: int, at_s: float) -> bytes:
        said: dict[str, Json] = {"number": number, "at_s": at_s, **from_observation(seen)}
        return encode({"seen": said}).encode() + b"\n"

    def _keep(self, lines: bytes, at_s: float) -> Payload | None:
        """Write lines to the file; what there is to tell if the disk begins or ends to refuse.

        The name of the host is added by its harness.
        """
        is_torn = self._blocked_s is not None
        try:
            self._write(b"\n" + lines if is_torn else lines)
        except OSError as error:
            if is_torn:
                return None
            self._blocked_s = at_s
            return DiskBlocked(host="", file=SPOOL, reason=str(error))
        if self._blocked_s is None:
            return None
        blocked_s, self._blocked_s = at_s - self._blocked_s, None
        return DiskFreed(host="", blocked_s=blocked_s)

    def _write(self, data: bytes) -> None:
        """OSError also where only a part of it fits."""
        if self._file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
