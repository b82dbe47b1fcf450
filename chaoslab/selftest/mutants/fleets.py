"""Fleets of processes, and harnesses, with one defect each."""

import time
from collections.abc import Sequence
from threading import Event
from typing import Self

from chaoslab.core.events import Observation
from chaoslab.fleet.base import Node, Role
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM


class IdleKill(LocalFleet):
    """Sends no SIGKILL to a learner."""

    def signal(self, *names: str, signal: str) -> None:
        if signal == "SIGKILL":
            names = tuple(n for n in names if self.nodes[n].role is not Role.LEARNER)
        super().signal(*names, signal=signal)


class StrayKill(LocalFleet):
    """Kills the other victim in place of the victim."""

    def signal(self, *names: str, signal: str) -> None:
        if signal == "SIGKILL" and self.nodes[OTHER_VICTIM].is_alive:
            names = tuple(OTHER_VICTIM if name == VICTIM else name for name in names)
        super().signal(*names, signal=signal)


class EagerRestart(LocalFleet):
    """Starts a killed learner again at once, so that the fault lasts for no time."""

    def signal(self, *names: str, signal: str) -> None:
        super().signal(*names, signal=signal)
        for name in names:
            node = self.nodes[name]
            if signal == "SIGKILL" and node.role is Role.LEARNER and node.incarnation == 1:
                super().restart(name)


class IdleHeal(LocalFleet):
    """Reports a dead node as started again, and does not start it."""

    def restart(self, name: str) -> Node:
        node = self.nodes[name]
        return node if node.incarnation else super().restart(name)


class IdleResume(LocalFleet):
    """Reports a stopped process as resumed, and sends no signal."""

    def resume(self, name: str) -> None:
        life = self._lives[name]
        life.is_paused = False
        life.pending_undos.close(life.undo_pause)


class HungPause(LocalFleet):
    """A pause never returns."""

    verb_s = 4.0

    def pause(self, *names: str) -> None:  # noqa: ARG002
        Event().wait()


class MessyFleet(LocalFleet):
    """Leaves the process of the victim behind, and reports that nothing is left."""

    def signal(self, *names: str, signal: str) -> None:
        super().signal(*(name for name in names if name != VICTIM), signal=signal)

    def _end_all(self) -> list[str]:
        return []


class ForeignUndo(LocalFleet):
    """Writes an undo of a mount for a folder outside the run. Nothing is mounted there."""

    def __enter__(self) -> Self:
        folder = self._place.run_directory.parents[1] / "somebody-elses"
        self._place.undo_log.open("unmount", node="learner-0", folder=str(folder))
        return super().__enter__()


class StalledHarness(LocalFleet):
    """The harness does nothing for a while, once it has brought a victim back."""

    stalls_s = 4.0
    _is_due = False

    def restart(self, name: str) -> Node:
        node = super().restart(name)
        self._is_due = node.incarnation == 2
        return node

    def poll(self, until_s: float) -> Sequence[Observation]:
        if self._is_due:
            self._is_due = False
            time.sleep(self.stalls_s)
        return super().poll(until_s)


class BrieflyStalledHarness(StalledHarness):
    """Stalls for less time than would explain a pause of training."""

    stalls_s = 1.5


FLEETS = {
    "briefly_stalled_harness": BrieflyStalledHarness,
    "eager_restart": EagerRestart,
    "foreign_undo": ForeignUndo,
    "hung_pause": HungPause,
    "idle_heal": IdleHeal,
    "idle_kill": IdleKill,
    "idle_resume": IdleResume,
    "messy_fleet": MessyFleet,
    "stalled_harness": StalledHarness,
    "stray_kill": StrayKill,
}
