"""At what pace did training go on with what the faults had left of it?

    capacity  ▇▇▇▇▇▇▃▃▃▃▃▃▃▃▇▇▇▇▇▇      expected: the baseline's pace times the share left
    committed ▇▇▇▇▇▇▄▄▃▃▃▄▄▃▆▇▇▇▇▇      observed: tokens merged while a fault was open

While a fault keeps the syncer away nothing is merged, so there it counts until all has been merged
again; of a run that was cut short before that, nothing can be said. More than expected is wrong,
too, if learners keep a step time (`training.step_time`): a learner that is left is no faster than
its chip. Where they share cores without one, more is usual.

Raw tokens, which also count work that was later overwritten or lost, stand beside it.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.base import Finding, Outcome, Unit
from chaoslab.checks.capacity import pace_shares, slowed
from chaoslab.checks.codes import Code
from chaoslab.checks.outages import outages, whole_s
from chaoslab.checks.pacing import noise_of_rounds, unless_noisy, unless_overrun
from chaoslab.checks.stretches import Stretches, overlap_s, union
from chaoslab.checks.timeline import (
    baseline_figure,
    ended_by_its_rule,
    fault_windows,
    trained,
)
from chaoslab.checks.violations import margin_above, margin_below, unknown
from chaoslab.core.binding import binding
from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import (
    LearnerJoined,
    LinkCleared,
    LinkShaped,
    Need,
    NodeExited,
    NodeStarted,
    RoundMerged,
)
from chaoslab.core.units import Share, elapsed, show_share
from chaoslab.record.history import History

_MOMENTS = frozenset({"reset"})
"""Effects on links that are over at once: to come back is the learner's part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """While faults are open, the learners that are left commit tokens at their usual pace."""

    name: ClassVar[str] = "goodput"
    summary: ClassVar[str] = "committed tokens per second against the share of capacity alive"
    needs: ClassVar[Mapping[str, Need]] = {"max_share": Need.STEP_TIME}

    min_share: Share = binding(0.7, least=0.05, show=show_share)
    """Least share of the baseline's token rate times the share of learner time left."""
    max_share: Share | None = binding(None, most=3.0, show=show_share)
    """Largest share of the same; only with `training.step_time`."""
    min_rounds: int = binding(10, least=1)
    """The faults must be open for as long as the baseline needs for this many rounds."""

    def __post_init__(self) -> None:
        if self.min_share <= 0:
            raise PlanError("`min_share: 0%` is met whatever happens: use 50%")
        if self.max_share is not None and self.max_share <= max(1.0, self.min_share):
            raise PlanError(
                f"must be above 100% and above `min_share`, got {show_share(self.max_share)}",
                key="max_share",
            )

    def judge(self, history: History) -> Finding:
        """Compare over all the time in which any fault was open."""
        spans = [(window.start_s, window.end_s) for window in fault_windows(history)]
        caught_up = list(_caught_up(history))
        if caught_up and not caught_up[-1].is_whole and not ended_by_its_rule(history):
            reason = (
                "the run was cut short before what was trained while the syncer was away could be "
                "merged"
            )
            return unknown(self.name, Code.TOO_LITTLE_TIME, reason)
        stretches = union([*spans, *((one.start_s, one.end_s) for one in caught_up)])
        found = unless_overrun(self._compared(history, stretches), history, stretches)
        return unless_noisy(found, noise_of_rounds(history), self.min_share, self.max_share)

    def _compared(self, history: History, stretches: Stretches) -> Finding:
        """The pace in these stretches against that of the baseline."""
        baseline_per_s = baseline_figure(history, lambda usual: usual.tokens_per_s)
        baseline_gap_s = baseline_figure(history, lambda usual: usual.gap_s_median)
        seconds = _length_s(stretches)
        if baseline_per_s is None or baseline_gap_s is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to compare with")
        if not seconds or not history.founders:
            return unknown(self.name, Code.NO_FAULT, "no time was spent under a fault")
        rounds, committed = _committed(history, stretches)
        raw = sum(more for sample, more in trained(history) if _within(stretches, sample.time_s))
        more_s = _joined_s(history, stretches) - _taken_s(history)
        alive = 1 + more_s / (seconds * len(history.founders))
        expected_per_s = baseline_per_s * alive
        numbers = {
            "committed_tokens_per_s": round(committed / seconds, 1),
            "raw_tokens_per_s": round(raw / seconds, 1),
            "baseline_tokens_per_s": round(baseline_per_s, 1),
            "alive_share": round(alive, 4),
            "under_faults_s": round(seconds, 3),
        }
        if expected_per_s <= 0:
            return unknown(
                self.name,
                Code.NO_LEARNER_LEFT,
                f"the faults left no {history.who} to work",
                numbers=numbers,
            )
        if seconds < self.min_rounds * baseline_gap_s:
            reason = f"the faults were open for {elapsed(seconds)} in all, too short to tell a pace"
            return unknown(self.name, Code.TOO_LITTLE_TIME, reason, samples=rounds, numbers=numbers)
        share = committed / seconds / expected_per_s
        bound, code = self._nearest(share)
        is_low = code is Code.PACE_TOO_LOW
        margin = (margin_above if is_low else margin_below)(share, bound, best=1.0)
        is_broken = share < bound if is_low else share > bound
        return Finding(
            check=self.name,
            outcome=Outcome.FAIL if is_broken else Outcome.PASS,
            reason=f"under faults {committed / seconds:,.0f} {history.counted}/s were committed, "
            f"{share:.0%} of the baseline's pace for the {alive:.0%} of {history.who} time that "
            f"was there; the bound is {bound:.0%}",
            codes=(code,) if is_broken else (),
            observed=round(share, 4),
            bound=bound,
            unit=Unit.SHARE,
            margin=margin,
            best=1.0,
            samples=rounds,
            evidence=tuple(window.story.injecting.seq for window in fault_windows(history)),
            numbers=numbers,
        )

    def _nearest(self, share: float) -> tuple[float, Code]:
        """The bound that is broken, or else the nearer one, and the code of its violation."""
        upper = self.max_share
        if upper is not None and upper - share < share - self.min_share:
            return upper, Code.PACE_TOO_HIGH
        return self.min_share, Code.PACE_TOO_LOW


