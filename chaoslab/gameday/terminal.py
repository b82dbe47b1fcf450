"""Lines of a game-day at a terminal, in a pipe or in a log: what happens, and what people type.

    events ────────────► see ──► what happens (`report.console.Plain`), what waits for a decision
    lines of people ───► type ─► Script ─► the run
                           └───► help, and what is wrong with a line

It changes the run by orders alone.
"""

import os
import select
from collections.abc import Callable
from contextlib import ExitStack
from threading import RLock, Thread
from typing import Final, Self, TextIO

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.core.payloads import FaultHeld
from chaoslab.gameday.orders import FORMS, HELP, OperatorConsole, help_lines, said
from chaoslab.gameday.script import Script, line_of
from chaoslab.plan.file.document import printable
from chaoslab.report.console import Plain
from chaoslab.report.story import RunStory

COMMANDS: Final = " · ".join((*FORMS, HELP))
CTRL_C: Final = "Ctrl-C aborts and heals everything"
KEPT: Final = "training goes on until an operator types `end`"


class Printed:
    """Implements `report.console.Screen` in lines, and takes in those that people type."""

    def __init__(
        self,
        keyboard: TextIO | None,
        stream: TextIO,
        story: RunStory,
        room: OperatorConsole,
        script: Script,
    ) -> None:
        """`keyboard`: where lines of the script come from as it goes on; None: nowhere."""
        self._keyboard, self._stream, self._room, self._script = keyboard, stream, room, script
        self._plain = Plain(stream, story)
        self._has_people = False
        """Whether they are at a terminal: when that is closed, others go on without them."""
        self._rest = b""
        self._number = 0
        self._lock = RLock()
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        fd = None if self._keyboard is None else _fd(self._keyboard)
        if fd is not None:
            self._has_people = is_at_hand(fd)
            if self._has_people:
                kept = KEPT if self._room.inbox.keep else ""
                self._print("\n".join(filter(None, (COMMANDS, CTRL_C, kept))))
            self._entered.enter_context(Reader(fd, self.type))
        elif self._keyboard is not None:  # a stream without a file holds all that will come
            self.type(self._keyboard.read().encode())
            self.type(b"")
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()

    def see(self, event: Event) -> None:
        """Print what it is worth."""
        with self._lock:
            self._plain.see(event)
            if event.kind is Kind.FAULT_HELD and (expected := self._expected(event)):
                self._print(expected)

    def type(self, data: bytes) -> None:
        """Take bytes of lines in, from any thread; no bytes: nothing more comes."""
        *lines, self._rest = (self._rest + (data or b"\n")).split(b"\n")
        for line in lines:
            self._number += 1
            self._take(line.decode(errors="replace"))
        if not data and not self._has_people:
            self._script.end()

    def _take(self, written: str) -> None:
        if said(written, by="").word == HELP:
            self._print("\n".join(help_lines()))
            return
        where = f"line {self._number}"
        try:
            line = line_of(written, where=where, by=self._room.by, names=self._room.names)
        except PlanError as error:
            self._print(str(error))
            return
        if line is not None:
            self._script.add(line)

    def _expected(self, event: Event) -> str:
        """Expectation of the charter about an entry that waits; empty if the line is malformed."""
        try:
            held = event.payload
        except MalformedEvent:  # the lines of the run count it
            return ""
        spec = held.spec if isinstance(held, FaultHeld) else ""
        hypothesis = self._room.plan.charter.hypotheses.get(spec, "")
        return printable(f"expected: {hypothesis}" if hypothesis else "nothing is expected of it")

    def _print(self, text: str) -> None:
        with self._lock:
            self._stream.write("".join(f"{'':12}{line}\n" for line in text.splitlines()))
            self._stream.flush()


def _fd(stream: TextIO) -> int | None:
    """The descriptor of a stream; None if it has none."""
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


_MOST_BYTES: Final = 4096


class Reader:
    r"""Keyboard or pipe of a game-day, read on a thread of its own.

    file descriptor ─► thread ─► take(b"go half-dies\n"), at the end take(b"")

    A terminal stays as it is: the line that is being typed is edited by its driver.

    Reads a file descriptor until it ends, or until the block is left.
    """

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        """`take` is called on the thread; no bytes: nothing more comes."""
        self._fd, self._take = fd, take
        self._thread = Thread(target=self._read, name="keyboard", daemon=True)

    def __enter__(self) -> Self:
        self._wake, self._stop = os.pipe()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._stop)  # which the thread can read as an end
        self._thread.join()
        os.close(self._wake)

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._fd, self._wake], [], [])
            if self._wake in ready:
                return
            data = self._next()
            if data is None:
                continue
            self._take(data)
            if not data:
                return

    def _next(self) -> bytes | None:
        """Input that has come. No bytes: its end. None: Ctrl-D at a terminal, which ends
        nothing.
        """
        try:
            data = os.read(self._fd, _MOST_BYTES)
        except OSError:  # the terminal was closed
            return b""
        return None if not data and os.isatty(self._fd) else data


def is_at_hand(fd: int) -> bool:
    """Whether it is a terminal that this process may read: not one of a job in the background."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
