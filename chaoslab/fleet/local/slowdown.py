"""A slower chip, by three mechanisms: CPU quota, stopping and continuing, the learner's own rests.

    auto ─► Quota      a part of the CPU time that it used before, by a cgroup of its own
         ─► DutyCycle  the same part, by stopping and continuing it (`stress_program duty`)
         ─► StepRest   the learner rests after each step, by its test hook

The first two cut CPU time, so they do nothing to a chip that is no CPU; there the third is left.
"""

import signal

from chaoslab.core import process_tree
from chaoslab.core.payloads import StressCounts
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.local.incarnation import LocalProcess
from chaoslab.fleet.local.stress_driver import OwnCgroup, stress_process
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stress.slowing import STEP_HOOK, CpuShare, StepRest
from chaoslab.fleet.stress.stress_process import StressProcess
from chaoslab.fleet.stressors import Mechanism, Slowness

_BY_STOPPING = "stopping and continuing, looked at every 20 ms"


class Quota(CpuShare):
    """A CPU quota. Should the harness be stopped for too long, the janitor lifts it."""

    def __init__(self, wish: Wish[LocalProcess], stressor: Slowness) -> None:
        super().__init__(wish.life.spec.name, wish.calm_cores, stressor)
        self._life, self._own = wish.life, OwnCgroup(wish, Controller.CPU)

    @property
    def mechanism(self) -> str:
        return f"CPU quota by {self._own.home}"

    @property
    def is_broken(self) -> bool:
        return self._own.is_gone

    def begin(self) -> None:
        """Make the cgroup, limit it, and only then move the node into it."""
        cores = self._cores
        group = self._own.make()
        group.limit_cpu(cores)
        group.take_in(self._life.pids)

    def _apply(self) -> None:
        self._own.group.limit_cpu(self._cores)

    def counts(self) -> StressCounts:
        """Its share, and the time for which the kernel throttled its threads, in total."""
        return {**super().counts(), "throttled_s": round(self._own.group.throttled_s, 3)}

    def end(self) -> None:
        self._own.remove()


class DutyCycle(CpuShare):
    """Stopped whenever it has used its share of the time."""

    mechanism = _BY_STOPPING

    def __init__(self, wish: Wish[LocalProcess], stressor: Slowness) -> None:
        super().__init__(wish.life.spec.name, wish.calm_cores, stressor)
        self._wish = wish
        self._process: StressProcess | None = None

    @property
    def is_broken(self) -> bool:
        return self._process is not None and self._process.is_over

    def begin(self) -> None:
        cores, process = self._cores, self._wish.life.identity
        for_s = self._stressor.for_s
        self._process = stress_process(
            self._wish, "duty", process.pid, process.start_ticks, for_s=for_s
        )
        self._process.ask(cores)

    def _apply(self) -> None:
        if self._process is not None:
            self._process.ask(self._cores)

    def end(self) -> None:
        """Let it go on, even if the program that stopped it was killed meanwhile."""
        if self._process is not None:
            self._process.end()
            life = self._wish.life
            if not life.is_over and not life.is_paused:
                process_tree.signal_trees([life.identity], signal.SIGCONT)


# ---------------------------------------------------------------- which of them


def slower(wish: Wish[LocalProcess], stressor: Slowness) -> StressDriver:
    """Driver of a slowness, by the mechanism that is asked for or chosen."""
    match _chosen(stressor.mechanism):
        case Mechanism.CGROUP:
            return Quota(wish, stressor)
        case Mechanism.DUTY_CYCLE:
            return DutyCycle(wish, stressor)
        case _:
            return StepRest(wish.life, stressor)


def _chosen(asked: Mechanism) -> Mechanism:
    if asked is not Mechanism.AUTO:
        return asked
    return Mechanism.CGROUP if cgroups.where(Controller.CPU) else Mechanism.DUTY_CYCLE


def said(mechanism: Mechanism) -> str:
    """Mechanism that slows a node here, in words for a preview."""
    chosen = _chosen(mechanism)
    if chosen is Mechanism.CGROUP:
        return f"CPU quota by {cgroups.where(Controller.CPU) or 'cgroups, which are not here'}"
    return _BY_STOPPING if chosen is Mechanism.DUTY_CYCLE else STEP_HOOK
