"""Bursts: how much of one learner's pushes reaches the syncer close together.

    push.accepted of one learner ─► bytes in every window as long as one round takes on average
        ─► the busiest window, as a multiple of the mean rate in the baseline

Rounds that are spread evenly put one fragment into a window; fragments that are due together put a
whole model into it. Only what rounds carry counts: neither the checkpoint of a learner that rejoins
nor what was refused. Decides nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from chaoslab.checks.timeline import baseline_end_s, training_end_s
from chaoslab.core.events import Event
from chaoslab.core.payloads import PushAccepted, RoundMerged
from chaoslab.record.history import History

_LEAST = 10
"""Pushes in the baseline that are enough for a mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """The busiest window of one learner."""

    learner: str
    window_s: float
    mean_bytes: float
    """Bytes of a window at the mean rate of the baseline."""
    factor: float
    """Bytes of the window, divided by those of the baseline."""
    last: Event[PushAccepted]
    """The push with which it ended."""


def bursts(history: History, since_s: float = 0.0, until_s: float = inf) -> Sequence[Burst]:
    """Burst of each learner with enough pushes of a known size in the baseline.

    The busiest window of the time from `since_s` to `until_s`, as far as the baseline was over.
    """
    window_s = _mean_gap_s(history)
    if window_s is None:
        return ()
    judged_s = max(since_s, baseline_end_s(history) or 0.0), min(until_s, training_end_s(history))
    found = (
        _burst(learner, pushes, window_s, baseline_end_s(history) or 0.0, *judged_s)
        for learner, pushes in _sized(history)
    )
    return [burst for burst in found if burst is not None]


def _sized(history: History) -> Iterator[tuple[str, Sequence[Event[PushAccepted]]]]:
    """The pushes of each learner in order, as far as their sizes are known."""
    by_learner: Mapping[str, list[Event[PushAccepted]]] = {name: [] for name in history.learners}
    for event in history.of(PushAccepted):
        if event.payload.payload_bytes is not None and event.payload.learner in by_learner:
            by_learner[event.payload.learner].append(event)
    yield from by_learner.items()


def _mean_gap_s(history: History) -> float | None:
    """Mean time between two merged rounds of the baseline: H steps / P."""
    merged = [*history.between(0.0, baseline_end_s(history) or 0.0, RoundMerged)]
    if len(merged) < _LEAST:
        return None
    return (merged[-1].time_s - merged[0].time_s) / (len(merged) - 1)


def _burst(
    learner: str,
    pushes: Sequence[Event[PushAccepted]],
    window_s: float,
    baseline_s: float,
    since_s: float,
    until_s: float,
) -> Burst | None:
    calm = [event for event in pushes if event.time_s <= baseline_s]
    judged = [event for event in pushes if since_s < event.time_s <= until_s]
    calm_bytes = sum(map(_size, calm[1:]))
    if len(calm) < _LEAST or not judged or not calm_bytes:
        return None
    mean_bytes = calm_bytes * window_s / (calm[-1].time_s - calm[0].time_s)
    busiest_bytes, last = max(_windows(judged, window_s), key=lambda found: found[0])
    return Burst(
        learner=learner,
        window_s=window_s,
        mean_bytes=mean_bytes,
        factor=busiest_bytes / mean_bytes,
        last=last,
    )


def _windows(
    pushes: Sequence[Event[PushAccepted]], window_s: float
) -> Iterator[tuple[int, Event[PushAccepted]]]:
    """The bytes in the window that ends with each push, the push included."""
    first, held_bytes = 0, 0
    for event in pushes:
        held_bytes += _size(event)
        while pushes[first].time_s <= event.time_s - window_s:
            held_bytes -= _size(pushes[first])
            first += 1
        yield held_bytes, event


def _size(event: Event[PushAccepted]) -> int:
    return event.payload.payload_bytes or 0
