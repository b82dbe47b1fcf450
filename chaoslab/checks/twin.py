"""Comparability of a run with its fault-free twin: its own, whole, and another record.

run.started of both ─► same seed, learners, training, data, code, machine? ─┐
the twin's record ───► ended by its stop rule, evaluated, no node lost? ────┴─► "", or why not
"""

from collections.abc import Callable, Iterator, Mapping

from chaoslab.core.payloads import (
    EvaluationMeasured,
    FaultInjecting,
    NodeExited,
    NodeStarted,
    PaceSet,
    RoundMerged,
    RunFinished,
    RunOutcome,
    RunStarted,
    SyncerFinal,
)
from chaoslab.record.history import History

_ALIKE: Mapping[str, Callable[[RunStarted], object]] = {
    "seed": lambda started: started.seed,
    "algorithm": lambda started: started.algorithm,
    "learners": lambda started: started.learners,
    "reserve": lambda started: started.reserve,
}
"""Facts of every record that must be equal; `provenance` has the rest."""
_PACE_TOLERANCE = 0.2
"""By this much step times that each run measured for itself may differ: a kept twin is compared at
equal tokens, not at equal times."""


def why_not_comparable(run: History, twin: History) -> str:
    """Why the twin cannot be compared with the run; empty if it can."""
    mine, other = run.last(RunStarted), twin.last(RunStarted)
    if mine is None or other is None:
        return f"the record of the {'run' if mine is None else 'twin'} has no beginning"
    if list(run.events) == list(twin.events):
        return "it is the record of the run itself"
    if not other.payload.is_twin or twin.of(FaultInjecting):
        return "it is a run of its own, and no fault-free twin"
    parts = _differences(mine.payload, other.payload), _other_images(run, twin), _pace(run, twin)
    if differences := [one for part in parts for one in part]:
        return f"it differs from the run in {', '.join(differences)}"
    return why_not_whole(twin)


def why_not_whole(history: History) -> str:
    """What a run lacks that ended by its stop rule, was evaluated and lost no node on the way."""
    finished, started = history.last(RunFinished), history.of(NodeStarted)
    if finished is None:
        return "its record breaks off"
    if finished.payload.outcome is not RunOutcome.COMPLETED or finished.payload.reason:
        return f"it was {finished.payload.outcome} ({finished.payload.reason or 'no reason'})"
    names = {event.payload.node for event in started}
    if absent := [name for name in history.founders if name not in names]:
        return f"{', '.join(absent)} never started"
    if not history.of(RoundMerged) or history.last(SyncerFinal) is None:
        return "it merged nothing, or did not end by its stop rule"
    if not history.of(EvaluationMeasured):
        return "it was not evaluated"
    lost = [e.payload.node for e in history.of(NodeExited) if e.payload.exit_code != 0]
    return f"it lost {', '.join(dict.fromkeys(lost))}" if lost else ""


def _differences(mine: RunStarted, its: RunStarted) -> list[str]:
    """Differences; a fact that only one of them has counts."""
    found = [name for name, part in _ALIKE.items() if part(mine) != part(its)]
    ours, theirs = mine.provenance, its.provenance
    parts = sorted(key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key))
    return list(dict.fromkeys([*found, *parts]))


def _pace(run: History, twin: History) -> Iterator[str]:
    """Step times that are too far apart, or that only one of them kept."""
    ours, theirs = run.last(PaceSet), twin.last(PaceSet)
    if ours is None and theirs is None:
        return
    if ours is None or theirs is None:
        yield f"the step time, which only the {'twin' if ours is None else 'run'} kept"
        return
    step_s, its_s = ours.payload.step_s, theirs.payload.step_s
    if abs(its_s / step_s - 1) > _PACE_TOLERANCE:
        yield f"the step time ({its_s * 1000:.0f} ms instead of {step_s * 1000:.0f} ms)"


def _other_images(run: History, twin: History) -> list[str]:
    """Whether a container of the twin came from an image that none of the run's came from."""
    ours, theirs = (
        {event.payload.image_id for event in history.of(NodeStarted)} for history in (run, twin)
    )
    return [] if theirs <= ours else ["the image of its containers"]
