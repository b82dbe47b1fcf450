"""Axes of an envelope: a key of a plan and its range, as written or as a question names it.

    faults.half-dies.for=1s..5m ─┐
    share, outage, link, rate ───┴─► Axis ─► settings as `--set` takes them, values in between

A question is answered by the first fault of the plan that it fits.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.plan.file.writing import DRAWN
from chaoslab.plan.model import SYNCER, FaultPlan, FaultSpec, Pick

PRECISION: Final = 0.05
"""Precision of a border that is no whole number, as a share of it."""
_DIGITS: Final = 3
"""Digits of a tried value."""
_MOST_ROWS: Final = 10
"""Most rows of whole numbers; with more, each row has twice the number of the one before."""
_LONGEST_S: Final = 300.0
"""Outage that is tried; ten times that of the plan if that is longer."""
_RATES: Final = (1e3, 1e9)
"""Tried rates of links, in bytes per second: the thinnest, and one that is no bottleneck."""
_OFTENER: Final = 100.0
"""Failure rate that is tried, in multiples of the plan's; and how much thinner its links become."""
_VALUE: Final = "VALUE"
_QUANTITIES: Sequence[units.Quantity[Any]] = (
    units.DURATION, units.SIZE, units.RATE, units.SHARE, units.COUNT, units.FACTOR,
)  # fmt: skip


