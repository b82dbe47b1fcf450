"""Does every member work, from the baseline or from its return to the end of training?

    rounds           | | | | | | | | | | | | | | |    on duty: from the end of the baseline, or its
    with learner-2   | | |  fault  ◄─ | | | . . .     first contribution after a fault of its own,
                                      └─ window ┘     to its next fault or the end of training

In every window that holds 12 of the rounds that it can be expected to contribute to, the last one
included, three figures stay at least at `min_share` of what is expected:

    rounds   with a contribution of its own: their share, against that of the baseline
    weight   of what was merged in them, against its part of the baseline pace of all contributors
    steps    per second, against its own baseline, or against the others if they are slower as well

Time in which an injection held the syncer is nobody's duty. A learner that a fault took away and
that never contributed again is left to the second answer (`learners_rejoin`). Where learners
without a step time share a machine that is full, weight and steps tell who got a core: only rounds
are judged there.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import ceil, inf
from statistics import median
from typing import ClassVar, NamedTuple

from chaoslab.checks.absence import busy_stretches
from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.disturbances import is_full
from chaoslab.checks.outages import outages, whole_s
from chaoslab.checks.pacing import unless_overrun
from chaoslab.checks.stretches import Stretches, holds, union
from chaoslab.checks.timeline import (
    Part,
    baseline_end_s,
    of_learner,
    of_learner_between,
    parts_of,
    training_end_s,
)
from chaoslab.checks.violations import Doubt, Violation, conclude, unknown
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.core.payloads import (
    BaselineMeasured,
    LearnerLeft,
    LearnerStep,
    LeftBecause,
    MachineSampled,
    MemberLeft,
    MemberSuspected,
    PaceSet,
    RoundMerged,
)
from chaoslab.core.units import Share, plural
from chaoslab.record.journal import History

_WINDOW_ROUNDS = 12
_STANDS_STILL = 0.1
_BACK_WITHIN_S = 30.0
"""A learner whose fault did not take it away is on duty so long after the heal at the latest."""


class _Window(NamedTuple):
    """What one learner did in a window, as shares of what was to be expected of it."""

    start_s: float
    end_s: float
    rounds: int
    own: int
    """Rounds that it contributed to."""
    rounds_share: float
    weight_share: float | None
    """None: it contributed to none of the rounds."""
    steps_share: float | None
    """Without regard to others; None without a pace to compare with."""
    last: Event[RoundMerged]


@dataclass(frozen=True, slots=True, kw_only=True)
class Participation:
    """Every member contributes, weighs and steps as it did before, until training ends."""

    name: ClassVar[str] = "participation"
    summary: ClassVar[str] = "every member contributes, weighs and steps to the end as before"

    min_share: Share = 0.5
    """Of the rounds, the weight and the steps per second that are expected of a learner, in each
    window."""

    def __post_init__(self) -> None:
        if not 0.05 <= self.min_share <= 1:
            raise PlanError("must be 5% to 100%", key="min_share")

    def judge(self, history: History) -> Finding:
        """Judge each window of each learner's duty; the worst of each learner is told."""
        usual = _usual(history)
        if usual is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to compare with")
        found: list[Violation | Doubt] = []
        samples, least, broken = 0, dict[str, float](), list[tuple[float, float]]()
        for learner, duty in usual.duties.items():
            found += _short_tails(learner, duty, usual)
            for window in _windows(learner, duty, usual):
                samples += 1
                share, what = self._least(window, learner, usual)
                least[learner] = min(share, least.get(learner, share))
                if share < self.min_share:
                    found.append(self._violation(window, learner, usual, share, what))
                    broken.append((window.start_s, window.end_s))
        worst = min(least.values(), default=1.0)
        finding = conclude(
            self.name,
            found,
            passed=f"every learner worked to the end: at least {min(worst, 1.0):.0%} of what was "
            f"expected of it, in each of {samples:,} windows",
            samples=samples,
            nothing=Doubt(Code.TOO_FEW_SAMPLES, "too few rounds were merged after the baseline"),
            numbers={"least_share": {who: round(share, 3) for who, share in sorted(least.items())}},
        )
        return unless_overrun(finding, history, broken) if broken else finding

    def _least(self, window: _Window, learner: str, usual: "_Usual") -> tuple[float, str]:
        """The least of the three shares, and of what; steps only below the bound by others, too."""
        shares = {"rounds": window.rounds_share}
        if not usual.shows_speeds(window.start_s, window.end_s):
            return window.rounds_share, "rounds"
        if window.weight_share is not None:
            shares["weight"] = window.weight_share
        if window.steps_share is not None:
            steps = window.steps_share
            if steps < self.min_share:
                steps /= usual.others_pace(learner, window.start_s, window.end_s)
            shares["steps"] = steps
        what = min(shares, key=lambda name: shares[name])
        return shares[what], what

    def _violation(
        self, window: _Window, learner: str, usual: "_Usual", share: float, what: str
    ) -> Violation:
        did = {
            "rounds": f"contributed to {window.own} of {window.rounds} rounds",
            "weight": "weighed too little",
            "steps": "stepped too slowly",
        }[what]
        when = f"from {window.start_s:.1f} to {window.end_s:.1f} s"
        text = (
            f"{learner} {did} {when}: {share:.0%} of what is expected of it, and the bound is "
            f"{self.min_share:.0%}{_instead(window, learner, usual)}"
        )
        return Violation.at(window.last, Code.WORKED_TOO_LITTLE, text, learner)


