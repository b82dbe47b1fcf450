"""Cells that are real runs: a plan with some of its keys changed, on its own fleet.

    {plan: kill_half, training.compression: int4} ─► chaoslab run ─► verdict, journal ─► measures

Each run is on record like every other, in `runs`. The twin is left out. A run in which learners
could not keep their step time says more of the machine than of the cell: it is made again, unless
the cell allows it (`lost_periods`), as losses and bytes depend on no step time. One that the
harness could not finish gives no result and ends the experiment, which goes on with the same
command.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from chaoslab.checks.absence import absences
from chaoslab.checks.bandwidth import Bandwidth
from chaoslab.checks.pacing import lost_share
from chaoslab.checks.timeline import baseline_end_s, longest_gap, trained, training_end_s
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.core.events import Json
from chaoslab.core.payloads import EvaluationMeasured, LearnerStep, RoundMerged
from chaoslab.experiments import plan_cells, run_measures
from chaoslab.experiments.plan_cells import PlanCell
from chaoslab.experiments.units import MTOKENS, NATS, SECONDS, TIMES, Unit
from chaoslab.prepare.plans import Prepared, prepare
from chaoslab.record.history import History
from chaoslab.run.judged_run import JudgedRun, run_and_judge

MEASURES: Final = (
    "passes", "fails", *run_measures.MEASURES,
    "gap", "stall", "rejoin", "saving", "mean_rate", "peak_rate", "bytes_per_token",
    "loss", "tokens_to_loss", "time_to_loss",
)  # fmt: skip
_RATE: Final = Unit(symbol="kB/s", scale=1e-3)
UNITS: Final[Mapping[str, Unit]] = {
    **run_measures.UNITS, "gap": SECONDS, "stall": SECONDS, "rejoin": SECONDS, "saving": TIMES,
    "mean_rate": _RATE, "peak_rate": _RATE, "bytes_per_token": Unit(symbol="B"), "loss": NATS,
    "tokens_to_loss": MTOKENS, "time_to_loss": SECONDS,
}  # fmt: skip
_RUNS: Final = Path("runs")
_ATTEMPTS: Final = 3
"""Runs of one cell and seed, if the machine disturbs them."""


def cell_of(value: object) -> PlanCell:
    """The cell of a mapping of settings; PlanError if the plan is refused."""
    return plan_cells.cell_of(value, fleet=None)


def measure(cell: PlanCell, seed: int) -> Mapping[str, float]:
    """Run it and measure from the end of the baseline to the end of training.

    What this run cannot show, such as the rejoin of a learner where none was taken away, is
    infinite. FleetError if the harness broke, or the machine is too busy; KeyboardInterrupt if it
    was interrupted.
    """
    prepared = prepare(cell.asked(seed))
    for _ in range(_ATTEMPTS):
        judged = _finished(prepared)
        lost = _lost_share(judged.history)
        if lost <= cell.lost_periods:
            code = judged.verdict.exit_code
            return {
                "passes": float(code is ExitCode.PASS),
                "fails": float(code is ExitCode.FAIL),
                **run_measures.measures(prepared.plan, judged.history),
                **_of_real_runs(judged.history),
                **_to_loss(judged.history, cell.loss_to_reach),
            }
    raise FleetError(
        f"{judged.directory.path}: learners lost {lost:.0%} of their periods, and more than "
        f"{cell.lost_periods:.0%} in {_ATTEMPTS} runs: leave the machine alone, or set a longer "
        "`training.step_time`"
    )


def _finished(prepared: Prepared) -> JudgedRun:
    """A run that went to its end."""
    judged = run_and_judge(prepared, _RUNS)
    if judged.error is not None:
        raise judged.error
    if judged.verdict.exit_code is ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if judged.verdict.exit_code is ExitCode.BROKEN:
        raise FleetError(f"{judged.directory.path} broke off: see its report")
    return judged


def _lost_share(history: History) -> float:
    """Lost share of the periods of untargeted learners, in the measured time."""
    stretch = baseline_end_s(history) or 0.0, training_end_s(history)
    return lost_share(history, [stretch]) or 0.0


def _of_real_runs(history: History) -> Mapping[str, float]:
    start_s, end_s = baseline_end_s(history), training_end_s(history)
    clocks_s = [one.clock_s(one.accepted) for one in absences(history)]
    back_s = [clock_s for clock_s in clocks_s if clock_s is not None]
    is_whole = bool(clocks_s) and len(back_s) == len(clocks_s)
    links = Bandwidth().judge(history).numbers
    evaluated = history.last(EvaluationMeasured)
    return {
        "gap": math.inf if start_s is None else longest_gap(history, start_s, end_s).length_s,
        "stall": _longest_stall_s(history),
        "rejoin": max(back_s) if is_whole else math.inf,
        "saving": _highest({"": links.get("saving_factor")}),
        "mean_rate": _highest(links.get("mean_bytes_per_s")),
        "peak_rate": _highest(links.get("peak_bytes_per_s")),
        "bytes_per_token": _bytes_per_token(history, links.get("arrived_bytes")),
        "loss": evaluated.payload.loss if evaluated else math.inf,
    }


def _bytes_per_token(history: History, arrived: Json) -> float:
    """Bytes that arrived at all ends of all links, for each token that was trained meanwhile."""
    start_s, end_s = baseline_end_s(history) or 0.0, training_end_s(history)
    tokens = sum(amount for step, amount in trained(history) if start_s < step.time_s <= end_s)
    amounts = arrived.values() if isinstance(arrived, Mapping) else ()
    total = sum(float(one) for one in amounts if isinstance(one, int | float))
    return total / tokens if total and tokens else math.inf


def _to_loss(history: History, loss: float | None) -> Mapping[str, float]:
    """Merged tokens, and time since the first of them was trained, at which that held-out loss was
    reached: on straight lines between the snapshots that were evaluated.
    """
    tokens, time_s = math.inf, math.inf
    points = [(e.payload.committed_tokens, e.payload.loss) for e in history.of(EvaluationMeasured)]
    for (earlier, before), (later, after) in pairwise(sorted(points)):
        if loss is not None and after <= loss < before:
            tokens = earlier + (later - earlier) * (before - loss) / (before - after)
            break
    began_s = next((e.time_s - e.payload.step_s for e in history.of(LearnerStep)), 0.0)
    for one in history.of(RoundMerged):
        if one.payload.committed_tokens >= tokens:
            time_s = one.time_s - began_s
            break
    return {"tokens_to_loss": tokens, "time_to_loss": time_s}


def _longest_stall_s(history: History) -> float:
    """Longest time between two reports of steps of a learner that no fault had."""
    start_s, end_s = baseline_end_s(history) or 0.0, training_end_s(history)
    had = {target for story in history.faults for target in story.targets}
    times_s: dict[str, list[float]] = {name: [start_s] for name in set(history.learners) - had}
    for one in history.between(start_s, end_s, LearnerStep):
        if one.payload.steps and one.payload.learner in times_s:
            times_s[one.payload.learner].append(one.time_s)
    gaps = (
        after - before for seen in times_s.values() for before, after in pairwise([*seen, end_s])
    )
    return max(gaps, default=math.inf)


def _highest(values: Json) -> float:
    """Largest number of an object; infinite without one."""
    found = values.values() if isinstance(values, Mapping) else ()
    return max((float(one) for one in found if isinstance(one, int | float)), default=math.inf)
