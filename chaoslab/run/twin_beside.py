"""A process that makes the fault-free twin of a simulation while the run itself goes on.

    run: pace.set ─► pipe ─► the twin begins with that step time
    run ends ─► its committed tokens ─► pipe ─► the twin goes on for as long ─► ended

It is forked, so that nothing is imported twice: a short simulation takes less time than that. Where
it cannot be, as beside another thread, the twin is made after the run.
"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import PaceSet
from chaoslab.run.interrupts import Interrupts

_LOOK_MS: Final = 100
"""How often an interrupt is passed on while the twin is waited for."""


def can_fork() -> bool:
    """Whether this process has one thread alone, a core to spare, and its children to itself."""
    threads = Path("/proc/self/task")
    return (
        threads.is_dir()
        and len(list(threads.iterdir())) == 1
        and len(os.sched_getaffinity(0)) > 1
        and signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL  # else others may wait for it
    )


class TwinBeside:
    """The process, as the run sees it: an observer of the run's journal."""

    def __init__(self, make: Callable[["Orders"], object]) -> None:
        """`make` makes the twin, in the new process. OSError if there can be none."""
        pipes: list[int] = []
        run = os.getpid()
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            self._pid = os.fork()
        except OSError:
            for end in pipes:
                os.close(end)
            raise
        orders, self._orders, self._ended, ended = pipes
        if not self._pid:
            os.close(self._orders)
            os.close(self._ended)
            _make_and_exit(make, Orders(orders, run))
        os.close(orders)
        os.close(ended)
        self._paces: list[float] = []

    def see(self, event: Event) -> None:
        """Pass the run's step time on."""
        if event.kind is Kind.PACE_SET and isinstance(event.payload, PaceSet):
            self._paces.append(event.payload.step_s)
            if len(self._paces) == 1:
                self._say(event.payload.step_s)

    def finish(self, tokens: float, interrupts: Interrupts) -> bool:
        """Wait until the twin has committed this many; whether it was made.

        It was not if the step time was measured again after the twin had begun, or if it failed:
        then all that is left is its directory.
        """
        if len(self._paces) > 1:
            self.abandon()
            return False
        self._say(tokens)
        ended = select.poll()
        ended.register(self._ended, select.POLLIN)
        while not ended.poll(_LOOK_MS):
            if interrupts.count:
                os.kill(self._pid, signal.SIGTERM)
        return self._reap() == 0

    def abandon(self) -> bool:
        """End it; False if it was waited for before. Safe to repeat."""
        if not self._pid:
            return False
        os.kill(self._pid, signal.SIGKILL)
        self._reap()
        return True

    def _say(self, number: float) -> None:
        with suppress(BrokenPipeError):  # it has failed: `finish` says so
            os.write(self._orders, f"{number!r}\n".encode())

    def _reap(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        os.close(self._orders)
        os.close(self._ended)
        return os.waitstatus_to_exitcode(status)


class Orders:
    """What the run says, as the twin hears it; an observer of the twin's journal."""

    def __init__(self, pipe: int, run: int) -> None:
        """`run` is the process of the run."""
        self._lines, self._run = os.fdopen(pipe), run

    def see(self, _: Event) -> None:
        """End the process if the run is gone: its twin is not needed."""
        if os.getppid() != self._run:
            os._exit(1)

    def next(self) -> float:
        """The next number; waits for it. The process ends if the run is gone."""
        line = self._lines.readline()
        if not line:
            os._exit(1)
        return float(line)


def _make_and_exit(make: Callable[[Orders], object], orders: Orders) -> NoReturn:
    """Nothing that the run has opened is closed or flushed here a second time."""
    status = 1
    try:
        make(orders)
        status = 0
    finally:
        os._exit(status)
