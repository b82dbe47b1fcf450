"""Cells that are fault plans: a plan with some of its keys changed, simulated on the sim fleet.

    {plan: mixed_generations, training.quorum: 8} ─► plan.resolved.yaml ─► sim fleet ─► measures

Every plan that `chaoslab run … --fleet sim` takes can be a cell. Keys are written as after `--set`.
The twin is left out, since nothing is trained.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from chaoslab.checks.pacing import LOST_MOST
from chaoslab.core import units
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.experiments import run_measures
from chaoslab.experiments.simulated_runs import simulated
from chaoslab.plan.file.document import Tree
from chaoslab.prepare.named_files import digest
from chaoslab.prepare.plans import Asked, prepare

MEASURES: Final = ("passes", *run_measures.MEASURES)
_PLAN = "plan"
_LOSS, _LOST = "loss_to_reach", "lost_periods"
_OF_REAL_RUNS: Final = (_LOSS, _LOST)
_ALWAYS: Final = ("twin=false",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCell:
    """A plan with its keys."""

    plan: str
    """A path, or the name of a plan that comes with chaoslab."""
    settings: tuple[str, ...]
    """`key=value`, each."""
    resolved: str
    """The plan with all of its keys: what the results depend on."""
    fleet: str | None = "sim"
    """The fleet; None: the plan's own."""
    loss_to_reach: float | None = None
    """Held-out loss in nats: how soon a real run has it is measured."""
    lost_periods: float = LOST_MOST
    """Largest share of their periods that learners of a real run may lose."""
    contents: str | None = None
    """Digest of the files that the plan names; None: it names none."""

    def asked(self, seed: int) -> Asked:
        """The plan as the command line would name it."""
        return Asked(plan=self.plan, settings=self.settings, seed=seed, fleet=self.fleet)


def cell_of(value: object, fleet: str | None = "sim") -> PlanCell:
    """The cell of a mapping of settings; PlanError if the plan is refused."""
    given: Mapping[str, Tree] = value if isinstance(value, dict) else {}
    plan = given.get(_PLAN)
    if not isinstance(plan, str):
        raise PlanError("needs a plan: write `plan: kill_half` in `base`, or a path", key=_PLAN)
    for key in _OF_REAL_RUNS:
        if key in given and fleet == "sim":
            raise PlanError("is for real runs: use `run: plan`", key=key)
    loss, lost = given.get(_LOSS), given.get(_LOST)
    if loss is not None and (isinstance(loss, bool) or not isinstance(loss, int | float)):
        raise PlanError(f"must be a number of nats such as 1.8, not {loss!r}", key=_LOSS)
    settings = (
        *_ALWAYS,
        *(
            f"{key}={_text(value)}"
            for key, value in given.items()
            if key not in {_PLAN, *_OF_REAL_RUNS}
        ),
    )
    cell = PlanCell(
        plan=plan,
        settings=settings,
        resolved="",
        fleet=fleet,
        loss_to_reach=loss,
        lost_periods=LOST_MOST if lost is None else _share(lost),
    )
    try:
        prepared = prepare(cell.asked(seed=0))
    except PlanError as error:
        raise PlanError(str(error), key=_PLAN) from error
    return replace(
        cell,
        resolved=prepared.text.resolved,
        contents=digest(prepared.plan, is_simulated=prepared.fleet_setup.is_simulated),
    )


def measure(cell: PlanCell, seed: int) -> Mapping[str, float]:
    """Measures from the end of the baseline to the end of training, and whether the plan passes."""
    prepared = prepare(cell.asked(seed))
    judged = simulated(prepared)
    passes = float(judged.verdict.exit_code is ExitCode.PASS)
    return {"passes": passes, **run_measures.measures(prepared.plan, judged.history)}


def _share(value: Tree) -> float:
    try:
        return units.share(str(value))
    except PlanError as error:
        raise PlanError(str(error), key=_LOST) from error


def _text(value: Tree) -> str:
    """A value as it stands behind `--set key=`."""
    return value if isinstance(value, str) else json.dumps(value)
