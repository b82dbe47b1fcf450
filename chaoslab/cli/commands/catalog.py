"""`chaoslab catalog`: what a plan can name, with its settings, and the JSON Schemas.

chaoslab catalog faults            every one with a sentence, in groups
chaoslab catalog faults kill       those with `kill` in their names
chaoslab catalog faults oom        all of the only one
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.checks.base import Check
from chaoslab.checks.verdict import schema as verdict_schema
from chaoslab.cli import completing
from chaoslab.cli.commands.output import (
    advise,
    examples,
    grouped,
    json_option,
    paired,
    print_json,
    print_result,
)
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.terminal import shown_path
from chaoslab.core.units import plural
from chaoslab.plan.file import json_schema, load
from chaoslab.plan.file.conventions import field_docs, hints_of, is_required, key_of
from chaoslab.plan.file.document import nearest
from chaoslab.plan.file.writing import written_default
from chaoslab.plan.model.systems import SYSTEMS
from chaoslab.prepare import systems
from chaoslab.prepare.kinds import faults, kinds
from chaoslab.prepare.plans import bundled_plans, measured_s

_AREAS: Mapping[str, str] = {
    **dict.fromkeys(("process", "control", "host", "container", "job", "pod"), "processes"),
    **dict.fromkeys(("chip", "node", "region", "spot", "tpu"), "machines, regions"),
    "network": "network",
    **dict.fromkeys(("compute", "clock"), "speed, clocks"),
    **dict.fromkeys(("memory", "storage", "syncer"), "memory, disks"),
    "update": "updates",
}
"""Groups of faults, by their families, and of plans; of another package: the family itself."""
_QUESTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "training_continues", "cadence", "continuity", "quorum_progress", "survivors",
            "goodput", "recovery", "work_lost", "bandwidth",
        ),
        "progress, speed",
    ),
    **dict.fromkeys(
        (
            "learners_rejoin", "rejoin", "handover", "participation", "contribution_share",
            "detection", "retries", "repairs", "staleness",
        ),
        "learners, return",
    ),
    **dict.fromkeys(
        (
            "real_work", "ledger", "agreement", "versions", "succession", "loss_parity",
            "numeric_health",
        ),
        "state, losses",
    ),
    **dict.fromkeys(("checkpoints", "resume", "divergence"), "checkpoints"),
    **dict.fromkeys(("injections", "cleanup"), "the experiment"),
}  # fmt: skip
"""Groups of checks; all others, as those of other packages, are `more`."""
_SCHEMAS: Mapping[str, Callable[[], Json]] = {
    "plan": lambda: json_schema(kinds()),
    "verdict": verdict_schema,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a catalogue, as a page and as data."""

    group: str
    sentence: str
    value: Mapping[str, Json]
    facts: Callable[[], Iterable[tuple[str, str]]]
    """Facts on its page, by label; one without text is left out."""
    then: tuple[str, str]
    """The command to try next, and why."""


@click.command(
    name="catalog",
    epilog=examples(
        "chaoslab catalog plans",
        "chaoslab catalog faults network",
        "chaoslab catalog faults process.kill --json",
        "chaoslab catalog checks rejoin",
        "chaoslab catalog systems",
        "chaoslab catalog schema plan > fault-plan.schema.json",
    ),
)
@click.argument("what", type=click.Choice(["plans", "faults", "checks", "systems", "schema"]))
@click.argument("name", required=False, shell_complete=completing.catalogued)
@json_option
def command(*, what: str, name: str | None, as_json: bool) -> None:
    """List plans, faults, checks and systems; print the JSON Schemas.

    NAME is an entry, such as the fault `process.kill`, or a part of names, such as `kill`. One
    entry is shown with its settings and, of a fault, with what proves it.

    `plans` are those that come with chaoslab, with the time that each took on a machine of two
    cores, without its fault-free twin, by `benchmarks/plans.py` of a checkout; every other one is a
    file of yours. `checks` are what
    a plan can expect; some rules are judged in every run: did training continue, did the learners
    rejoin, the evidence of every fault, what was left behind. `systems` are those of others that
    plans can train with. `schema` prints the JSON Schema of plans, with which editors complete and
    check a plan, or with NAME `verdict` that of verdict.json.
    """
    if what == "schema":
        _print_schema(name or "plan")
        return
    noun = what.removesuffix("s")
    known, entry_of = _CATALOGUES[what]
    names = sorted(known())
    if name is not None:
        parts = [one for one in names if name.casefold() in one.casefold()]
        names = [name] if name in names else parts
        if not names:
            raise PlanError(nearest(name, known(), noun=noun))
    found = {one: entry_of(one) for one in names}
    first, entry = next(iter(found.items()))
    is_one = len(found) == 1
    then = entry.then if is_one else (f"chaoslab catalog {what} {first}", "all of one of them")
    page = _details(first, entry) if is_one else _lines(found)
    print_result([one.value for one in found.values()], page, as_json=as_json, then=then)


def _print_schema(name: str) -> None:
    if name not in _SCHEMAS:
        raise PlanError(nearest(name, _SCHEMAS, noun="schema"))
    print_json(_SCHEMAS[name]())
    if name == "plan":
        hint = "# yaml-language-server: $schema=fault-plan.schema.json"
        advise(f"write `{hint}`", "as the first line of a plan")


# ---------------------------------------------------------------- the catalogues


