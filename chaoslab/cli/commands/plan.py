"""`chaoslab plan`: what would happen to which nodes, and what it takes."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.archive.index import index
from chaoslab.cli.commands.options import plan_options
from chaoslab.cli.commands.output import (
    advise,
    examples,
    json_option,
    out_option,
    paired,
    print_result,
)
from chaoslab.core.events import Json
from chaoslab.core.units import STEP_TIME, Pacing, plural, show_duration, show_share
from chaoslab.faults.base import Fault
from chaoslab.fleet.base import Ability
from chaoslab.fleet.settings import Explains, FleetSettings
from chaoslab.fleet.stressors import Mechanism
from chaoslab.plan.file.document import Tree
from chaoslab.plan.file.writing import changed, listed, written
from chaoslab.plan.model import FaultPlan, Training
from chaoslab.plan.schedule import RESERVE, Schedule, preview, to_lines
from chaoslab.prepare.duration import estimated_s, guessed_step_s
from chaoslab.prepare.kinds import fleet_of
from chaoslab.prepare.links import caveats, link_kind, why_this_kind
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.prepare.preflight import refuse_impossible
from chaoslab.record.provenance import cores


@click.command(
    name="plan",
    epilog=examples(
        "chaoslab plan kill_half",
        "chaoslab plan my_plan.yaml --set training.learners=8 --seed 11 --json",
    ),
)
@plan_options
@out_option
@json_option
def command(*, asked: Asked, out: Path, as_json: bool) -> None:
    """Validate and preview a fault plan; start nothing.

    Prints the schedule that the seed gives, the learners that are hit, the abilities that the fleet
    needs, warnings, and the expected duration. Exit code 2 if the plan cannot run here.
    """
    prepared = prepare(asked)
    lasted_s = _lasted_s(out, prepared)
    value = prepared.text.secrets.data(preview_json(prepared, lasted_s))
    print_result(value, _page(prepared, lasted_s), as_json=as_json)
    fleet, links = prepared.fleet_setup.fleet, prepared.links
    refuse_impossible(prepared.plan, prepared.schedule, fleet, links)
    if not as_json:
        if said := fleet.explain() if isinstance(fleet, Explains) else "":
            click.echo(said)
        advise(f"chaoslab run {asked.again()}", "do it")


def preview_json(prepared: Prepared, lasted_s: float | None) -> Mapping[str, Json]:
    """The whole preview as one JSON object; `lasted_s` is what `_lasted_s` found."""
    plan = prepared.plan
    whole = written(plan)
    injections, dropped = _lines(prepared)
    return {
        "plan": plan.name,
        "description": plan.description,
        "seed": prepared.schedule.seed,
        "fleet": prepared.fleet_setup.fleet.kind,
        "fleet_settings": _changed(plan.fleet.settings),
        "programs": dict(plan.fleet.programs),
        "links": link_kind(plan),
        "links_settings": _changed(plan.fleet.links_settings),
        "profiles": dict(plan.fleet.profiles),
        "warnings": list(prepared.warnings),
        "caveats": list(caveats(plan, prepared.schedule)),
        "roster": [
            {"name": node.name, "role": node.role, "labels": node.labels}
            for node in prepared.roster
        ],
        "injections": injections,
        "dropped": dropped,
        "needs": sorted(needs(prepared)),
        "slow": _slowing(prepared.schedule, fleet_of(plan)),
        "stop": whole["training"]["stop"] if isinstance(whole["training"], dict) else {},
        "limits": whole["limits"],
        "twin": plan.twin,
        "expect": [spec.check for spec in plan.expect],
        "lasted_s": lasted_s,
        "estimated_s": estimated_s(plan, prepared.schedule, guess_s=_guess_s(prepared)),
    }


def needs(prepared: Prepared) -> frozenset[str]:
    """The abilities that the scheduled faults and their triggers ask of the fleet."""
    injections = prepared.schedule.injections
    faults = [one.settings for one in injections]
    found = {need.value for fault in faults if isinstance(fault, Fault) for need in fault.needs}
    return frozenset(found | {Ability.HOOKS.value for one in injections if one.watched})


def _lines(prepared: Prepared) -> tuple[list[Json], list[Json]]:
    found = [json.loads(line) for line in to_lines(prepared.schedule)]
    injections = [line for line in found if "injection" in line]
    return injections, [line for line in found if "dropped" in line]


def _page(prepared: Prepared, lasted_s: float | None) -> RenderableType:
    hidden = prepared.text.secrets.text
    lines = [
        *((title, "bold", text) for title, text in _facts(prepared, lasted_s).items()),
        *(("warning", "bold red", said) for said in prepared.warnings),
        *(("note", "bold yellow", said) for said in caveats(prepared.plan, prepared.schedule)),
    ]
    name = Text(f" {prepared.plan.name} ", style="reverse")
    injections = (hidden(one).partition(": ") for one in preview(prepared.schedule))
    return Group(
        paired([(name, hidden(prepared.plan.description))]),
        paired([(Text(title, style=style), hidden(text)) for title, style, text in lines]),
        Text(),
        paired([(Text(head), rest) for head, _, rest in injections]),
    )


def _facts(prepared: Prepared, lasted_s: float | None) -> Mapping[str, str]:
    plan, limits, training = prepared.plan, prepared.plan.limits, prepared.plan.training
    subject = f"{_learners(training)}{_reserve(plan)}"
    slow = _slowing(prepared.schedule, fleet_of(plan))
    trains = f"{subject}, {training.task or training.model}, {training.data}"
    if training.script is not None:
        trains = f"{plural(training.script.workers, 'worker')}: {training.script.command}"
    fleet = f"{prepared.fleet_setup.fleet.kind}{_given(plan.fleet.settings)}"
    links = f"{link_kind(plan)}{_given(plan.fleet.links_settings)} ({why_this_kind(plan)})"
    programs = [f"each {role} runs {module}" for role, module in plan.fleet.programs.items()]
    regions = ", ".join(f"{region}: {one}" for region, one in plan.fleet.profiles.items())
    profiles = [f"from the start {regions}"] if regions else []
    nodes = [
        f"{one.name} (reserve)" if one.role == RESERVE else one.name for one in prepared.roster
    ]
    bounds = f"at least {limits.min_alive} alive, at most {show_share(limits.max_affected)}"
    twin = ", plus as long for the twin"
    if training.script is None:
        twin += " unless one is cached"
    return {
        "seed": str(prepared.schedule.seed),
        "training": f"{training.described}, {trains}; ends {_stop(prepared)}",
        "fleet": "; ".join((fleet, *programs)),
        "links": "; ".join((links, *profiles)),
        "nodes": ", ".join(nodes),
        "needs": ", ".join(sorted(needs(prepared))) or "nothing",
        **({"slow": slow} if slow else {}),
        "limits": f"{bounds} under faults at once, {show_duration(limits.timeout_s)} in all",
        "expects": ", ".join(spec.check for spec in plan.expect) or "nothing",
        "takes": f"{_took(prepared, lasted_s)}{twin if plan.twin else ''}",
    }


def _took(prepared: Prepared, lasted_s: float | None) -> str:
    """Duration of the last run; else an estimate, where the plan allows one, else the limit."""
    if lasted_s is not None:
        return f"{lasted_s:.0f} s the last time"
    plan, guess_s = prepared.plan, _guess_s(prepared)
    expected_s = estimated_s(plan, prepared.schedule, guess_s=guess_s)
    if expected_s is None:
        return f"at most {show_duration(plan.limits.timeout_s)} (no estimate: unknown step time)"
    simulated = " of simulated time" if prepared.fleet_setup.is_simulated else ""
    length = show_duration(max(1, round(expected_s)))
    by = "from the plan"
    if guess_s is not None and expected_s != estimated_s(plan, prepared.schedule):
        by = f"{1000 * guess_s:.0f} ms per step"
    return f"about {length}{simulated} (estimate: {by})"


def _guess_s(prepared: Prepared) -> float | None:
    """Estimated step time; None if the plan sets it, or if it is not known what trains where."""
    plan, is_simulated = prepared.plan, prepared.fleet_setup.is_simulated
    if plan.fleet.programs or not (is_simulated or fleet_of(plan).runs_here):
        return None
    return guessed_step_s(plan.training, None if is_simulated else cores())


def _learners(training: Training) -> str:
    """Number and kinds of learners."""
    slower = Counter(training.speeds.values())
    kinds = (f"{count} of them at {show_share(speed)} speed" for speed, count in slower.items())
    hosts = Counter(group.hosts or training.hosts for _, group in training.grouped())
    hosts = hosts or Counter({training.hosts: training.learner_count})
    several = (f"{count} of them of {many} hosts" for many, count in hosts.items() if many > 1)
    step_time = training.step_time
    pace = () if step_time is Pacing.OFF else (f"step time {STEP_TIME.show(step_time)}",)
    learners = plural(training.learner_count, "learner")
    return ", ".join((learners, *kinds, *several, *pace))


def _slowing(schedule: Schedule, fleet: FleetSettings) -> str | None:
    """The mechanisms that the fleet offers for what is scheduled; None if nothing slows."""
    asked = (getattr(one.settings, "mechanism", None) for one in schedule.injections)
    ways = dict.fromkeys(fleet.slowing(how) for how in asked if isinstance(how, Mechanism))
    return f"by {', by '.join(ways)}" if ways else None


def _reserve(plan: FaultPlan) -> str:
    """Their data is theirs alone, so what the others read is a part of the whole."""
    here, reserve = len(plan.training.learner_names), len(plan.training.reserve_names)
    cut = f"the data is cut for {here + reserve} from the start"
    return f" and {reserve} in reserve ({cut})" if reserve else ""


def _given(settings: object) -> str:
    """The settings of a fleet, or of links, that differ from their defaults."""
    given = listed(_changed(settings))
    return f" ({given})" if given else ""


def _changed(settings: object) -> Mapping[str, Tree]:
    return {} if settings is None else changed(settings)


def _stop(prepared: Prepared) -> str:
    stop = written(prepared.plan.training.stop)
    limits = (f"{value} {key}" if key != "time" else str(value) for key, value in stop.items())
    return f"after {' or '.join(limits)}" if stop else "by itself, or when all is seen"


def _lasted_s(root: Path, prepared: Prepared) -> float | None:
    """Duration of the newest finished run of this plan on this fleet, without its twin."""
    kind = prepared.fleet_setup.fleet.kind
    for run in index(root, prepared.plan.name):
        if run.facts.get("outcome") == "completed" and run.facts.get("fleet") == kind:
            return run.directory.lasted_s
    return None
