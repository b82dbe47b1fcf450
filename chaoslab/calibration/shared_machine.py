"""Share of one machine that nodes take from each other, and what they need alone.

    machine.sampled ─► cores ─┬─ nodes that started or trained then ─► work of a start
                              └─ processor time of the run's nodes ───► work of a step

A start that took 1.6 s beside three others on two cores is 0.8 s of work: `Costs.cores` makes a
simulation share it out again. Only fleets whose nodes run on the harness's machine are looked at.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import comb
from statistics import median

from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    FaultInjecting,
    LearnerCompiled,
    LearnerStarted,
    LearnerStep,
    MachineSampled,
    NodeExited,
    NodeStarted,
    RunStarted,
    SyncerReady,
)
from chaoslab.record.history import History

_FLEETS = frozenset({"local", "docker"})
"""All of their nodes are on the machine that is sampled."""


def cores_of(history: History) -> int | None:
    """Cores of the machine that all nodes share; None if they do not, or it is not known."""
    begun, sampled = history.last(RunStarted), history.last(MachineSampled)
    if begun is None or sampled is None or begun.payload.fleet not in _FLEETS:
        return None
    return sampled.payload.cores


def work_s(history: History, start_s: float, end_s: float) -> float:
    """Work on one core of a start between these times.

    It depends on the other starts meanwhile, and on the cores that training learners use.
    """
    cores = cores_of(history)
    if cores is None:
        return end_s - start_s
    spans, demand = history.once(_starting), history.once(_demand)

    def rate(time_s: float) -> float:
        """Mean over how many of the learners that train compute at the moment."""
        starting, training = _at(spans, time_s), _at(history.once(_training), time_s)
        return sum(
            comb(training, busy) * demand**busy * (1 - demand) ** (training - busy)
            * min(1.0, cores / max(1, starting + busy))
            for busy in range(training + 1)
        )  # fmt: skip

    times_s = sorted(
        {start_s, end_s, *(time_s for span in spans for time_s in span if start_s < time_s < end_s)}
    )
    return sum((to_s - from_s) * rate((from_s + to_s) / 2) for from_s, to_s in pairwise(times_s))


def step_work_s(history: History, until_s: float) -> Iterator[float]:
    """Processor time of a step, from each second in which no node started.

    That of all nodes by the steps of all learners, so that what else they do counts with them; none
    where learners compute on other devices.
    """
    is_on_cores = all(event.payload.platform == "cpu" for event in history.of(LearnerStarted))
    if cores_of(history) is None or not is_on_cores:
        return
    for event in _undisturbed(history, until_s):
        said = event.payload
        reports = history.between(event.time_s - said.window_s, event.time_s, LearnerStep)
        if steps := sum(report.payload.steps for report in reports):
            yield _used(said) * said.window_s / steps


def _starting(history: History) -> Sequence[tuple[float, float]]:
    """Time of each start of a learner's or syncer's process, until it is ready, or has ended."""
    found = []
    for started in history.of(NodeStarted):
        said = started.payload
        life = said.node, said.incarnation
        ends_s = [
            event.time_s for event in history.of(LearnerCompiled) if event.payload.life == life
        ]
        ends_s += [
            event.time_s
            for event in history.of(NodeExited)
            if (event.payload.node, event.payload.incarnation) == life
        ]
        if said.role == "syncer":
            ends_s += [e.time_s for e in history.of(SyncerReady) if e.seq > started.seq]
        found.append((started.time_s, min(ends_s, default=history.end_s)))
    return found


def _training(history: History) -> Sequence[tuple[float, float]]:
    """Time of each life of a learner from its compilation to its exit."""
    ends_s = {
        (event.payload.node, event.payload.incarnation): event.time_s
        for event in history.of(NodeExited)
    }
    return [
        (event.time_s, ends_s.get(event.payload.life, history.end_s))
        for event in history.of(LearnerCompiled)
    ]


def _demand(history: History) -> float:
    """Cores that a learner uses while it trains: the middle of all seconds before a fault."""
    until_s = next((event.time_s for event in history.of(FaultInjecting)), history.end_s)
    used = [_used(event.payload) for event in _undisturbed(history, until_s)]
    return min(1.0, median(used) / len(history.founders)) if used and history.founders else 0.0


def _undisturbed(history: History, until_s: float) -> Iterator[Event[MachineSampled]]:
    """Samples of the machine in whose window learners trained and no node started."""
    starting, training = history.once(_starting), history.once(_training)
    for event in history.between(0.0, until_s, MachineSampled):
        since_s = event.time_s - event.payload.window_s
        if any(from_s < event.time_s and to_s > since_s for from_s, to_s in starting):
            continue
        if _at(training, since_s):
            yield event


def _used(said: MachineSampled) -> float:
    """Cores that the nodes used."""
    return said.own_cores - said.harness_cores


def _at(spans: Sequence[tuple[float, float]], time_s: float) -> int:
    return sum(from_s <= time_s < to_s for from_s, to_s in spans)