class _Steps(NamedTuple):
    """Steps of a learner, over all its lives, by the ends of its samples."""

    times_s: Sequence[float]
    counts: Sequence[int]
    """Up to each of these times; one more than there are times, as it is 0 before the first."""

    @classmethod
    def of(cls, samples: Sequence[Event[LearnerStep]]) -> "_Steps":
        ordered = sorted((event.time_s, event.payload.steps) for event in samples)
        return cls(
            times_s=[time_s for time_s, _ in ordered],
            counts=[*accumulate((steps for _, steps in ordered), initial=0)],
        )

    def until(self, time_s: float) -> float:
        """Steps that it had made by then; those of a sample are spread over its time."""
        after = bisect_left(self.times_s, time_s)
        if not 0 < after < len(self.times_s):
            return self.counts[after]
        from_s, to_s = self.times_s[after - 1], self.times_s[after]
        made: int = self.counts[after + 1] - self.counts[after]
        return self.counts[after] + made * (time_s - from_s) / (to_s - from_s)


class _Usual:
    """What each learner did in the baseline, and what all have done since."""

    def __init__(self, history: History, end_s: float) -> None:
        self.history = history
        self.rounds = [e for e in history.of(RoundMerged) if not e.payload.is_restated]
        measured = history.last(BaselineMeasured)
        step_s = measured.payload.step_s if measured else {}
        self._pace = {who: 1 / own_s for who, own_s in step_s.items() if own_s > 0}
        self._keeps_pace = history.last(PaceSet) is not None
        self._full = [event.time_s for event in history.of(MachineSampled) if is_full(event)]
        self.own = {who: _own(parts_of(history, who)) for who in history.learners}
        self._steps = {
            who: _Steps.of(of_learner(history, LearnerStep, who)) for who in history.learners
        }
        before = [event for event in self.rounds if event.time_s <= end_s][-2 * _WINDOW_ROUNDS :]
        self.shares = {
            who: sum(e.seq in own for e in before) / len(before) if before else 0.0
            for who, own in self.own.items()
        }
        self.first = {who: _firsts(parts_of(history, who)) for who in history.learners}
        self.duties = {who: _duty(history, who, end_s) for who in history.learners}

    def share(self, learner: str) -> float:
        """Of the rounds of the baseline, those that it contributed to; 1 if it was not there."""
        return self.shares[learner] or 1.0

    def pace(self, learner: str) -> float:
        """Steps per second in the baseline; the median of the others if it was not there."""
        return self._pace.get(learner) or median(self._pace.values() or [1.0])

    def pace_share(self, learner: str, start_s: float, end_s: float) -> float | None:
        """Its steps per second on duty in a stretch, against the baseline."""
        duty = [(max(a, start_s), min(b, end_s)) for a, b in self.duties[learner]]
        time_s = sum(b - a for a, b in duty if a < b)
        if not self._pace or time_s <= 0:
            return None
        until = self._steps[learner].until
        made = sum(until(b) - until(a) for a, b in duty if a < b)
        return made / time_s / self.pace(learner)

    def shows_speeds(self, start_s: float, end_s: float) -> bool:
        """Whether a slow learner is slow by itself, and not for want of a core."""
        first = bisect_left(self._full, start_s)
        return self._keeps_pace or not any(time_s <= end_s for time_s in self._full[first:])

    def others_pace(self, learner: str, start_s: float, end_s: float) -> float:
        """Median of the same of the others on duty; at most 1, and 1 without others."""
        shares = [
            share
            for who in self.duties
            if who != learner and (share := self.pace_share(who, start_s, end_s)) is not None
        ]
        return min(1.0, median(shares)) or 1.0 if shares else 1.0


def _usual(history: History) -> _Usual | None:
    end_s = baseline_end_s(history)
    usual = None if end_s is None else _Usual(history, end_s)
    return usual if usual and any(usual.shares.values()) else None


def _own(parts: Sequence[Part]) -> Mapping[int, Part]:
    """What it gave, by the `seq` of the round."""
    return {part.seq: part for part in parts if not part.merged.payload.is_restated}


def _firsts(parts: Sequence[Part]) -> frozenset[int]:
    """The `seq` of the first rounds of each life and fragment."""
    first: dict[tuple[int, int], int] = {}
    for part in parts:
        first.setdefault((part.contributor.incarnation, part.merged.payload.fragment), part.seq)
    return frozenset(first.values())


# ---------------------------------------------------------------- duty


