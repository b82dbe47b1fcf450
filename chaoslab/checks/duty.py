"""Duty of each learner: when it has to work, and at what pace, against its baseline.

    learner-2   ── baseline ──┤ on duty │▇▇▇ fault ▇▇ heal ▇▇│ on duty ├─ training ends
                                                             └ its first contribution

Time in which an injection kept the syncer away is no learner's duty, nor that until all fragments
were merged again. Reads only.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from math import ceil, inf
from statistics import median
from typing import NamedTuple

from chaoslab.checks.absence import absences, busy_stretches
from chaoslab.checks.disturbances import is_full
from chaoslab.checks.outages import outages, whole_s
from chaoslab.checks.stretches import Stretches, overlap_s, union, without
from chaoslab.checks.timeline import (
    FaultWindow,
    baseline_end_s,
    before_the_end,
    of_learner,
    once,
    parts_of,
    rounds_with_work,
    training_end_s,
)
from chaoslab.core.events import Event, MalformedEvent
from chaoslab.core.payloads import (
    BaselineMeasured,
    LearnerJoined,
    LearnerLeft,
    LearnerStep,
    LearnerWaiting,
    LeftBecause,
    MachineSampled,
    NodeExited,
    PaceSet,
    PhaseEntered,
)
from chaoslab.record.history import FaultStory, History

_MOST_STEPS = 2**53
_ALIKE = 1.25
_FEWEST, _SHORTEST_S = 12, 2.0
_BACK_WITHIN_S = 30.0
"""Longest time after the heal until a learner that was not taken away is on duty."""


class Duty:
    """Duties and paces of all learners of a run that has a baseline."""

    def __init__(self, history: History, baseline_s: float) -> None:
        """`baseline_s`: when the baseline ended, in s."""
        measured = history.last(BaselineMeasured)
        step_s = measured.payload.step_s if measured else {}
        self._pace = {learner: 1 / own_s for learner, own_s in step_s.items() if 0 < own_s < inf}
        self._keeps_pace = history.last(PaceSet) is not None
        self._full = union(
            (event.time_s - event.payload.window_s, event.time_s)
            for event in history.of(MachineSampled)
            if is_full(event) or event.payload.nodes == 0
        )
        """When learners may have lacked a core: where no node is on this machine, not known."""
        self._given = {learner: _Given.of(history, learner) for learner in history.learners}
        begun_s = (e.time_s for e in history.of(PhaseEntered) if e.payload.phase == "baseline")
        self.baseline = (next(begun_s, 0.0), baseline_s)
        """Beginning and end of the baseline."""
        self._steps = {learner: _Sums.of(_steps(history, learner)) for learner in history.learners}
        self._waits = {learner: _Sums.of(_waits(history, learner)) for learner in history.learners}
        self.of: Mapping[str, Stretches] = {
            learner: _duty(history, learner, baseline_s) for learner in history.learners
        }
        """Duty of each learner, in order and apart."""

    @property
    def has_paces(self) -> bool:
        """Whether the baseline measured step times."""
        return bool(self._pace)

    def steps(self, learner: str, start_s: float, end_s: float) -> float:
        """Steps that it made in a stretch, on duty or not."""
        return self._steps[learner].between(start_s, end_s)

    def outrun(self, learner: str, start_s: float, end_s: float) -> float:
        """Steps of a learner in a stretch against its baseline, divided by the highest of all."""
        made = {name: self.steps(name, start_s, end_s) / self.pace(name) for name in self.of}
        most = max(made.values())
        return made[learner] / most if most > 0 else 0.0

    def pace(self, learner: str) -> float:
        """Steps per second in the baseline; the median of the others if it was not there."""
        return self._pace.get(learner) or median(self._pace.values() or [1.0])

    def as_slow_as(self, learner: str) -> Sequence[str]:
        """The others whose pace in the baseline is a quarter above its own at most; none where it
        may have lacked a core.
        """
        if learner not in self._pace or not self.shows_speeds(*self.baseline):
            return []
        most = _ALIKE * self._pace[learner]
        return [name for name, pace in self._pace.items() if name != learner and pace <= most]

    def pace_share(
        self, learner: str, start_s: float, end_s: float, within: Stretches | None = None
    ) -> float | None:
        """Its steps per second on duty (or `within`) in a stretch, against the baseline; None if it
        has no duty there, waited for rounds or for others for most of it, or no pace is known.
        """
        within = self.of[learner] if within is None else within
        duty = [(max(a, start_s), min(b, end_s)) for a, b in within]
        duty = [(a, b) for a, b in duty if a < b]
        time_s = sum(b - a for a, b in duty)
        worked_s = time_s - sum(self._waits[learner].between(a, b) for a, b in duty)
        if not self._pace or worked_s <= time_s / 2:
            return None
        made = sum(self.steps(learner, a, b) for a, b in duty)
        return made / worked_s / self.pace(learner)

    def common_pace(self, start_s: float, end_s: float, without: str = "") -> float:
        """By how much a full machine slows learners without a step time: the median of their
        `pace_share`s, of all or all but one; at most 1, and 1 where speeds are the learners' own.
        """
        if self.shows_speeds(start_s, end_s):
            return 1.0
        shares = [
            share
            for learner in self.of
            if learner != without
            and (share := self.pace_share(learner, start_s, end_s)) is not None
        ]
        return min(1.0, median(shares)) or 1.0 if shares else 1.0

    def given_share(self, learner: str, start_s: float, end_s: float) -> float | None:
        """What it was given of the time in which it was ready to run, against the baseline; at
        most 1.

        None where that is not known: in containers and on other machines.
        """
        now = self._given[learner].share(start_s, end_s)
        usual = self._given[learner].share(*self.baseline)
        return min(1.0, now / usual) if now is not None and usual else None

    def shows_speeds(self, start_s: float, end_s: float) -> bool:
        """Whether a slow learner is slow by itself, and not because it lacks a core."""
        return self._keeps_pace or not overlap_s(self._full, start_s, end_s)


def per_s(times_s: Sequence[float]) -> float:
    """Events per second at these times; 0 if there are too few."""
    lasted_s = times_s[-1] - times_s[0] if times_s else 0.0
    return (len(times_s) - 1) / lasted_s if lasted_s > 0 else 0.0


def rounds_of_a_window(per_s: float, share: float = 1.0) -> int:
    """As few rounds as can tell: as many as let expect 12, and as come in 2 s, since over less than
    that it tells who got a core, or saved a checkpoint.

    `per_s`: rounds per second. `share`: of them, those to be expected.
    """
    return max(ceil(_FEWEST / share), ceil(_SHORTEST_S * per_s))


@once
def duty(history: History) -> Duty | None:
    """Duty of the learners; None if the baseline was never measured."""
    baseline_s = baseline_end_s(history)
    return None if baseline_s is None else Duty(history, baseline_s)


class _Sums(NamedTuple):
    """Sums of the reports of a learner over all its lives, by the ends of its samples."""

    times_s: Sequence[float]
    sums: Sequence[float]
    """Sum up to each of these times; begins with 0, so it has one more than there are times."""

    @classmethod
    def of(cls, samples: Iterable[tuple[float, float]]) -> "_Sums":
        ordered = sorted(samples)
        return cls(
            times_s=[time_s for time_s, _ in ordered],
            sums=[*accumulate((more for _, more in ordered), initial=0.0)],
        )

    def between(self, start_s: float, end_s: float) -> float:
        """The sum over a stretch; that of a sample is spread over the time since the one before."""
        return self._until(end_s) - self._until(start_s)

    def _until(self, time_s: float) -> float:
        after = bisect_left(self.times_s, time_s)
        if not 0 < after < len(self.times_s):
            return self.sums[after]
        from_s, to_s = self.times_s[after - 1], self.times_s[after]
        more = self.sums[after + 1] - self.sums[after]
        return self.sums[after] + more * (time_s - from_s) / (to_s - from_s)


class _Given(NamedTuple):
    """Sampled time of a learner, and that time multiplied by the share of a core that it got."""

    sampled_s: _Sums
    given_s: _Sums

    @classmethod
    def of(cls, history: History, learner: str) -> "_Given":
        said = [
            (event.time_s, event.payload.window_s, event.payload.given[learner])
            for event in history.of(MachineSampled)
            if learner in event.payload.given
        ]
        return cls(
            sampled_s=_Sums.of((time_s, window_s) for time_s, window_s, _ in said),
            given_s=_Sums.of((time_s, window_s * share) for time_s, window_s, share in said),
        )

    def share(self, start_s: float, end_s: float) -> float | None:
        """The mean over a stretch; None if it was not sampled then."""
        sampled_s = self.sampled_s.between(start_s, end_s)
        return self.given_s.between(start_s, end_s) / sampled_s if sampled_s > 0 else None


def _steps(history: History, learner: str) -> Iterator[tuple[float, float]]:
    """Steps of each sample; MalformedEvent for a number that no training reaches."""
    for event in of_learner(history, LearnerStep, learner):
        if abs(event.payload.steps) > _MOST_STEPS:
            raise MalformedEvent(f"{event} says that it made more steps than can be counted")
        yield event.time_s, event.payload.steps


def _waits(history: History, learner: str) -> Iterator[tuple[float, float]]:
    """Seconds for which it waited: of each sample of its steps, and since the last one."""
    samples = of_learner(history, LearnerStep, learner)
    yield from ((event.time_s, event.payload.waited_s) for event in samples)
    told = of_learner(history, LearnerWaiting, learner)[-1:]
    yield from (
        (event.time_s, event.payload.waited_s)
        for event in told
        if not samples or event.time_s > samples[-1].time_s
    )


@once
def settled(history: History) -> Stretches:
    """When all learners that are there train from one state, from the baseline to the end of
    training: none is under a fault or on its way back, the syncer is not away, and a round of each
    fragment was merged since. A learner that never came back disturbs no other.
    """
    baseline_s = baseline_end_s(history)
    rounds = rounds_with_work(history)
    times_s = [event.time_s for event in rounds]
    fragments = len({event.payload.fragment for event in rounds})
    found = []
    for start_s, end_s in () if baseline_s is None else _calm(history, baseline_s):
        whole = bisect_right(times_s, start_s) + fragments
        found.append((times_s[whole] if whole < len(times_s) else start_s, end_s))
    return [(a, b) for a, b in found if a < b]


def _calm(history: History, start_s: float) -> Stretches:
    busy: list[tuple[float, float]] = []
    for learner in history.learners:
        gone_s = [
            absence.gone_s
            for absence in absences(history)
            if absence.learner == learner and absence.is_last and absence.accepted is None
        ]
        lost_s = min(gone_s, default=inf)
        busy += [(a, min(b, lost_s)) for a, b in _busy(history, learner) if a < lost_s]
    return without([(start_s, training_end_s(history))], union(busy))


def _duty(history: History, learner: str, baseline_s: float) -> Stretches:
    """When it has to work: not under a fault of its own, on the way back, without a syncer, or
    after it was asked to leave.
    """
    start_s = baseline_s
    if learner not in history.founders:
        given = parts_of(history, learner)
        start_s = given[0].time_s if given else inf
    off = [*_busy(history, learner), *_asked_to_leave(history, learner)]
    return without([(start_s, training_end_s(history))], union(off))


def under_alone(history: History, learner: str, window: FaultWindow) -> Stretches:
    """The part of a fault's window in which a learner is under no other fault, and not excused."""
    off = [*_busy(history, learner, window.story), *_asked_to_leave(history, learner)]
    return without([(window.start_s, window.end_s)], union(off))


