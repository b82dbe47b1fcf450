"""Outages that take many chips at once: whole domains, or what a recorded trace says.

    domains ─► Poisson processes of wall time ─┐
    trace ───► each learner, from its own place ┴─► Outage(time, length, chips of each learner)

They come in the order of time, one after the other; nothing is kept.
"""

import csv
import heapq
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from chaoslab.plan.schedule.chance import stream
from chaoslab.sim.distributions import Exponential
from chaoslab.sim.renewal.failure_models import HOUR_S, Domain, FailureModel
from chaoslab.sim.renewal.scenario import Scenario


@dataclass(frozen=True, slots=True, order=True)
class Outage:
    """Chips of some learners are gone for a while."""

    time_s: float
    length_s: float
    chips: tuple[tuple[int, float], ...]
    """Learner, and how many of its chips."""


def outages(scenario: Scenario, model: FailureModel, seed: int) -> Iterator[Outage]:
    """All outages of a scenario, in the order of time, without an end."""
    sources = [_of_domain(scenario, domain, seed) for domain in model.domains]
    if model.trace:
        sources += [_of_trace(scenario, model.trace, i, seed) for i in range(scenario.learners)]
    return heapq.merge(*sources)


def _of_domain(scenario: Scenario, domain: Domain, seed: int) -> Iterator[Outage]:
    rng = stream(seed, "domain", domain.name)
    number = math.ceil(scenario.chips / domain.chips)
    gap = Exponential(mean_s=domain.mtbf_s / number)
    time_s = gap.draw(rng)
    while True:
        hit = _parts(scenario, domain.chips, int(rng.random() * number))
        yield Outage(time_s, domain.outage.draw(rng), hit)
        time_s += gap.draw(rng)


def _parts(scenario: Scenario, size: int, index: int) -> tuple[tuple[int, float], ...]:
    """The chips of a domain by learner: both are consecutive ranges of all chips."""
    each = scenario.chips / scenario.learners
    start, stop = index * size, min((index + 1) * size, scenario.chips)
    found = []
    for learner in range(int(start / each), min(math.ceil(stop / each), scenario.learners)):
        chips = min(stop, (learner + 1) * each) - max(start, learner * each)
        if chips > 0:
            found.append((learner, chips))
    return tuple(found)


# ---------------------------------------------------------------- traces


@dataclass(frozen=True, slots=True)
class Preemption:
    """Part of the instances of a trace that was away for a while."""

    time_s: float
    length_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Trace:
    """Recording of a trace."""

    length_s: float
    preemptions: tuple[Preemption, ...]


def _of_trace(scenario: Scenario, name: str, learner: int, seed: int) -> Iterator[Outage]:
    """A trace over and over; its beginning is drawn."""
    trace = read_trace(name)
    start_s = stream(seed, "trace", str(learner)).random() * trace.length_s
    each = scenario.chips / scenario.learners
    lap_s = -start_s
    while True:
        for one in trace.preemptions:
            if lap_s + one.time_s >= 0:
                yield Outage(lap_s + one.time_s, one.length_s, ((learner, one.share * each),))
        lap_s += trace.length_s


@cache
def read_trace(name: str) -> Trace:
    """A trace of the package: lines of hours and instances, of which the most are all.

    What comes before all instances are there for the first time is left out. Instances that are
    still away at the end are away until then.
    """
    text = (resources.files("chaoslab.sim.renewal") / "traces" / f"{name}.csv").read_text("utf-8")
    steps = [(float(hours) * HOUR_S, int(count)) for hours, count in csv.reader(text.splitlines())]
    every = max(count for _, count in steps)
    first = next(n for n, (_, count) in enumerate(steps) if count == every)
    start_s, end_s = steps[first][0], steps[-1][0]
    return Trace(end_s - start_s, tuple(_preemptions(steps[first:], every, start_s, end_s)))


def _preemptions(
    steps: list[tuple[float, int]], every: int, start_s: float, end_s: float
) -> Iterator[Preemption]:
    """The first to leave comes back first: the trace counts instances and does not name them."""
    away: deque[tuple[float, int]] = deque()
    found: list[Preemption] = []
    present = every
    for time_s, count in steps:
        if count < present:
            away.append((time_s, present - count))
        back = count - present
        while back > 0:
            left_s, number = away.popleft()
            if number > back:
                away.appendleft((left_s, number - back))
            took = min(number, back)
            found.append(Preemption(left_s - start_s, time_s - left_s, took / every))
            back -= took
        present = count
    found += [Preemption(at - start_s, end_s - at, number / every) for at, number in away]
    yield from sorted(found, key=lambda one: one.time_s)
