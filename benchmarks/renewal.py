"""Speed of the renewal simulation against SimPy, on the same model with the same results.

    python benchmarks/renewal.py [--seeds 5] [--days 10] [--json] [--no-fail]

    Scenario ─┬─► chaoslab.sim.renewal ──► goodput, uptime, changes, seconds
              └─► a SimPy twin, twice ───► the same

The twin is a process for each learner, as SimPy programs are, and is spared what chaoslab is
spared: failures of all chips of a learner are one Poisson process, not a process for each chip, and
repairs are drawn by the same inversion. It draws one number at a time, as SimPy programs do, and
once more from batches of numbers, which shows how little of the ratio these are. It has exponential
failures alone; hangs, bad machines and outages are not part of the scenario. Needs SimPy (`pip
install -e '.[dev]'`). Processor time, in turns.

Two more figures show what chaoslab's cost grows with: the same failures among 16 times as many
chips should take the same time, and ten years the same memory as one.
"""

import argparse
import math
import sys
import tracemalloc
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import chain, count
from random import Random
from statistics import fmean, median
from time import process_time
from typing import Any

import numpy as np
import simpy
from figures import Cell, Figure, MachineLoad, Result, add_options, finish

from chaoslab.plan.schedule.chance import stream
from chaoslab.sim.distributions import Distribution, Exponential
from chaoslab.sim.renewal.engine import simulate
from chaoslab.sim.renewal.failure_models import YEAR_S, FailureModel
from chaoslab.sim.renewal.scenario import Policy, Scenario

