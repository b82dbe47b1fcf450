"""Effects of mild faults that the record still shows after their heal.

    before ──┤▇▇ fault: measured ▇▇ heal ├─ 3 s ─┤ own steps, round trips, rates ├─►
                                                 next fault on the target, or the end of training

An effect goes on if at least half of what the evidence measured of it is there from the heal on. A
learner's slowness is taken against that of learners without a fault. Nothing is said of a target
with too few samples, nor of one on which other faults overlap.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from chaoslab.checks.timeline import of_learner, of_learner_between, training_end_s
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    EvidenceMeasured,
    LearnerStep,
    LinkMeasured,
    PaceSet,
    Status,
)
from chaoslab.record.history import FaultStory, History

_CALM_AFTER_S = 3.0
"""Traces of a fault may be seen this long after its heal."""
_CALM_BEFORE_S = 20.0
"""Seconds before the fault in which the pace of the others is looked up."""
_LEAST_SAMPLES = 5
_GOES_ON_SHARE = 0.5
"""Least share of the measured effect; 50 % is the tolerance of most evidence."""
_HELD_SHARE = 0.7
"""Least share of the samples with the effect."""
_LEAST_SLOWER = 0.25
"""A learner that takes less time than that beyond its own pace cannot be told from noise."""
_LEAST_RTT_S = 0.01
_THIN_SHARE = 1 / 3
"""Share of the usual rate above which a link was not thinned by its fault, and is not judged."""
_AS_THIN = 1.5
"""Times the rate under the fault: a link that carries no more is as thin as then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """An effect on one target that goes on after the heal."""

    story: FaultStory
    text: str
    last: Event
    """The last sample that shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _After:
    """One target after the heal of one injection, and its measurements before."""

    history: History
    story: FaultStory
    target: str
    measured: Mapping[str, float]
    start_s: float
    end_s: float


def lasting(history: History) -> Iterator[Lasting]:
    """Targets of proved and healed injections on which the effect lasts."""
    for story in history.faults:
        for event in story.evidence:
            after = _after(history, story, event.payload)
            if after is not None:
                yield from _slow(after)
                yield from _far(after)
                yield from _thin(after)


def _after(history: History, story: FaultStory, said: EvidenceMeasured) -> _After | None:
    """State after the heal; None if it is not proved or not healed, or another fault overlaps."""
    start_s, end_s = _over_s(story), training_end_s(history)
    if said.status is not Status.PROVED or end_s <= start_s:
        return None
    for other in history.faults:
        if other.injection == story.injection or said.target not in other.targets:
            continue
        if other.injecting.time_s >= start_s:
            end_s = min(end_s, other.injecting.time_s)
        elif _over_s(other) > story.injecting.time_s:
            return None
    numbers = {k: float(v) for k, v in said.measured.items() if isinstance(v, int | float)}
    return _After(
        history=history, story=story, target=said.target, measured=numbers,
        start_s=start_s, end_s=end_s,
    )  # fmt: skip


def _over_s(story: FaultStory) -> float:
    return story.healed.time_s + _CALM_AFTER_S if story.healed else inf


# ---------------------------------------------------------------- steps


def _slow(after: _After) -> Iterator[Lasting]:
    """Steps that still take as long as under the fault."""
    ratio, own_s = after.measured.get("step_ratio", 0.0), after.measured.get("step_s_before", 0.0)
    if own_s <= 0 or ratio < 1 + _LEAST_SLOWER:
        return
    samples, others = _steps(after, after.target), _others(after)
    if others is None or len(samples) < _LEAST_SAMPLES:
        return
    least = 1 + max(_LEAST_SLOWER, _GOES_ON_SHARE * (ratio - 1))
    times_s = [event.payload.step_s for event in samples]
    slow = [event for event in samples if event.payload.step_s >= least * own_s * others]
    now = median(times_s) / own_s / others
    if now >= least and _are_most(slow, samples):
        text = f"{after.target} took {ratio:.2f}x its own step time under it, and {now:.2f}x after"
        yield Lasting(story=after.story, text=text, last=slow[-1])


def _steps(after: _After, learner: str) -> Sequence[Event[LearnerStep]]:
    """Samples that lie in the time after the heal."""
    within = of_learner_between(after.history, LearnerStep, learner, after.start_s, after.end_s)
    return [
        event
        for event in within
        if event.payload.step_s > 0
        if event.time_s - event.payload.step_s * event.payload.steps >= after.start_s
    ]


def _others(after: _After) -> float | None:
    """Slowdown of learners without a fault, at least 1; None if it is not known."""
    history, begin_s = after.history, after.story.injecting.time_s
    from_s = begin_s - _CALM_BEFORE_S
    hit = {
        target
        for story in history.faults
        if story.injecting.time_s < after.end_s and _over_s(story) > from_s
        for target in story.targets
    }
    found = []
    for learner in set(history.learners) - hit:
        calm = of_learner_between(history, LearnerStep, learner, from_s, begin_s)
        before = [event.payload.step_s for event in calm if event.payload.step_s > 0]
        since = [event.payload.step_s for event in _steps(after, learner)]
        if min(len(before), len(since)) >= _LEAST_SAMPLES:
            found.append(median(since) / median(before))
    if not found:
        return 1.0 if history.last(PaceSet) is not None else None
    return max(1.0, median(found))


# ---------------------------------------------------------------- links


def _far(after: _After) -> Iterator[Lasting]:
    """Round trips that still take as long as under the fault, by the shortest of each report."""
    added_s, usual_s = after.measured.get("added_rtt_s"), after.measured.get("usual_rtt_s")
    if added_s is None or usual_s is None:
        return
    is_probed = "probes_answered" in after.measured
    trips = [
        (event, rtt_s)
        for event in _reports(after)
        if (rtt_s := event.payload.probe_rtt_s_min if is_probed else event.payload.rtt_s_min)
        is not None
    ]
    least_s = usual_s + max(_LEAST_RTT_S, _GOES_ON_SHARE * added_s)
    far = [event for event, rtt_s in trips if rtt_s >= least_s]
    if len(trips) >= _LEAST_SAMPLES and _are_most(far, trips):
        more_s = median(rtt_s for _, rtt_s in trips) - usual_s
        text = (
            f"a round trip of {after.target} took {1000 * added_s:.0f} ms more under it, and "
            f"{1000 * more_s:.0f} ms more after"
        )
        yield Lasting(story=after.story, text=text, last=far[-1])


def _thin(after: _After) -> Iterator[Lasting]:
    """Payloads that still arrive as slowly as under the fault."""
    for way in ("up", "down"):
        rate = after.measured.get(f"{way}_bytes_per_s", inf)
        usual = after.measured.get(f"usual_{way}_bytes_per_s", 0.0)
        if rate > _THIN_SHARE * usual:
            continue
        timed = [
            event
            for event in _reports(after)
            if event.payload.direction == way and event.payload.timed_s > 0
        ]
        if len(timed) < _LEAST_SAMPLES:
            continue
        now = sum(e.payload.timed_bytes for e in timed) / sum(e.payload.timed_s for e in timed)
        if now <= _AS_THIN * rate:
            text = (
                f"payloads of {after.target} came {way} at {rate / 1e3:,.1f} kB/s under it, and "
                f"at {now / 1e3:,.1f} kB/s after"
            )
            yield Lasting(story=after.story, text=text, last=timed[-1])


def _reports(after: _After) -> Sequence[Event[LinkMeasured]]:
    """Reports on windows after the heal."""
    return [
        event
        for event in of_learner(after.history, LinkMeasured, after.target)
        if after.start_s <= event.time_s - event.payload.window_s and event.time_s <= after.end_s
    ]


def _are_most(some: Sequence[object], samples: Sequence[object]) -> bool:
    return len(some) >= _HELD_SHARE * len(samples)
