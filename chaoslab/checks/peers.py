"""A learner's samples beside those of its peers at the same time, in windows of its duty.

    learner-2   on duty │ a round of each fragment │ window │ …
                                                     └─ peers that no fault had taken away by then;
                                                        if none is left, the others that came back

Samples of a learner that is not on duty are not counted. A learner that was never away is compared
with its like alone: of two, the one that was not away shows what is usual. Reads only.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from statistics import median_high, median_low
from typing import TypeVar

from chaoslab.checks.absence import absences
from chaoslab.checks.duty import duty
from chaoslab.checks.stretches import Stretches, holds
from chaoslab.checks.timeline import of_learner, of_learner_between, once, rounds_with_work
from chaoslab.core.events import Event
from chaoslab.core.payloads import OfLearner
from chaoslab.record.history import History

_S = TypeVar("_S", bound=OfLearner)
Samples = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Times of the samples on duty, in order, and their values, by learner."""
WINDOW = 12
"""Samples of a window; a peer must have a third of them in that time."""


def windows(history: History, learner: str, kind: type[_S]) -> Iterator[Sequence[Event[_S]]]:
    """Half-overlapping windows of its samples while it trains from the state of all."""
    for start_s, end_s in _at_work(history).get(learner, ()):
        samples = of_learner_between(history, kind, learner, start_s, end_s)
        ends = {*range(WINDOW, len(samples) + 1, WINDOW // 2), len(samples)}
        for end in sorted(ends):
            if end >= WINDOW:
                yield samples[end - WINDOW : end]


def on_duty(
    history: History, kind: type[_S], value: Callable[[Event[_S]], float | None]
) -> Samples:
    """The samples of a kind; those without a value are left out."""
    known = duty(history)
    found = {}
    for learner, stretches in known.of.items() if known else ():
        own = sorted(
            (event.time_s, said)
            for event in of_learner(history, kind, learner)
            if holds(stretches, event.time_s) and (said := value(event)) is not None
        )
        found[learner] = [time_s for time_s, _ in own], [said for _, said in own]
    return found


def beside(
    history: History,
    learner: str,
    window: Sequence[Event[_S]],
    samples: Samples,
) -> Sequence[Sequence[float]]:
    """The values of each of its peers during a window of a learner; those with too few samples are
    left out.
    """
    found = []
    for name in never_away(history, window[-1].time_s) or history.learners:
        times_s, values = samples.get(name, ((), ()))
        first = bisect_left(times_s, window[0].time_s)
        end = bisect_right(times_s, window[-1].time_s)
        if name != learner and end - first >= WINDOW // 3:
            found.append(values[first:end])
    return found


def never_away(history: History, until_s: float) -> Sequence[str]:
    """The learners of the start that no fault had taken away by then."""
    gone_s = first_gone_s(history)
    return [learner for learner in history.learners if gone_s[learner] > until_s]


def middle_near(values: Sequence[float], own: float) -> float:
    """The middle one; of two in the middle that which is nearer, as either may be the wrong one."""
    return min(median_low(values), median_high(values), key=lambda value: abs(value - own))


@once
def first_gone_s(history: History) -> Mapping[str, float]:
    """By learner: when a fault first took it away. One that was brought in was never there."""
    found = {learner: inf if learner in history.founders else -inf for learner in history.learners}
    for absence in absences(history):
        found[absence.learner] = min(found[absence.learner], absence.gone_s)
    return found


@once
def _at_work(history: History) -> Mapping[str, Stretches]:
    """Duty by learner, each stretch from the time when every fragment was merged in it."""
    known = duty(history)
    rounds = rounds_with_work(history)
    times_s = [event.time_s for event in rounds]
    fragments = len({event.payload.fragment for event in rounds})
    found: dict[str, list[tuple[float, float]]] = {}
    for learner, stretches in known.of.items() if known else ():
        wholes = [(bisect_right(times_s, a) + fragments - 1, b) for a, b in stretches]
        found[learner] = [
            (times_s[at], b) for at, b in wholes if at < len(times_s) and times_s[at] < b
        ]
    return found
