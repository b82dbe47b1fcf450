"""Simulated runs of plans: a plan on the sim fleet, in a folder that is removed, and its verdict.

Prepared ─► run_plan on the sim fleet ─► JudgedRun: history and verdict, without the folder
"""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from chaoslab.core.errors import ExitCode, HarnessBug
from chaoslab.plan.model import FaultPlan
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.prepare.links import link_setup
from chaoslab.prepare.plans import Prepared, fleet_setup
from chaoslab.prepare.setup import PlanText
from chaoslab.run.experiment import run_plan
from chaoslab.run.judged_run import JudgedRun, expected, read_and_judge


def made_ready(plan: FaultPlan) -> Prepared:
    """A plan that was made here and stands in no file; PlanError if it cannot be scheduled."""
    roster = roster_of(plan)
    return Prepared(
        plan=plan,
        roster=roster,
        schedule=schedule(plan, roster),
        text=PlanText(source="", resolved=""),
        fleet_setup=fleet_setup(plan),
        links=link_setup(plan),
    )


def simulated(prepared: Prepared) -> JudgedRun:
    """Simulate a plan and judge it by its own checks.

    PlanError or AbilityError if it is refused; KeyboardInterrupt if it was interrupted, which says
    nothing about the plan.
    """
    if not prepared.fleet_setup.is_simulated:
        raise HarnessBug(f"{prepared.plan.name} would be run on a fleet that is not simulated")
    judge = partial(read_and_judge, checks=expected(prepared.plan))
    with TemporaryDirectory(prefix="chaoslab-simulated-") as folder:
        judged = run_plan(prepared, Path(folder), judge=judge)
    if judged.verdict.exit_code is ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return judged
