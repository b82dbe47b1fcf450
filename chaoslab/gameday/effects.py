"""Effects of a fault of a game-day on training: gaps between rounds, and the way back.

rounds ──┼──┼──┼───── longest gap ─────┼──┼──┼──►
           injecting ──── healing ─┬─ first contribution of each victim
                 └── stretch ──────┼──────┘
                                   └ back ┘
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from chaoslab.checks.absence import absences
from chaoslab.checks.outages import outages
from chaoslab.checks.stretches import union
from chaoslab.checks.timeline import (
    Gap,
    baseline_figure,
    ended_by_its_rule,
    fault_windows,
    gaps,
    training_end_s,
)
from chaoslab.record.history import History

GAP_FACTOR = 3.0
"""Training continues while no gap is longer than this many median gaps of the baseline, …"""
GAP_FLOOR_S = 1.5
"""… or than this, which a busy machine may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """How long something took, to the millisecond as in the verdict where that shows it, too."""

    length_s: float
    is_whole: bool = True
    """False: training, or the run, ended before it was over, so that it took at least as long."""


def bound_s(history: History) -> float | None:
    """Longest gap with which training still continues, in seconds; None without a baseline."""
    median_s = baseline_figure(history, lambda usual: usual.gap_s_median)
    return None if median_s is None else max(GAP_FLOOR_S, GAP_FACTOR * median_s)


class _Return(NamedTuple):
    """The way back of one victim, or of a learner that lost the syncer."""

    gone_s: float
    back_s: float
    """Time at which it was back, or was awaited no more."""
    took_s: float | None
    """Time since the heal; None: it did not come back."""
    waited_s: float
    """Time for which it was awaited after the heal."""


def _returns(history: History, spec: str) -> Iterator[_Return]:
    for absence in absences(history):
        if spec in {story.spec for story in absence.stories}:
            took_s, waited_s = absence.clock_s(absence.accepted), absence.waited_s
            waited_s = waited_s if absence.since else 0.0
            yield _Return(absence.gone_s, absence.back_s, took_s, waited_s)
    for outage in outages(history):
        if outage.story.spec == spec:
            waited_s = outage.until_s - outage.healed_s
            for learner, heard in outage.returns.items():
                heard_s = heard.time_s if heard else outage.until_s
                back_s = max(outage.healed_s, heard_s)
                yield _Return(outage.gone_s, back_s, outage.after_s(learner), waited_s)


def _stretches(history: History, spec: str) -> Iterator[tuple[float, float]]:
    """Time of each injection from its beginning until its victims are back, or training ended."""
    for window in fault_windows(history):
        if window.story.spec == spec:
            yield window.start_s, window.end_s
    for one in _returns(history, spec):
        yield one.gone_s, one.back_s


def longest_gap(history: History, spec: str) -> Span | None:
    """The longest gap that overlaps the stretches of a fault, counted in full."""
    end_s, found = training_end_s(history), list[Gap]()
    stretches = union(_stretches(history, spec))
    for start_s, until_s in stretches:
        reaching = gaps(history, start_s, end_s)
        found += [gap for gap in reaching if gap.start_s < until_s or gap.start_s <= start_s]
    if not found:
        return None
    longest = max(found, key=lambda gap: gap.length_s)
    is_cut = stretches[-1][1] >= end_s and not ended_by_its_rule(history)
    return Span(length_s=longest.length_s, is_whole=not is_cut)


def continued(history: History, gap: Span | None) -> bool | None:
    """False also for a gap that was cut short, if it was too long by then."""
    limit_s = bound_s(history)
    if gap is None or limit_s is None:
        return None
    if gap.length_s > limit_s:
        return False
    return True if gap.is_whole else None


def back(history: History, spec: str) -> Span | None:
    """Of the last that was back; if one was not, for how long it had been awaited, 0 if never."""
    found = list(_returns(history, spec))
    if missing_s := [one.waited_s for one in found if one.took_s is None]:
        return Span(length_s=round(max(missing_s), 3), is_whole=False)
    took_s = [one.took_s for one in found if one.took_s is not None]
    return Span(length_s=round(max(took_s), 3)) if took_s else None
