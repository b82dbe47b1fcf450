"""Faults on who has the chip of a learner: still held after a kill, and two tasks on one chip.

    chip.held    kill ─► another process has the chip ─► each start fails ─► heal: freed, started
    chip.shared  a second task asks for the chip ─► refused, and the learner goes on

Users of TPUs report both: a process that outlives its job keeps the devices busy, and a scheduler
that starts a task twice gives two of them one chip.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from chaoslab.core.errors import PlanError
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.core.payloads import (
    ChipHeld,
    ChipTried,
    LearnerStep,
    NodeExited,
    NodeStarted,
)
from chaoslab.faults.actions import EndsProcess, HitsTogether
from chaoslab.faults.base import BaseFault, Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of
from chaoslab.faults.process import Signal
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import HasChips, able
from chaoslab.plan.model import Injection
from chaoslab.record.exits import was_ended_by

_CHIP_IN_USE: Final = 69
"""Exit code of a learner whose chip another process has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldChip(HitsTogether, EndsProcess):
    """Kill the learner, and let another process keep its chip while it is started again and again.

    Each start must fail for want of the chip. The heal frees it and starts the learner.
    """

    times: int = 2
    """How often it is started meanwhile."""
    every_s: float = 5.0
    """Time between two starts."""

    name = "chip.held"
    summary = "after a kill the chip is still held: every start fails until it is freed"
    strength: ClassVar[Mapping[str, float]] = {"times": 0.0}
    imitates = "a process that outlives its job and keeps the devices; here it keeps a lock file"
    proof = "exit by SIGKILL, the chip held by another process, and starts that fail for that"
    needs = frozenset({Ability.KILL, Ability.CHIP})

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError(f"must be at least 1, got {self.times}", key="times")
        if self.every_s <= 0:
            raise PlanError("must be above 0s", key="every")

    def steps(self) -> tuple[float, ...]:
        """When it is started."""
        return tuple(self.every_s * start for start in range(self.times))

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Kill all victims, and take their chips."""
        fleet.kill(*injection.targets)
        for name in injection.targets:
            able(fleet, HasChips).hold_chip(name)

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:  # noqa: ARG002
        """Start all victims, which must fail."""
        for name in injection.targets:
            fleet.restart(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Free all chips, then start whoever is not running."""
        for name in injection.targets:
            able(fleet, HasChips).free_chip(name)
        super(HoldChip, self).heal(injection, fleet)  # noqa: UP008  # slots make another class

    def look(self, window: EvidenceWindow) -> Found:
        """The kill, who has the chip, and the starts that failed for want of it."""
        exited, held = window.exited, window.first(ChipHeld)
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None or not was_ended_by(exited, Signal.SIGKILL):
            return no_evidence(Code.NOT_KILLED, "was not killed when the fault began")
        if held is None:
            return no_evidence(Code.NOT_APPLIED, "was killed, and nobody took its chip")
        failed = [e for e in window.of(NodeExited) if e.payload.exit_code == _CHIP_IN_USE]
        worked = window.first(LearnerStep, lambda e: e.payload.incarnation != window.incarnation)
        if worked is not None:
            text = "made steps although another process had its chip"
            return no_evidence(Code.WORKED_MEANWHILE, text, starts_failed=len(failed))
        if not failed:
            return no_evidence(Code.NO_REPORT, "was not started while its chip was held")
        return Found(
            code=Code.AS_ASKED if len(failed) >= self.times else Code.FEWER_TIMES,
            text=f"was killed, its chip stayed with process {held.payload.holder}, and "
            f"{len(failed)} of {self.times} starts failed for that",
            measured={"starts_failed": len(failed)},
            proof=(exited, held, *failed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChip(BaseFault):
    """Ask for the chip of a running learner, as a second task would; the learner must keep it."""

    times: int = 3
    """How often it is asked for."""
    every_s: float = 1.0
    """Time between two attempts."""

    name = "chip.shared"
    summary = "a second task asks for the chip of a running learner"
    layer = Layer.PROCESS
    imitates = "a scheduler that starts two tasks on one chip"
    proof = "each attempt is refused because of the learner's process, which goes on with its steps"
    needs = frozenset({Ability.CHIP})
    takes_away = False

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError(f"must be at least 1, got {self.times}", key="times")
        if self.every_s <= 0:
            raise PlanError("must be above 0s", key="every")

    def steps(self) -> tuple[float, ...]:
        """The attempts after the first."""
        return tuple(self.every_s * attempt for attempt in range(1, self.times))

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """The first attempt."""
        for name in injection.targets:
            able(fleet, HasChips).try_chip(name)

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:  # noqa: ARG002
        """Another attempt."""
        self.inject(injection, fleet)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Nothing is left of an attempt."""

    def look(self, window: EvidenceWindow) -> Found:
        """Who had the chip at each attempt, and whether the learner went on."""
        tried = window.of(ChipTried)
        started = next(reversed(of(window.before, NodeStarted)), None)
        if window.incarnation is None or started is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if not tried:
            return no_evidence(Code.NOT_APPLIED, "was asked for its chip by nobody")
        granted = [e for e in tried if e.payload.is_granted]
        if granted:
            text = f"had no hold on its chip: {len(granted)} of {len(tried)} attempts were granted"
            return no_evidence(Code.NO_EFFECT, text, granted=len(granted))
        others = [e for e in tried if e.payload.holder != started.payload.pid]
        if others:
            return no_evidence(Code.OTHER_CAUSE, "has its chip by another process than its own")
        stepped = window.first(LearnerStep, lambda e: e.seq > tried[0].seq)
        if stepped is None:
            return no_evidence(Code.NOT_STEPPING, "made no step after the first attempt")
        return Found(
            code=Code.AS_ASKED if len(tried) >= self.times else Code.FEWER_TIMES,
            text=f"kept its chip at {len(tried)} attempts of a second task, and went on",
            measured={"refused": len(tried)},
            proof=(*tried, stepped),
        )