NOISE_POINTS = 0.5
"""Most that the mean goodput of both may differ, in percentage points."""
LEAST_RATIO = 10.0
"""Least changes per second, of those of SimPy."""
LEAST_OF_MANY_CHIPS = 0.8
"""Least changes per second of many chips, of those of few with the same failures."""
MOST_MEMORY = 1.2
"""Most memory of ten years, of that of one."""
SCENARIO = Scenario(policy=Policy.DECOUPLED, chips=1_200_000, learners=8, quorum=4)
BATCH = 512
DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one simulator made of one seed."""

    goodput: float
    uptime: float
    changes: int
    took_s: float
    """Processor time."""


def main() -> int:
    """Measure and print; the exit code says whether the targets are met."""
    options = _options()
    load = MachineLoad()
    scenario = replace(SCENARIO, horizon_s=options.days * DAY_S)
    ours, twins, batched, few, many = [], [], [], [], []
    for seed in range(options.seeds):
        ours.append(_ours(scenario, seed))
        twins.append(_twin(scenario, seed, _one_by_one))
        batched.append(_twin(scenario, seed, _batched))
        few.append(_of_chips(scenario, seed, shares=16))
        many.append(_of_chips(scenario, seed, shares=1))
    _peak_bytes(years=1)  # what is made once
    costs = (
        Figure(name="changes per second of 2,400,000 chips / 150,000 with the same failures",
               observed=_median_rate(many) / _median_rate(few), at_least=LEAST_OF_MANY_CHIPS,
               samples=options.seeds),
        Figure(name="peak memory of 10 years / of 1 year", samples=1,
               observed=_peak_bytes(years=10) / _peak_bytes(years=1), at_most=MOST_MEMORY),
    )  # fmt: skip
    return finish([_result(scenario, ours, twins, batched, costs, load.place())], options)


def _result(
    scenario: Scenario,
    ours: Sequence[Measured],
    twins: Sequence[Measured],
    batched: Sequence[Measured],
    costs: Sequence[Figure],
    place: Mapping[str, Cell],
) -> Result:
    days = scenario.horizon_s / DAY_S
    rate, twins_rate, batched_rate = map(_median_rate, (ours, twins, batched))
    apart = 100 * abs(fmean(o.goodput for o in ours) - fmean(t.goodput for t in twins))
    return Result(
        number=14,
        name="renewal",
        what=f"{days:g} days of {scenario.chips:,} chips in {scenario.learners} learners, "
        "by chaoslab and by SimPy",
        command="python benchmarks/renewal.py",
        figures=(
            Figure(name="changes per second / those of SimPy", observed=rate / twins_rate,
                   at_least=LEAST_RATIO, samples=len(ours)),
            Figure(name="the same / those of SimPy with batches of draws",
                   observed=rate / batched_rate, samples=len(ours)),
            Figure(name="difference of the mean goodputs", observed=apart, unit="points",
                   at_most=NOISE_POINTS, samples=len(ours)),
            *costs,
        ),
        rows=tuple(
            {
                "simulator": name,
                "goodput": fmean(one.goodput for one in found),
                "uptime": fmean(one.uptime for one in found),
                "changes": sum(one.changes for one in found),
                "changes per second": _median_rate(found),
            }
            for name, found in (
                ("chaoslab", ours), (f"SimPy {simpy.__version__}", twins),
                (f"SimPy {simpy.__version__}, batches of draws", batched),
            )
        ),
        place=place,
    )  # fmt: skip


def _median_rate(found: Sequence[Measured]) -> float:
    return median(one.changes / one.took_s for one in found)


def _ours(scenario: Scenario, seed: int, model: FailureModel | None = None) -> Measured:
    began_s = process_time()
    found = simulate(scenario, seed, model=model)
    took_s = process_time() - began_s
    return Measured(
        goodput=found.goodput, uptime=found.uptime, changes=found.changes, took_s=took_s
    )


def _of_chips(scenario: Scenario, seed: int, *, shares: int) -> Measured:
    """A share of 2,400,000 chips, each of which fails as many times more often."""
    model = FailureModel(mtbi_s=YEAR_S / shares, source="one failure per chip and year")
    some = replace(scenario, chips=2_400_000 // shares, slice_chips=4096 // shares)
    return _ours(some, seed, model)


def _peak_bytes(*, years: int) -> int:
    scenario = replace(SCENARIO, chips=150_000, horizon_s=years * YEAR_S)
    tracemalloc.start()
    simulate(scenario, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


# ---------------------------------------------------------------- the twin


@dataclass(slots=True)
class Quorum:
    """Time in which enough learners train."""

    env: simpy.Environment
    quorum: int
    training: int
    advanced_s: float = 0.0
    _since_s: float = 0.0

    def change(self, by: int) -> None:
        """A learner stops to train, or trains again."""
        self.settle()
        self.training += by

    def settle(self) -> None:
        """Account for the time up to now."""
        if self.training >= self.quorum:
            self.advanced_s += self.env.now - self._since_s
        self._since_s = self.env.now


@dataclass(slots=True)
class Twin:
    """One learner."""

    env: simpy.Environment
    scenario: Scenario
    quorum: Quorum
    draws: "Draws"
    trained_s: float = 0.0
    useful_s: float = 0.0
    changes: int = 0
    out: float = 0.0
    returns: list[tuple[float, float]] = field(default_factory=list)
    """When chips are back, and how many."""

    def train(self) -> Generator[Any, Any, None]:
        """Train, fail or grow, pause, and again."""
        env, scenario = self.env, self.scenario
        life, repair = self.draws.life, self.draws.repair
        chips, every_s = scenario.chips / scenario.learners, scenario.grow_every_s
        while True:
            fails_at = self.trained_s + life() / (chips - self.out)
            grows_at = math.inf
            if self.returns:
                ready_at = self.trained_s + max(0.0, self.returns[0][0] - env.now)
                grows_at = math.ceil(ready_at / every_s) * every_s
                grows_at += every_s * (grows_at <= self.trained_s)
            lasts_s = min(fails_at, grows_at) - self.trained_s
            rest_s = scenario.horizon_s - env.now
            self.useful_s += max(0.0, min(lasts_s, rest_s)) * (1 - self.out / chips)
            yield env.timeout(lasts_s)
            self.trained_s += lasts_s
            if grows_at <= fails_at:
                while self.returns and self.returns[0][0] <= env.now + 1e-6:
                    self.out -= heappop(self.returns)[1]
            else:
                heappush(self.returns, (env.now + repair(), scenario.slice_chips))
                self.out += scenario.slice_chips
            self.changes += 1
            self.quorum.change(-1)
            yield env.timeout(scenario.change_s)
            self.quorum.change(+1)


@dataclass(frozen=True, slots=True)
class Draws:
    """Random times: until one of many chips fails, by their number, and of a repair."""

    life: Callable[[], float]
    repair: Callable[[], float]


def _one_by_one(rng: Random, life: Exponential, repair: Distribution) -> Draws:
    rate = 1 / life.mean_s
    return Draws(lambda: rng.expovariate(rate), lambda: repair.draw(rng))


def _batched(rng: Random, life: Exponential, repair: Distribution) -> Draws:
    shares = np.random.Generator(np.random.PCG64(rng.getrandbits(128)))

    def endless(distribution: Distribution) -> Callable[[], float]:
        batches = (distribution.quantiles(shares.random(BATCH)).tolist() for _ in count())
        return chain.from_iterable(batches).__next__

    return Draws(endless(life), endless(repair))


def _twin(
    scenario: Scenario,
    seed: int,
    draws: Callable[[Random, Exponential, Distribution], Draws],
) -> Measured:
    began_s = process_time()
    env = simpy.Environment()
    quorum = Quorum(env, scenario.quorum, scenario.learners)
    life = Exponential(mean_s=scenario.model.mtbi_s)
    learners = [
        Twin(env, scenario, quorum,
             draws(stream(seed, "twin", str(number)), life, scenario.repair))
        for number in range(scenario.learners)
    ]  # fmt: skip
    for learner in learners:
        env.process(learner.train())
    env.run(until=scenario.horizon_s)
    quorum.settle()
    took_s = process_time() - began_s
    useful_s = sum(learner.useful_s for learner in learners)
    return Measured(
        goodput=useful_s / (scenario.horizon_s * scenario.learners),
        uptime=quorum.advanced_s / scenario.horizon_s,
        changes=sum(learner.changes for learner in learners),
        took_s=took_s,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--days", type=float, default=10.0)
    add_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