def _committed(history: History, stretches: Stretches) -> tuple[int, float]:
    """Rounds merged within the stretches, and the tokens that they committed."""
    rounds, tokens, before = 0, 0.0, 0.0
    for merged in history.of(RoundMerged):
        now = merged.payload.committed_tokens
        if _within(stretches, merged.time_s):
            rounds, tokens = rounds + 1, tokens + now - before
        before = now
    return rounds, tokens


class _CaughtUp(NamedTuple):
    """An outage of the syncer, until every fragment was merged once more."""

    start_s: float
    end_s: float
    is_whole: bool
    """Whether that was so, or the plan never gives the syncer back."""


def _caught_up(history: History) -> Iterator[_CaughtUp]:
    """Each outage of the syncer.

    What the learners did meanwhile is committed by those merges, so it counts with them.
    """
    for outage in outages(history):
        end_s = whole_s(history, outage)
        yield _CaughtUp(
            start_s=outage.gone_s,
            end_s=outage.until_s if end_s is None else end_s,
            is_whole=end_s is not None or not outage.was_to_be_healed,
        )


def _taken_s(history: History) -> float:
    """Learner-seconds that faults took from those of the start: until each restart or heal, and by
    slowing chips, as their evidence measured it.

    Those of a learner that was slower from the start count for less.
    """
    taken = [(one.learner, _length_s(_taken(one, history))) for one in absences(history)]
    taken += [(one.learner, one.lost_share * (one.end_s - one.start_s)) for one in slowed(history)]
    paces = pace_shares(history)
    return sum(paces.get(learner, 0.0) * time_s for learner, time_s in taken)


def _joined_s(history: History, stretches: Stretches) -> float:
    """Learner-seconds that newcomers added: each life from when it was complete to its end."""
    newcomers, spans = history.newcomers, dict[tuple[str, int], tuple[float, float]]()
    for event in history.of(LearnerJoined, NodeExited) if newcomers else ():
        said = event.payload
        joined = isinstance(said, LearnerJoined)
        life = said.node if isinstance(said, NodeExited) else said.learner, said.incarnation
        if joined and life[0] in newcomers:
            spans.setdefault(life, (event.time_s, history.end_s))
        elif life in spans:
            spans[life] = (spans[life][0], event.time_s)
    return sum(overlap_s(stretches, from_s, until_s) for from_s, until_s in spans.values())


def _taken(absence: Absence, history: History) -> Stretches:
    """All of it but its lives meanwhile; or when its link was cut, if that is what the faults did:
    one that flaps carries bytes in between.
    """
    end_s = absence.since.time_s if absence.since else absence.until_s
    injections = {story.injection for story in absence.stories}
    mine = [
        event
        for event in history.of(LinkShaped, LinkCleared)
        if event.payload.link == absence.learner and event.payload.injection in injections
    ]
    if {event.payload.injection for event in mine} != injections:
        return _without_lives(absence.learner, absence.gone_s, end_s, history)
    stretches: list[tuple[float, float]] = []
    since_s: dict[str, float] = {}
    for event in mine:
        injection = event.payload.injection
        if isinstance(event.payload, LinkCleared):
            stretches += [(since_s.pop(injection, event.time_s), event.time_s)]
        elif event.payload.effect not in _MOMENTS:
            since_s.setdefault(injection, event.time_s)
    stretches += [(start_s, end_s) for start_s in since_s.values()]
    return union((max(a, absence.gone_s), min(b, end_s)) for a, b in stretches if a < end_s)


def _without_lives(learner: str, gone_s: float, end_s: float, history: History) -> Stretches:
    """The time between, except from each start of a process of the learner to its exit.

    A fault may start its victim and end it again, as a storm of rejoins does.
    """
    stretches: list[tuple[float, float]] = []
    since_s: float | None = gone_s
    for event in history.between(gone_s, end_s, NodeStarted, NodeExited):
        if event.payload.node != learner or not gone_s < event.time_s < end_s:
            continue
        if isinstance(event.payload, NodeExited):
            since_s = event.time_s if since_s is None else since_s
        elif since_s is not None:
            stretches.append((since_s, event.time_s))
            since_s = None
    return stretches if since_s is None else [*stretches, (since_s, end_s)]


def _length_s(stretches: Stretches) -> float:
    return sum(end_s - start_s for start_s, end_s in stretches)


def _within(stretches: Stretches, time_s: float) -> bool:
    """Whether a time lies in one of them, which are in order and apart; beginnings are outside."""
    begun = bisect_left(stretches, (time_s,))
    return begun > 0 and time_s <= stretches[begun - 1][1]
