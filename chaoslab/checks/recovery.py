"""Recovery time: from the heal until everything is as fast as before.

    rate of rounds    ▇▇▇▇▇▃▃▃▃▃▅▇▇▇▇▇▇      heal ──► the first window in which rounds, and the
    victim's share    ▇▇▇▇▇░░░░░░▃▇▇▇▇▇             contributions of every victim, come as often
                           fault│heal               as the bound asks of the baseline's rate

Coming back (`rejoin`) is the first accepted contribution; recovering is the old pace.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.pacing import noise_of_rounds, unless_noisy, unless_overrun
from chaoslab.checks.timeline import baseline_end_s, by_label, parts, parts_of, training_end_s
from chaoslab.checks.violations import (
    Doubt,
    Measured,
    Violation,
    after_longest,
    conclude,
    unknown,
)
from chaoslab.core.binding import binding
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event
from chaoslab.core.payloads import RoundMerged
from chaoslab.core.units import Duration, Share, show_share
from chaoslab.record.history import FaultStory, History

_WINDOW_S = 2.0
_WINDOW_ROUNDS = 12
"""A window is at least this long, and as long as the baseline needs for this many rounds."""
_BASELINE_ROUNDS = 24
"""The last ones of the baseline tell how often they come, and each learner's contributions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heal:
    """Injections that overlapped, and the moment from which none of them was open any more."""

    stories: tuple[FaultStory, ...]
    victims: tuple[str, ...]
    event: Event
    until_s: float
    """Time of the next fault, or of the end of training."""
    is_last: bool

    def __str__(self) -> str:
        return " and ".join(dict.fromkeys(f"`{s.spec}` ({s.fault})" for s in self.stories))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """Baseline rates and merged rounds, with times and learners."""

    rounds_per_s: float
    shares: Mapping[str, float]
    """Share of the baseline's rounds with each learner."""
    window_s: float
    times_s: Sequence[float]
    by_learner: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """After each heal, rounds and the victims' contributions come as often as before, in time."""

    name: ClassVar[str] = "recovery"
    summary: ClassVar[str] = "after the heal the old pace is back in time"

    within_s: Duration = 30.0
    """Longest time from the heal to the beginning of a window at the old pace."""
    min_share: Share = binding(0.7, least=0.05, show=show_share)
    """Least share of the baseline's rate, of all rounds and of those with each victim."""

    def __post_init__(self) -> None:
        if self.min_share <= 0:
            raise PlanError("`min_share: 0%` is met whatever happens: use 50%")

    def judge(self, history: History) -> Finding:
        """Judge each heal; one that the next fault followed too soon is left out."""
        pace = _pace(history)
        if pace is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to compare with")
        heals = list(_heals(history))
        after_s = [self._recovered_after_s(heal, pace) for heal in heals]
        judged = list(zip(heals, after_s, strict=True))
        seen = [time_s for time_s in after_s if time_s is not None]
        open_ = [
            str(heal)
            for heal, time_s in judged
            if time_s is None and heal.is_last and not self._had_room(heal, pace)
        ]
        text = f"training went on for too short a time after {' and '.join(open_)}"
        slowest_s = max(seen, default=0.0)
        broken = [
            (heal, violation)
            for heal, after_s in judged
            if (violation := self._violation(heal, after_s, pace)) is not None
        ]
        found = conclude(
            self.name,
            [
                *(violation for _, violation in broken),
                Doubt(Code.TOO_LITTLE_TIME, text) if open_ else None,
            ],
            nothing=Doubt(Code.NO_FAULT, "no fault was healed"),
            passed=f"the old pace was back {after_longest(seen)}",
            samples=len(seen),
            measured=Measured(slowest_s, self.within_s, Unit.SECONDS) if seen else None,
            numbers={
                "recovered_after_s": by_label(
                    (", ".join(story.injection for story in heal.stories) for heal in heals),
                    after_s,
                ),
                "baseline_rounds_per_s": round(pace.rounds_per_s, 3),
                "baseline_shares": {
                    learner: round(share, 3) for learner, share in sorted(pace.shares.items())
                },
                "window_s": round(pace.window_s, 3),
            },
        )
        latest_s = [self._latest_s(heal, pace) for heal, _ in broken]
        found = unless_overrun(found, history, [(at_s, at_s + pace.window_s) for at_s in latest_s])
        return unless_noisy(found, noise_of_rounds(history), self.min_share)

    def _latest_s(self, heal: _Heal, pace: _Pace) -> float:
        """The beginning of the last window in which the old pace had to be back."""
        return min(heal.event.time_s + self.within_s, heal.until_s - pace.window_s)

    def _recovered_after_s(self, heal: _Heal, pace: _Pace) -> float | None:
        """Seconds from the heal to the first window at the old pace; None without one."""
        starts_s = [heal.event.time_s, *(t for t in pace.times_s if t > heal.event.time_s)]
        for start_s in starts_s:
            if start_s + pace.window_s > heal.until_s:
                return None
            if not self._slow(start_s, heal.victims, pace):
                return start_s - heal.event.time_s
        return None

    def _slow(self, start_s: float, victims: Sequence[str], pace: _Pace) -> list[str]:
        """Rates below the bound in the window that begins then."""
        usual = pace.rounds_per_s * pace.window_s
        found = []
        if _count(pace.times_s, start_s, pace) < self.min_share * usual:
            found.append("rounds")
        for victim in victims:
            own = _count(pace.by_learner.get(victim, ()), start_s, pace)
            if own < self.min_share * usual * pace.shares.get(victim, 0.0):
                found.append(f"contributions of {victim}")
        return found

    def _violation(self, heal: _Heal, after_s: float | None, pace: _Pace) -> Violation | None:
        if after_s is not None and after_s <= self.within_s:
            return None
        if after_s is None and not self._had_room(heal, pace):
            return None
        slow = self._slow(self._latest_s(heal, pace), heal.victims, pace) or ["rounds"]
        lasted = "never" if after_s is None else f"only after {after_s:.1f} s"
        culprits = [learner for learner in heal.victims if f"contributions of {learner}" in slow]
        text = (
            f"after fault {heal} the old pace came back {lasted}: {self.within_s:g} s after the "
            f"heal {' and '.join(slow)} came at less than {self.min_share:.0%} of it"
        )
        return Violation.at(heal.event, Code.PACE_NOT_REGAINED, text, ", ".join(culprits))

    def _had_room(self, heal: _Heal, pace: _Pace) -> bool:
        return heal.until_s - heal.event.time_s >= self.within_s + pace.window_s


