"""Search for seeds whose plans violate an invariant, and the least part of a plan that still does.

seeds ─► draw ─► run, on all cores ─► Trial ─► failing? ─► shrink ─► Shrunk
                                                            └─ replay.minimise
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from itertools import islice

from chaoslab.core.errors import PlanError
from chaoslab.core.workers import workers
from chaoslab.fuzz.plans import draw
from chaoslab.fuzz.trial import Trial, run, without
from chaoslab.plan.model import FaultPlan
from chaoslab.replay.minimise import Answer, Budget, Candidate, Ending, minimise

RUNS_MOST = 300
"""Simulations that one seed is shrunk by."""
_AHEAD = 4
"""Seeds that wait for each worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The least part of a failing plan that fails in the same way."""

    plan: FaultPlan
    trial: Trial
    ending: Ending
    runs: int
    """Simulations that it took."""


def try_seed(seed: int) -> tuple[int, Trial]:
    """Simulate the plan of a seed."""
    return seed, run(draw(seed))


def try_seeds(seeds: Iterable[int], *, jobs: int) -> Iterator[tuple[int, Trial]]:
    """Simulate the plans of all seeds, by so many processes; with one, in this process.

    With several, each seed comes when it is done.
    """
    if jobs == 1:
        yield from map(try_seed, seeds)
        return
    left = iter(seeds)
    with workers(jobs) as pool:
        running: set[Future[tuple[int, Trial]]] = set()
        try:
            while True:
                for seed in islice(left, jobs * _AHEAD - len(running)):
                    running.add(pool.submit(try_seed, seed))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from sorted((one.result() for one in done), key=lambda one: one[0])
        finally:
            for future in running:
                future.cancel()


def shrink(
    failing: Trial,
    *,
    runs: int = RUNS_MOST,
    simulate: Callable[[FaultPlan], Trial] = run,
    now_s: Callable[[], float] = time.monotonic,
) -> Shrunk:
    """The fewest, shortest, mildest of its injections that violate one of the same invariants."""
    trials: dict[Candidate, Trial] = {}

    def answer(candidate: Candidate) -> Answer:
        try:
            trial = simulate(without(failing.plan, candidate))
        except PlanError:
            return Answer.IMPOSSIBLE
        trials[candidate] = trial
        return Answer.FAILS if trial.violations & failing.violations else Answer.PASSES

    found = minimise(failing.injections, answer, Budget(runs=runs, now_s=now_s))
    return Shrunk(
        plan=without(failing.plan, found.best),
        trial=trials.get(found.best, failing),
        ending=found.ending,
        runs=len(trials),
    )