class Question(StrEnum):
    """Questions about a plan that need no knowledge of its keys."""

    SHARE = "share"
    """The most learners that the first fault of learners may hit at once."""
    OUTAGE = "outage"
    """The longest that the first fault with an end may last."""
    LINK = "link"
    """The thinnest link: of the first fault that has a rate, or else of all learners, always."""
    RATE = "rate"
    """The shortest mean time between failures (`arrivals`) of the first fault that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A key of a plan, and the values that it may take."""

    key: str
    low: float
    high: float
    quantity: units.Quantity[Any]
    template: str = _VALUE
    """Value to write for the key, with VALUE in it."""
    question: Question | None = None

    @property
    def mild_first(self) -> tuple[float, float]:
        """Its ends, the milder one first: a thin link and a short time between failures are harsh;
        of other keys more is taken to be harsher.
        """
        is_falling = self.question in (Question.LINK, Question.RATE)
        return (self.high, self.low) if is_falling else (self.low, self.high)

    def setting(self, value: float) -> str:
        """Value as `--set` takes it."""
        return f"{self.key}={self.template.replace(_VALUE, self.text(value))}"

    def text(self, value: float) -> str:
        """A value as it stands in a plan."""
        return self.quantity.show(self._possible(value))

    def middle(self, one: float, other: float) -> float | None:
        """A value between two; None if they are next to each other."""
        if self._is_whole:
            middle = float((int(one) + int(other)) // 2)
            return None if abs(one - other) <= 1 else middle
        if max(one, other) <= min(one, other) * (1 + PRECISION):
            return None
        middle = self._possible(math.sqrt(one * other))
        return None if middle in (one, other) else middle

    def bisections(self, one: float, other: float) -> int:
        """Most values that are tried between two."""
        ends = sorted((one, other))
        parts = ends[1] - ends[0] if self._is_whole else math.log(ends[1] / ends[0], 1 + PRECISION)
        return max(math.ceil(math.log2(parts)), 0) if parts > 1 else 0

    @property
    def values(self) -> Sequence[float]:
        """All whole numbers, if they are few; otherwise each twice the one before."""
        if self._is_whole and self.high - self.low < _MOST_ROWS:
            return [float(number) for number in range(int(self.low), int(self.high) + 1)]
        doublings = int(math.log2(self.high / self.low))
        doubled = [self._possible(self.low * 2.0**number) for number in range(doublings + 1)]
        return doubled if not self._is_whole or doubled[-1] == self.high else [*doubled, self.high]

    @property
    def _is_whole(self) -> bool:
        return self.quantity is units.COUNT

    def _possible(self, value: float) -> float:
        rounded = float(f"{value:.{_DIGITS}g}")
        return int(value) if self._is_whole or self.quantity is units.SIZE else rounded


def axis_of(text: str, plan: FaultPlan) -> Axis:
    """`KEY=LOW..HIGH`, or the name of a question; PlanError if it is neither."""
    if text in tuple(Question):
        return _AXES[Question(text)](plan)
    key, _, ends = text.partition("=")
    low, dots, high = ends.partition("..")
    if not (key and dots):
        raise PlanError(
            f"{text!r} is no range: write faults.half-dies.for=1s..5m, or one of "
            f"{', '.join(Question)}"
        )
    for quantity in _QUANTITIES:
        try:
            found = quantity.parse(low), quantity.parse(high)
        except PlanError:
            continue
        if not 0 < found[0] < found[1]:
            raise PlanError(f"{text!r}: both ends must be above 0, the smaller one first")
        return Axis(key=key, low=float(found[0]), high=float(found[1]), quantity=quantity)
    raise PlanError(f"{text!r}: both ends must be of one kind: 1s..5m, 1..4, 10kB/s..1MB/s")


# ---------------------------------------------------------------- questions


def _share(plan: FaultPlan) -> Axis:
    spec = _first(plan, _hits_learners, "no fault hits a number of learners")
    learners = plan.training.learner_count
    if learners < 2:
        raise PlanError("the plan has one learner")
    return Axis(
        key=f"faults.{spec.id}.target", template=f"{{learners: {_VALUE}}}",
        low=1.0, high=float(learners), quantity=units.COUNT, question=Question.SHARE,
    )  # fmt: skip


def _hits_learners(spec: FaultSpec) -> bool:
    target = spec.target
    return not (target.syncer or target.reserve or SYNCER in target.names) and (
        target.pick in (Pick.RANDOM, Pick.FIRST)
    )


def _outage(plan: FaultPlan) -> Axis:
    spec = _first(plan, lambda one: one.outage.seconds is not None, "no fault has an end (`for`)")
    outage = spec.outage
    own_s = outage.seconds or 0.0
    key, template = "for", _VALUE
    if outage.dist in DRAWN:  # without its upper limit
        length, *more = DRAWN[outage.dist]
        drawn = {"dist": outage.dist.value, length: _VALUE}
        key, template = "outage", json.dumps(drawn | {one: getattr(outage, one) for one in more})
    return Axis(
        key=f"faults.{spec.id}.{key}", template=template, low=own_s,
        high=max(_LONGEST_S, 10 * own_s), quantity=units.DURATION, question=Question.OUTAGE,
    )  # fmt: skip


def _link(plan: FaultPlan) -> Axis:
    for spec in plan.faults:
        rate = getattr(spec.settings, "rate_bytes_per_s", None)
        if spec.fault.startswith("network.") and rate:
            key, low, high = f"faults.{spec.id}.rate", rate / _OFTENER, rate
            break
    else:
        key, (low, high) = "fleet.rate", _RATES
    return Axis(key=key, low=low, high=high, quantity=units.RATE,
                question=Question.LINK)  # fmt: skip


def _rate(plan: FaultPlan) -> Axis:
    why_not = "no fault comes at random times (`arrivals`), as those of mtbf_soak do"
    spec = _first(plan, lambda one: _mtbf_s(one) > 0, why_not)
    own_s = _mtbf_s(spec)
    return Axis(
        key=f"faults.{spec.id}.arrivals.mtbf", low=own_s / _OFTENER, high=own_s,
        quantity=units.DURATION, question=Question.RATE,
    )  # fmt: skip


def _mtbf_s(spec: FaultSpec) -> float:
    return (spec.arrivals.mtbf_s if spec.arrivals else None) or 0.0


def _first(plan: FaultPlan, is_it: Callable[[FaultSpec], bool], otherwise: str) -> FaultSpec:
    found = next(filter(is_it, plan.faults), None)
    if found is None:
        raise PlanError(otherwise)
    return found


_AXES: Final = {
    Question.SHARE: _share, Question.OUTAGE: _outage, Question.LINK: _link, Question.RATE: _rate,
}  # fmt: skip