def _duty(history: History, learner: str, baseline_s: float) -> Stretches:
    """When it has to work: not under a fault of its own, on the way back, or without a syncer."""
    given = [part.time_s for part in parts_of(history, learner)]
    busy = [*_faulted(history, learner, given), *_syncerless(history, learner)]
    start_s = baseline_s
    if learner not in history.founders:
        start_s = given[0] if given else inf
    end_s = _leaves_s(history, learner)
    duty = []
    for from_s, until_s in union(busy):
        duty.append((start_s, min(from_s, end_s)))
        start_s = max(start_s, until_s)
    return [(a, b) for a, b in [*duty, (start_s, end_s)] if a < b]


def _faulted(
    history: History, learner: str, given: Sequence[float]
) -> Iterator[tuple[float, float]]:
    """Faults of its own, each to its first contribution after the heal."""
    for from_s, until_s in union(busy_stretches(history, learner)):
        back_s = next((time_s for time_s in given if time_s >= until_s), inf)
        yield from_s, min(back_s, until_s + _BACK_WITHIN_S)


def _syncerless(history: History, learner: str) -> Iterator[tuple[float, float]]:
    """Outages of the syncer, each until it was heard again and all fragments were merged again."""
    for outage in outages(history):
        again_s, heard = whole_s(history, outage), outage.returns.get(learner)
        heard_s = min(heard.time_s if heard else inf, outage.healed_s + _BACK_WITHIN_S)
        back_s = outage.until_s if again_s is None else max(again_s, heard_s)
        yield outage.gone_s, min(back_s, outage.until_s)


def _leaves_s(history: History, learner: str) -> float:
    """When it left in order because somebody asked it to, or else the end of training."""
    left = [
        event.time_s
        for event in of_learner(history, LearnerLeft, learner)
        if event.payload.reason is LeftBecause.ASKED
    ]
    return min([training_end_s(history), *left[-1:]])


def _windows(learner: str, duty: Stretches, usual: _Usual) -> Iterator[_Window]:
    """Every window of its duty."""
    rounds = [event for event in usual.rounds if holds(duty, event.time_s)]
    length = _length(learner, usual)
    given = [0, *accumulate(event.seq in usual.own[learner] for event in rounds)]
    for end in range(length, len(rounds) + 1):
        within = rounds[end - length : end]
        start_s, end_s = within[0].time_s, within[-1].time_s
        own = given[end] - given[end - length]
        yield _Window(
            start_s=start_s,
            end_s=end_s,
            rounds=length,
            own=own,
            rounds_share=own / length / usual.share(learner),
            weight_share=_weight_share(learner, usual, within),
            steps_share=usual.pace_share(learner, start_s, end_s),
            last=within[-1],
        )


def _length(learner: str, usual: _Usual) -> int:
    """Rounds of a window: as many as let expect that it contributes to 12."""
    return ceil(_WINDOW_ROUNDS / usual.share(learner))


def _short_tails(learner: str, duty: Stretches, usual: _Usual) -> Iterator[Doubt]:
    """Its last time on duty, if that is too short to tell and looks bad."""
    start_s, end_s = duty[-1] if duty else (0.0, 0.0)
    last = [event for event in usual.rounds if start_s < event.time_s <= end_s]
    own = sum(event.seq in usual.own[learner] for event in last)
    if len(last) < _length(learner, usual) and 2 * own < len(last) * usual.share(learner):
        text = (
            f"{learner} contributed to {own} of the {len(last)} rounds from {start_s:.1f} s to "
            f"the end, and it takes {_length(learner, usual)} rounds to tell"
        )
        yield Doubt(Code.TOO_FEW_SAMPLES, text)


def _weight_share(
    learner: str, usual: _Usual, rounds: Sequence[Event[RoundMerged]]
) -> float | None:
    """Its part of the weight of the rounds with it, against its part of the contributors' pace.

    The first contributions of a life, one for each fragment, hold what it did since it joined.
    """
    weight = expected = 0.0
    for event in rounds:
        part = usual.own[learner].get(event.seq)
        whole = sum(one.weight for one in event.payload.contributors)
        if part is None or whole <= 0 or part.seq in usual.first[learner]:
            continue
        paces = [usual.pace(one.learner) for one in event.payload.contributors]
        weight += part.contributor.weight / whole
        expected += usual.pace(learner) / sum(paces)
    return weight / expected if expected else None


def _instead(window: _Window, learner: str, usual: _Usual) -> str:
    """What it did on duty instead, as the end of a sentence."""
    history, duty, said = usual.history, usual.duties[learner], []
    for kind, what in ((MemberLeft, "dropped"), (MemberSuspected, "suspected")):
        seen = of_learner_between(history, kind, learner, window.start_s, window.end_s)
        times_s = [event.time_s for event in seen if holds(duty, event.time_s)]
        said += [f"it was {what} at {times_s[0]:.1f} s"] if times_s else []
    missed = sum(
        learner in event.payload.missed
        for event in history.between(window.start_s, window.end_s, RoundMerged)
        if holds(duty, event.time_s)
    )
    unasked = window.rounds - window.own - missed
    said += [f"it did not answer {plural(missed, 'pull')}"] if missed > 0 else []
    said += [f"{plural(unasked, 'round')} did without it"] if unasked > 0 else []
    if window.steps_share is not None and window.steps_share < _STANDS_STILL:
        said += ["it hardly stepped"]
    return f"; {', '.join(said)}" if said else ""
