"""`chaoslab plans`: the plans that come with chaoslab."""

from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import RenderableType

from chaoslab.cli import completing
from chaoslab.cli.commands.catalogue import chosen, details, lines
from chaoslab.cli.commands.output import examples, json_option, print_result, shown_path
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.plan.file import load
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import bundled_plans


@click.command(
    name="plans",
    epilog=examples("chaoslab plans", "chaoslab plans kill", "chaoslab plans kill_half --json"),
)
@click.argument("name", required=False, shell_complete=completing.plan_names)
@json_option
def command(*, name: str | None, as_json: bool) -> None:
    """List the plans that come with chaoslab.

    NAME is a plan such as `kill_half`, or a part of names. Every other plan is a file of yours:
    `chaoslab run my_plan.yaml`.
    """
    paths = chosen(name, bundled_plans(), noun="plan")
    found = {path: load(path, kinds())[0] for path in paths.values()}
    first = next(iter(paths))
    then = (f"chaoslab plan {first}", "preview it: which learners are hit, and when")
    value = [plan_json(path, plan) for path, plan in found.items()]
    print_result(value, _page(found), as_json=as_json, then=then)


def plan_json(path: Path, plan: FaultPlan) -> Mapping[str, Json]:
    """What a plan is for, what it does, and where its file is."""
    return {
        "plan": plan.name,
        "description": plan.description,
        "fleet": plan.fleet.kind,
        "learners": plan.training.learner_count,
        "faults": [spec.fault for spec in plan.faults],
        "expect": [spec.check for spec in plan.expect],
        "path": str(path),
    }


def _page(found: Mapping[Path, FaultPlan]) -> RenderableType:
    if len(found) > 1:
        return lines("plan", ((plan.name, plan.description) for plan in found.values()))
    ((path, plan),) = found.items()
    learners = plural(plan.training.learner_count, "learner")
    return details(
        plan.name,
        plan.description,
        [
            ("faults", "\n".join(f"{spec.fault} ({spec.id})" for spec in plan.faults)),
            ("expects", ", ".join(spec.check for spec in plan.expect)),
            ("training", f"{learners} on fleet {plan.fleet.kind}"),
            ("file", f"{shown_path(path)}; copy it to change it"),
        ],
    )
