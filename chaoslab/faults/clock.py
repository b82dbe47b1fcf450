"""Faults on a node's clocks: step, drift.

    harness ── step, or rate ──► the node's test hook ─► what its code reads by `time`
       its own clock ─ stamps ─► clock.read, before, during and after ◄─┘          └─► evidence

A node's word on what it shows is compared with the harness's own clock at the moment at which it
arrives: the difference is the proof. That training does not care is for checks to say: liveness,
deadlines and fencing rest on monotonic clocks and on counters, never on the date.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import ClockRead
from chaoslab.core.units import Duration, elapsed, plural
from chaoslab.faults.actions import AsksHook
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.fleet.base import Role

_HOOK = "clock"
_ANY_NODE = frozenset({Role.LEARNER, Role.SYNCER})
_STEP_S_LEAST = 1.0
"""A smaller step is hard to tell from a reading that arrives late."""
_DRIFT_LEAST = 0.05
"""A smaller difference of rates, over some seconds, is as hard to tell."""
_RATE_MOST = 4.0
_LATE_S = 0.5
"""A reading may arrive so late on a busy machine."""
_UNSEEN_S = 1.0
"""After its last reading before the heal a clock is believed to stay as it was for this long."""
_TOLERANCE = 0.25
"""Largest error of a drift, as a share of the requested one, with which it is still proved."""
_WINDOW_S = 2.0
"""A rate that was watched for less is believed to be there, and not how large it is."""


class Towards(StrEnum):
    """Direction in which a clock is set."""

    AHEAD = "ahead"
    BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep(AsksHook):
    """Set the wall clock, as NTP or a resumed virtual machine does; heal by setting it right.

    Its monotonic clock goes on undisturbed, as it does on a real machine.
    """

    by_s: Duration = 300.0
    """Offset of the clock."""
    towards: Towards = Towards.AHEAD
    """`ahead`, or `back`: then times of day come twice."""

    name = "clock.step"
    summary = "the node's wall clock is set, ahead or back"
    strength: ClassVar[Mapping[str, float]] = {"by_s": 0.0}
    may_silence = False
    hook = _HOOK
    imitates = (
        "NTP or a resumed virtual machine sets the clock; C code of the node reads the right time"
    )
    proof = "the node's wall clock against the harness's, before and meanwhile"
    roles = _ANY_NODE

    def __post_init__(self) -> None:
        if self.by_s < _STEP_S_LEAST:
            raise PlanError(f"`by` must be at least {_STEP_S_LEAST:g}s: less cannot be measured")
        if self.towards not in list(Towards):
            raise PlanError(f"`towards: {self.towards}` is neither `ahead` nor `back`")

    def asked(self) -> Mapping[str, Json]:
        """Requested offset of the wall clock; below 0: back."""
        return {"step_s": self._step_s}

    @property
    def _step_s(self) -> float:
        return self.by_s if self.towards is Towards.AHEAD else -self.by_s

    def look(self, window: EvidenceWindow) -> Found:
        """Drift of the wall clock, and of the monotonic one, from the harness's.

        The node sets it right by itself when the time is over, and may say so just before the heal.
        """
        said = _readings(window)
        if len(said) < 2:
            return no_evidence(Code.NOT_MEASURED, "never said what its clock shows")
        before_s, *later_s = map(_ahead_s, said)
        step_s = median(later_s) - before_s
        until_s = min(window.end_s, said[-1].time_s + _UNSEEN_S)
        while later_s and abs(step_s) >= _LATE_S > abs(later_s[-1] - before_s):
            until_s, said, later_s = said[-1].time_s, said[:-1], later_s[:-1]
        measured: dict[str, Json] = {
            "step_s": step_s,
            "monotonic_step_s": _monotonic_s(said) - _passed_s(said),
            "readings": len(later_s),
        }
        if abs(step_s) < _LATE_S:
            return no_evidence(Code.NO_EFFECT, "did not have its wall clock set", **measured)
        is_kept = all(abs(ahead_s - before_s - self._step_s) <= _LATE_S for ahead_s in later_s)
        return Found(
            code=window.lasted(until_s - said[0].time_s) if is_kept else Code.OUT_OF_TOLERANCE,
            text=f"had its wall clock {elapsed(abs(step_s))} {'ahead' if step_s > 0 else 'back'}, "
            f"in {plural(len(later_s), 'reading')}",
            measured=measured,
            proof=(said[0], said[1], said[-1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDrift(AsksHook):
    """Let the node's clocks run too fast or too slow, as an oscillator that is off does.

    Its periods and deadlines then come too early or too late; how long the kernel makes it wait
    does not change.
    """

    rate: float = 1.2
    """Seconds that its clocks show in one real second. What is off by 0.0002 on bad hardware adds
    up over hours; this much does the same in seconds."""

    name = "clock.drift"
    summary = "the node's clocks run too fast or too slow"
    strength: ClassVar[Mapping[str, float]] = {"rate": 1.0}
    hook = _HOOK
    imitates = (
        "an oscillator that is off, a thousand times too much; the kernel's waits are not changed"
    )
    proof = "seconds on the node's monotonic clock for each of the harness's"
    roles = _ANY_NODE

    def __post_init__(self) -> None:
        is_possible = 1 / _RATE_MOST <= self.rate <= _RATE_MOST
        if not is_possible or abs(self.rate - 1) < _DRIFT_LEAST:
            raise PlanError(
                f"`rate: {self.rate:g}` must be {1 / _RATE_MOST:g} to {_RATE_MOST:g} and differ "
                f"from 1 by at least {_DRIFT_LEAST:g}: less cannot be measured in seconds"
            )

    def asked(self) -> Mapping[str, Json]:
        return {"rate": self.rate}

    def look(self, window: EvidenceWindow) -> Found:
        """Rate of its monotonic clock against the harness's."""
        said = _readings(window)[1:]  # the first one was before
        passed_s = _passed_s(said) if len(said) > 1 else 0.0
        if passed_s <= 0:
            return no_evidence(Code.NOT_MEASURED, "never said what its clocks show")
        rate = _monotonic_s(said) / passed_s
        wrong = abs(rate - self.rate) / abs(self.rate - 1)
        measured: dict[str, Json] = {
            "rate": rate,
            "wall_rate": (said[-1].payload.wall_s - said[0].payload.wall_s) / passed_s,
            "watched_s": passed_s,
        }
        if abs(rate - 1) < _DRIFT_LEAST * (1 - _TOLERANCE):
            text = f"had clocks that ran at {rate:.2f} of the usual rate"
            return no_evidence(Code.NO_EFFECT, text, **measured)
        if wrong > _TOLERANCE:
            code = Code.OUT_OF_TOLERANCE
        elif passed_s < _WINDOW_S:
            code = Code.TOO_SHORT
        else:
            code = window.lasted(_shown_s(window, said))
        return Found(
            code=code,
            text=f"had clocks that ran at {rate:.2f} of the usual rate for {passed_s:.1f} s",
            measured=measured,
            proof=(said[0], said[-1]),
        )


# ---------------------------------------------------------------- evidence


def _readings(window: EvidenceWindow) -> Sequence[Event[ClockRead]]:
    """Readings of the target's clocks: one before the fault, then those during it."""
    return [e for e in window.of(ClockRead) if e.payload.incarnation == window.incarnation]


def _shown_s(window: EvidenceWindow, said: Sequence[Event[ClockRead]]) -> float:
    """Time for which its clocks are known to have been as they were read."""
    return min(window.end_s, said[-1].time_s + _UNSEEN_S) - said[0].time_s


def _ahead_s(reading: Event[ClockRead]) -> float:
    """Offset of the node's wall clock from the harness's; above 0: ahead."""
    return reading.payload.wall_s - datetime.fromisoformat(reading.wall).timestamp()


def _monotonic_s(said: Sequence[Event[ClockRead]]) -> float:
    """Seconds on the node's monotonic clock, from the first reading to the last."""
    return said[-1].payload.monotonic_s - said[0].payload.monotonic_s


def _passed_s(said: Sequence[Event[ClockRead]]) -> float:
    """Seconds on the harness's clock, from the first reading to the last."""
    return said[-1].time_s - said[0].time_s