# ---------------------------------------------------------------- the usual pace


def _pace(history: History) -> _Pace | None:
    end_s = baseline_end_s(history)
    if end_s is None:
        return None
    rounds = [e for e in history.of(RoundMerged) if e.time_s <= end_s][-_BASELINE_ROUNDS:]
    length_s = rounds[-1].time_s - rounds[0].time_s if rounds else 0.0
    if length_s <= 0:
        return None
    rounds_per_s = (len(rounds) - 1) / length_s
    usual = [p for p in parts(history) if rounds[0].seq <= p.merged.seq <= rounds[-1].seq]
    own = Counter(part.learner for part in usual)
    return _Pace(
        rounds_per_s=rounds_per_s,
        shares={learner: count / len(rounds) for learner, count in own.items()},
        window_s=max(_WINDOW_S, _WINDOW_ROUNDS / rounds_per_s),
        times_s=[event.time_s for event in history.of(RoundMerged)],
        by_learner={
            learner: [part.time_s for part in parts_of(history, learner)]
            for learner in history.learners
        },
    )


def _count(times_s: Sequence[float], start_s: float, pace: _Pace) -> int:
    return bisect_right(times_s, start_s + pace.window_s) - bisect_right(times_s, start_s)


# ---------------------------------------------------------------- heals


def _heals(history: History) -> Iterator[_Heal]:
    """One heal for each group of overlapping injections, if it was before the end of training."""
    end_s = training_end_s(history)
    groups = list(_groups(history, end_s))
    for group, following in zip_longest(groups, groups[1:]):
        healed = [s for s in group if s.healing is not None and s.healing.time_s < end_s]
        lasting = {node for s in group if s not in healed for node in s.targets}
        events = [story.healing for story in healed if story.healing is not None]
        if not events:
            continue
        yield _Heal(
            stories=tuple(healed),
            victims=_victims(healed, lasting, history),
            event=max(events, key=lambda event: event.seq),
            until_s=following[0].injecting.time_s if following else end_s,
            is_last=following is None,
        )


def _groups(history: History, end_s: float) -> Iterator[list[FaultStory]]:
    """Injections by which of them overlapped; one that is never healed overlaps with none."""
    group: list[FaultStory] = []
    healed_s = 0.0
    for story in history.faults:
        if story.failed is not None or story.injecting.time_s >= end_s:
            continue
        if group and story.injecting.time_s > healed_s:
            yield group
            group, healed_s = [], 0.0
        group.append(story)
        if story.healing is not None:
            healed_s = max(healed_s, story.healing.time_s)
    if group:
        yield group


def _victims(stories: Sequence[FaultStory], lasting: set[str], history: History) -> tuple[str, ...]:
    """The learners that were hit and are under no injection any more; all if it was the syncer."""
    hit = {node for story in stories for node in story.targets}
    if not hit & set(history.learners):
        hit = set(history.learners)
    return tuple(sorted(hit & set(history.learners) - lasting))