def _busy(
    history: History, learner: str, but: FaultStory | None = None
) -> Iterator[tuple[float, float]]:
    """`but`: a fault that is left out."""
    yield from _faulted(history, learner, but)
    yield from _syncerless(history, learner)


def _faulted(
    history: History, learner: str, but: FaultStory | None
) -> Iterator[tuple[float, float]]:
    """Faults of the learner, each to its first contribution after the heal."""
    given = [part.time_s for part in parts_of(history, learner)]
    for from_s, until_s in union(busy_stretches(history, learner, but)):
        back_s = next((time_s for time_s in given if time_s >= until_s), inf)
        yield from_s, min(back_s, until_s + _BACK_WITHIN_S)


def _syncerless(history: History, learner: str) -> Iterator[tuple[float, float]]:
    """Outages of the syncer, each until it was heard again and all fragments were merged again."""
    for outage in outages(history):
        again_s, heard = whole_s(history, outage), outage.returns.get(learner)
        heard_s = min(heard.time_s if heard else inf, outage.healed_s + _BACK_WITHIN_S)
        back_s = outage.until_s if again_s is None else max(again_s, heard_s)
        yield outage.gone_s, min(back_s, outage.until_s)


def _asked_to_leave(history: History, learner: str) -> Iterator[tuple[float, float]]:
    """From when it left in order because it was asked to, to the first contribution of its
    next life, or for good.

    That it was asked is its own word: without a next life, the record has to show that it left.
    """
    for left in of_learner(history, LearnerLeft, learner):
        if left.payload.reason is LeftBecause.ASKED:
            back_s = _next_life_s(history, left)
            if back_s is not None or _is_gone(history, left):
                yield left.time_s, inf if back_s is None else back_s


def _next_life_s(history: History, left: Event[LearnerLeft]) -> float | None:
    """First contribution of a later life, or the end of its deadline; None without a later life."""
    learner, life = left.payload.life
    given = (
        part.time_s for part in parts_of(history, learner) if part.contributor.incarnation > life
    )
    joined = (
        event.time_s + _BACK_WITHIN_S
        for event in of_learner(history, LearnerJoined, learner)
        if event.payload.incarnation > life
    )
    return min([*islice(given, 1), *islice(joined, 1)], default=None)


def _is_gone(history: History, left: Event[LearnerLeft]) -> bool:
    """Whether this life ended before training did, or an injection had lent the learner."""
    learner, life = left.payload.life
    exits = before_the_end(history, history.of(NodeExited))
    ends = {(event.payload.node, event.payload.incarnation) for event in exits}
    temporary = any(
        story.brings_in
        and story.healing
        and story.healing.seq < left.seq
        and learner in story.targets
        for story in history.faults
    )
    return temporary or (learner, life) in ends