def _plan(name: str) -> Entry:
    path = bundled_plans()[name]
    plan, _ = load(path, kinds())
    learners = plan.training.learner_count
    took_s = measured_s(path)
    took = "" if took_s is None else f"{took_s} s"
    twin = ", plus as long for the twin unless one is cached" if plan.twin else ""
    return Entry(
        group=_area(plan.faults[0].fault) if plan.faults else "no faults",
        sentence=f"{plan.description} {took and f'({took})'}".rstrip(),
        value={
            "plan": plan.name,
            "description": plan.description,
            "fleet": plan.fleet.kind,
            "measured_s": took_s,
            "learners": learners,
            "faults": [spec.fault for spec in plan.faults],
            "expect": [spec.check for spec in plan.expect],
            "path": str(path),
        },
        facts=lambda: [
            ("faults", "\n".join(f"{spec.fault} ({spec.id})" for spec in plan.faults)),
            ("expects", ", ".join(spec.check for spec in plan.expect)),
            ("training", f"{plural(learners, 'learner')} on fleet {plan.fleet.kind}"),
            ("takes", took and f"{took} on a machine of two cores{twin}"),
            ("file", f"{shown_path(path)}; copy it to change it"),
        ],
        then=(f"chaoslab plan {plan.name}", "preview it: which learners are hit, and when"),
    )


def _fault(name: str) -> Entry:
    fault = faults()[name]
    needs = sorted(need.value for need in fault().needs)
    return Entry(
        group=_area(name),
        sentence=fault.summary,
        value={
            "fault": fault.name,
            "summary": fault.summary,
            "layer": fault.layer.value,
            "imitates": fault.imitates,
            "proof": fault.proof,
            "needs": needs,
            "takes_away": fault.takes_away,
            "settings": settings_json(fault),
        },
        facts=lambda: [
            ("stands for", fault.imitates),
            ("acts on", fault.layer.value),
            ("settings", _settings(fault)),
            ("what proves it", fault.proof),
            ("needs", ", ".join(needs) or "nothing"),
            ("takes away", "the learner, until it is healed" if fault.takes_away else ""),
            ("used in", ", ".join(_plans_with(fault.name)) or "no plan that comes with chaoslab"),
        ],
        then=("chaoslab catalog plans", "plans that use faults; each can be copied and changed"),
    )


def _area(fault: str) -> str:
    family = fault.partition(".")[0]
    return _AREAS.get(family, family)


def _plans_with(fault: str) -> Iterator[str]:
    """The plans that come with chaoslab and name it; read as text, which is quick."""
    names_it = re.compile(rf"\bfault: *{re.escape(fault)}(?![\w.])")
    for plan, path in bundled_plans().items():
        if names_it.search(path.read_text(encoding="utf-8")):
            yield plan


def _check(name: str) -> Entry:
    check: type[Check] = kinds().checks[name]
    settings = settings_json(check)
    required = "".join(f", {one['key']}: …" for one in settings if one["is_required"])
    return Entry(
        group=_QUESTIONS.get(name, "more"),
        sentence=check.summary,
        value={"check": check.name, "summary": check.summary, "settings": settings},
        facts=lambda: [
            ("settings", _settings(check)),
            ("under `expect`", f"- {{check: {check.name}{required}}}"),
        ],
        then=("chaoslab show latest --expect-from PLAN", "judge a record by other checks"),
    )


def _system(name: str) -> Entry:
    system, is_there = SYSTEMS[name], systems.is_installed(name)
    settings = f"training.system={name} --set training.algorithm={system.algorithm}"
    return Entry(
        group="installed" if is_there else "not installed",
        sentence=system.about,
        value={
            "system": name,
            "about": system.about,
            "algorithm": system.algorithm,
            "packages": list(system.packages),
            "installed": is_there,
            "folder": str(systems.environment(name)),
        },
        facts=lambda: [
            ("algorithm", system.algorithm),
            ("packages", ", ".join(system.packages)),
            ("folder", str(systems.environment(name)) if is_there else ""),
        ],
        then=(f"chaoslab plan kill_half --set {settings}", "what it would be asked to survive")
        if is_there
        else (f"chaoslab doctor systems install {name}", "so that plans can train with it"),
    )


_CATALOGUES: Mapping[str, tuple[Callable[[], Iterable[str]], Callable[[str], Entry]]] = {
    "plans": (bundled_plans, _plan),
    "faults": (faults, _fault),
    "checks": (lambda: kinds().checks, _check),
    "systems": (lambda: SYSTEMS, _system),
}


# ---------------------------------------------------------------- settings


def settings_json(kind: type) -> list[Mapping[str, Json]]:
    """The keys that a plan may write for a fault or a check, with defaults in its own units."""
    hints, docs = hints_of(kind), field_docs(kind)
    return [
        {
            "key": key_of(field.name),
            "is_required": is_required(field),
            "default": written_default(field, hints[field.name]),
            "help": docs.get(field.name, ""),
        }
        for field in fields(kind)
    ]


def _settings(kind: type) -> str:
    """One line for each key, with what it means."""
    return "\n".join(map(_setting, settings_json(kind))) or "none"


def _setting(about: Mapping[str, Json]) -> str:
    key, default = str(about["key"]), about["default"]
    written = key if default is None else f"{key}: {default}"
    written += " (required)" if about["is_required"] else ""
    return f"{written}   {about['help']}".rstrip()


# ---------------------------------------------------------------- pages


def _lines(entries: Mapping[str, Entry]) -> RenderableType:
    """Names with their sentences, in groups: those of the mappings above, then others by name."""
    titles = (*_AREAS.values(), *_QUESTIONS.values(), *(one.group for one in entries.values()))
    return grouped({
        title: [(name, one.sentence) for name, one in entries.items() if one.group == title]
        for title in dict.fromkeys(titles)
    })  # fmt: skip


def _details(name: str, entry: Entry) -> RenderableType:
    """All of one entry."""
    facts = [(Text(title, style="bold"), text) for title, text in entry.facts() if text]
    return Group(
        paired([(Text(name, style="bold reverse"), entry.sentence)]), Text(), paired(facts)
    )
