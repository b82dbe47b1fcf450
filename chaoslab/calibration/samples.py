"""Samples of each cost that a journal contains: what work took in one real run.

    History ─┬─ undisturbed: until the first fault ─► steps, pushes, merges, links
             └─ all of it ──────────────────────────► starts, ends, checkpoints ─► cost ─► samples

A cost is a field of `sim.costs.Costs`. Times are taken where both ends of a piece of work are
reported. What is not reported (`decode_s`, `up_bytes_share`) is not measured.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, TypeAlias

from chaoslab.calibration.shared_machine import cores_of, step_work_s, work_s
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    CheckpointFound,
    CheckpointSaved,
    EvaluationMeasured,
    FaultInjecting,
    HostStarted,
    LearnerAdopted,
    LearnerCompiled,
    LearnerLeft,
    LearnerPushed,
    LearnerStarted,
    LearnerStep,
    LinkMeasured,
    LinkOpened,
    NodeExited,
    NodeStarted,
    PaceSet,
    PushAccepted,
    RoundMerged,
    RoundStored,
    SyncerFinal,
    SyncerReady,
)
from chaoslab.record.history import History
from chaoslab.sim.costs import FLOP, Costs

Samples: TypeAlias = Mapping[str, Sequence[float]]
_Life: TypeAlias = tuple[str, int]
_KILLED_S = 2.0
"""A process that exits later than this after a fault was not ended by that fault."""
_NORMAL = 1.4826
"""Standard deviation of a normal distribution by its median absolute deviation."""


def samples_of(history: History) -> Samples:
    """Durations of each piece of work of this run by cost, in the order of its journal."""
    found: dict[str, list[float]] = defaultdict(list)
    for measure in (_starts, _ends, _steps, _pushes, _merges, _checkpoints, _links, _evaluation):
        for cost, value in measure(history):
            found[cost].append(value)
    return dict(found)


# ---------------------------------------------------------------- starts and ends


def _starts(history: History) -> Iterator[tuple[str, float]]:
    """Times from the start of each process to its first report."""
    begun = {_life(event): event.time_s for event in history.of(NodeStarted)}
    for started in history.of(LearnerStarted):
        if (began_s := begun.get(started.payload.life)) is not None:
            yield "start_s", work_s(history, began_s, started.time_s)
    for compiled in history.of(LearnerCompiled):
        if not compiled.payload.compiled:
            end_s = compiled.time_s
            yield "compile_s", work_s(history, end_s - compiled.payload.took_s, end_s)
    syncers = [event for event in history.of(NodeStarted) if event.payload.role == "syncer"]
    for ready in history.of(SyncerReady):
        earlier = [event.time_s for event in syncers if event.seq < ready.seq]
        if earlier:
            cost = "syncer_resume_s" if ready.payload.is_recovered else "syncer_start_s"
            yield cost, work_s(history, earlier[-1], ready.time_s)
    if (cores := cores_of(history)) is not None:
        yield "cores", float(cores)


def _ends(history: History) -> Iterator[tuple[str, float]]:
    """Times from the last report, or from a fault that kills, to the exit."""
    left = {event.payload.life: event.time_s for event in history.of(LearnerLeft)}
    finals = history.of(SyncerFinal)
    kills = [event for event in history.of(FaultInjecting) if event.payload.takes_away]
    for exited in history.of(NodeExited):
        life = _life(exited)
        if exited.payload.exit_code == 0 and life in left:
            yield "leave_s", exited.time_s - left[life]
        for final in finals:
            if exited.payload.exit_code == 0 and exited.payload.node == final.source:
                yield "syncer_leave_s", exited.time_s - final.time_s
        if exited.payload.signal == "SIGKILL":
            delays_s = [
                exited.time_s - kill.time_s
                for kill in kills
                if exited.payload.node in kill.payload.targets
                and 0 <= exited.time_s - kill.time_s <= _KILLED_S
            ]
            if delays_s:
                yield "exit_s", min(delays_s)


# ---------------------------------------------------------------- learners


def _steps(history: History) -> Iterator[tuple[str, float]]:
    """Steps without pace and waits: the speed of the chip, and how much they vary."""
    until_s, parameters = _until_s(history), _parameters(history)
    hosts: dict[_Life, int] = defaultdict(int)
    for event in history.of(HostStarted):
        hosts[event.payload.life] += 1
    paced = next((event for event in history.of(PaceSet)), None)
    works_s = tuple(step_work_s(history, until_s))
    for life, steps in _by_life(history, until_s).items():
        tokens = _tokens_per_step(steps)
        free = [one for one in steps[1:] if one.period_s is None and not one.waited_s]
        usual_s = median(one.step_s for one in free) if free else None
        for one in free:
            if usual_s:
                yield "spread", _NORMAL * one.steps**0.5 * abs(one.step_s / usual_s - 1)
        if usual_s is None and paced is not None:
            usual_s = paced.payload.measured_s.get(life[0])
        if works_s:
            usual_s = median(works_s)
        if usual_s and tokens and life in parameters:
            chips = hosts.get(life) or 1
            yield "flops_per_s", FLOP * parameters[life] * tokens / (usual_s * chips)


def _by_life(history: History, until_s: float) -> Mapping[_Life, Sequence[LearnerStep]]:
    """Reports of steps before `until_s`, by learner and incarnation."""
    found: dict[_Life, list[LearnerStep]] = defaultdict(list)
    for event in history.of(LearnerStep):
        if event.time_s < until_s and event.payload.steps:
            found[event.payload.life].append(event.payload)
    return found


def _tokens_per_step(steps: Sequence[LearnerStep]) -> float | None:
    """Tokens of one step of a learner, by two of its reports."""
    for before, after in pairwise(steps):
        if after.steps == after.step - before.step:
            return (after.tokens - before.tokens) / after.steps
    return None


def _pushes(history: History) -> Iterator[tuple[str, float]]:
    """Times from a push to its acceptance, without link and syncer; and its size."""
    until_s, links = _until_s(history), _links_of(history)
    pushed = {(one.payload.life, one.payload.round): one for one in history.of(LearnerPushed)}
    for event in history.of(PushAccepted):
        said = event.payload
        if event.time_s >= until_s:
            continue
        begun = pushed.get((said.life, said.round))
        if begun is not None:
            elsewhere_s = links.decode_s + links.latency_s
            if said.payload_bytes is not None:
                elsewhere_s += said.payload_bytes / links.rate_bytes_per_s
            yield "push_s", max(0.0, event.time_s - begun.time_s - elsewhere_s)
        if said.norm is not None and said.c_steps:
            yield "norm", said.norm / said.c_steps**0.5


def _checkpoints(history: History) -> Iterator[tuple[str, float]]:
    """Duration of a checkpoint to disk, and its size."""
    until_s, parameters = _until_s(history), _parameters(history)
    for event in history.of(CheckpointSaved):
        if event.time_s >= until_s:
            continue
        yield "save_s", event.payload.took_s
        if parameters.get(event.payload.life):
            yield "checkpoint_bytes", event.payload.bytes / parameters[event.payload.life]


# ---------------------------------------------------------------- the syncer


def _merges(history: History) -> Iterator[tuple[str, float]]:
    """Merge, write and publication of rounds that all answered; then adoptions."""
    until_s = _until_s(history)
    accepted = {event.payload.round: event.time_s for event in history.of(PushAccepted)}
    stored = {event.payload.round: event for event in history.of(RoundStored)}
    published: dict[tuple[int, int], float] = {}
    for event in history.of(RoundMerged):
        said = event.payload
        if event.time_s >= until_s or said.is_restated:
            continue
        published[said.fragment, said.version] = event.time_s
        on_disk = stored.get(said.round)
        if on_disk is None:
            continue
        yield "store_s", on_disk.payload.took_s
        yield "publish_s", max(0.0, event.time_s - on_disk.time_s)
        if not said.missed and said.round in accepted:
            merged_s = on_disk.time_s - on_disk.payload.took_s - accepted[said.round]
            yield "merge_s", max(0.0, merged_s)
    yield from _adoptions(history, published)


def _adoptions(
    history: History, published: Mapping[tuple[int, int], float]
) -> Iterator[tuple[str, float]]:
    """Times from publication to adoption, less half a step on the average and the way there."""
    halves_s = {
        life: median(one.step_s for one in steps) / 2
        for life, steps in _by_life(history, _until_s(history)).items()
    }
    delays_s: dict[_Life, list[float]] = defaultdict(list)
    for event in history.of(LearnerAdopted):
        at_s = published.get((event.payload.fragment, event.payload.version))
        if at_s is not None and event.payload.life in halves_s:
            delays_s[event.payload.life].append(event.time_s - at_s)
    for life, waited_s in delays_s.items():
        yield "adopt_s", max(0.0, median(waited_s) - halves_s[life])


# ---------------------------------------------------------------- links and evaluation


def _links(history: History) -> Iterator[tuple[str, float]]:
    """Links without effects: round trips, rates, and the time that a connection takes."""
    until_s = _until_s(history)
    for event in history.of(LinkMeasured):
        said = event.payload
        if event.time_s >= until_s:
            continue
        if said.probe_rtt_s is not None:
            yield "latency_s", said.probe_rtt_s / 2
        if said.timed_bytes and said.timed_s:
            yield "rate_bytes_per_s", said.timed_bytes / said.timed_s
    found = {event.payload.life: event.time_s for event in history.of(CheckpointFound)}
    for opened in history.of(LinkOpened):
        began_s = found.pop(opened.payload.life, None)
        if began_s is not None and opened.payload.attempts == 1 and opened.time_s < until_s:
            yield "connect_s", max(0.0, opened.time_s - began_s - 2 * Costs().latency_s)


def _evaluation(history: History) -> Iterator[tuple[str, float]]:
    """The evaluator: to its first report, and from one to the next."""
    measured = [event.time_s for event in history.of(EvaluationMeasured)]
    begun = [event.time_s for event in history.of(NodeStarted) if event.payload.role == "evaluator"]
    if measured and begun:
        yield "evaluator_start_s", max(0.0, measured[0] - begun[-1])
    for before_s, after_s in pairwise(measured):
        yield "evaluate_s", after_s - before_s


# ---------------------------------------------------------------- what they share


def _links_of(history: History) -> Costs:
    """Latency and rate of the links of this run, in their medians; the rest are defaults."""
    found: dict[str, list[float]] = defaultdict(list)
    for cost, value in _links(history):
        found[cost].append(value)
    measured = ("latency_s", "rate_bytes_per_s")
    known: dict[str, Any] = {cost: median(found[cost]) for cost in measured if found[cost]}
    return Costs(**known)


def _until_s(history: History) -> float:
    """Beginning of the first fault; infinite without one."""
    return next((event.time_s for event in history.of(FaultInjecting)), float("inf"))


def _parameters(history: History) -> Mapping[_Life, float]:
    return {event.payload.life: event.payload.parameters for event in history.of(LearnerStarted)}


def _life(event: Event[NodeStarted] | Event[NodeExited]) -> _Life:
    return event.payload.node, event.payload.incarnation
