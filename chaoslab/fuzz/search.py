"""Search for seeds whose plans violate an invariant, and the least part of a plan that still does.

seeds ─► draw ─► run, on all cores ─► Trial ─► failing? ─► shrink ─► Shrunk
                                                            └─ replay.minimise

A trial simulates a plan in a folder that is removed:

FaultPlan ─► schedule ─► run_plan on the sim fleet ─► verdict ─► violations of the invariants
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ChaoslabError, PlanError
from chaoslab.core.payloads import RoundMerged, RunFinished, RunOutcome, Status
from chaoslab.core.workers import workers
from chaoslab.experiments.simulated_runs import made_ready
from chaoslab.fuzz.plans import draw, is_possible
from chaoslab.plan.model import FaultPlan, Injection
from chaoslab.replay.explicit import explicit
from chaoslab.replay.minimise import Answer, Budget, Candidate, Ending, minimise
from chaoslab.run.experiment import run_plan
from chaoslab.run.judged_run import expected, read_and_judge

_CHECKS = ("versions", "ledger", "agreement", "quorum_progress", "succession", "handover")
INVARIANTS = frozenset({*_CHECKS, "unasked", "strangers"})
"""Checks and rules that apply whatever is done to a training."""
HARNESS = "harness"
"""Stands for a check where the run itself broke or did not end by its stop rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result of one plan."""

    plan: FaultPlan
    injections: tuple[Injection, ...]
    violations: frozenset[tuple[str, str]]
    """Check and code of each invariant that was violated."""
    reasons: tuple[str, ...] = ()
    """A sentence for each."""
    rounds: int = 0
    proved: int = 0
    """Number of injections whose effect was proved."""

    @property
    def is_failing(self) -> bool:
        """Whether an invariant was violated."""
        return bool(self.violations)


def run(plan: FaultPlan) -> Trial:
    """Simulate a plan and judge it. PlanError for one that is refused.

    KeyboardInterrupt if it was interrupted: that says nothing about the plan.
    """
    prepared = made_ready(plan)
    injections = prepared.schedule.injections
    with TemporaryDirectory(prefix="chaoslab-fuzz-") as folder:
        try:
            directory = run_plan(prepared, Path(folder), judge=lambda run: run)
        except PlanError:
            raise
        except ChaoslabError as error:
            return Trial(
                plan=plan,
                injections=injections,
                violations=frozenset({(HARNESS, type(error).__name__)}),
                reasons=(str(error),),
            )
        judged = read_and_judge(directory, expected(plan))
    found, reasons = _violations(judged.verdict)
    finished = judged.history.last(RunFinished)
    outcome = finished.payload.outcome if finished else None
    if outcome is RunOutcome.INTERRUPTED:
        raise KeyboardInterrupt
    if outcome is not RunOutcome.COMPLETED:
        found |= {(HARNESS, str(outcome))}
        reasons.append(f"the run ended as {outcome}, not by its stop rule")
    return Trial(
        plan=plan,
        injections=injections,
        violations=frozenset(found),
        reasons=tuple(reasons),
        rounds=len(judged.history.of(RoundMerged)),
        proved=sum(one.status is Status.PROVED for one in judged.verdict.injections),
    )


def without(plan: FaultPlan, injections: Sequence[Injection]) -> FaultPlan:
    """The plan with these injections alone; PlanError if it would be refused."""
    reduced = replace(explicit(plan, injections), seed=plan.seed)
    if injections and not is_possible(reduced):
        raise PlanError("this part of the plan is refused")
    return reduced


def _violations(verdict: Verdict) -> tuple[set[tuple[str, str]], list[str]]:
    failing = [
        finding
        for finding in verdict.findings
        if finding.outcome is Outcome.FAIL and finding.check in INVARIANTS
    ]
    codes = {(one.check, code) for one in failing for code in one.codes or ("",)}
    return codes, [f"{one.check}: {one.reason}" for one in failing]


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
    """Simulate the plans of all seeds, by this many processes; with one, in this process.

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
