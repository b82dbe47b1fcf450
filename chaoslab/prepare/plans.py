"""Plan of the command line, made ready: found, decoded, scheduled, compared with a fleet.

    kill_half ─► file ─► FaultPlan ─► Schedule ─► Prepared ─► `run` carries it out, `plan` shows it

Nothing is started here but, in a process of its own, the trial of a plan's own task.
"""

import difflib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import chaoslab
from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.faults.base import Fault
from chaoslab.fleet.base import Ability
from chaoslab.fleet.settings import BringsClock, FleetRequest, Keeps, Reading
from chaoslab.plan.file import Document, Override, load, missing, resolved_yaml
from chaoslab.plan.model import FaultPlan
from chaoslab.plan.model.script import FOLDER, PYTHON
from chaoslab.plan.schedule import RosterEntry, Schedule, roster_of, schedule
from chaoslab.prepare.doubtful import doubtful
from chaoslab.prepare.impossible import impossible
from chaoslab.prepare.kinds import fleet_of, kinds
from chaoslab.prepare.lacking import not_judged
from chaoslab.prepare.launch import programs, task_trial
from chaoslab.prepare.links import link_kind, link_setup, unlinkable
from chaoslab.prepare.preflight import untrainable
from chaoslab.prepare.setup import FleetSetup, LinkSetup, PlanText
from chaoslab.trainers.reading import OWN_LINES

_PLAIN: Final = re.compile(r"[\w./-]*\.(ya?ml|toml)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Options of the command line about a plan."""

    plan: str
    """A path, or the bare name of a plan that comes with chaoslab."""
    settings: Sequence[str] = ()
    """`key=value`, each."""
    seed: int | None = None
    fleet: str | None = None
    inventory: str | None = None
    """File with the hosts of the fleet."""
    costs: str | None = None
    """File that says what work takes in a simulation."""

    @property
    def overrides(self) -> list[str | Override]:
        """Overrides of keys, as they were typed."""
        return [*self.settings, *self._files]

    @property
    def _files(self) -> Iterator[Override]:
        for key in ("inventory", "costs"):
            if (path := getattr(self, key)) is not None:
                setting = f"fleet.{key}={_as_yaml(path)}"
                yield Override(setting=setting, label=f"--{key} {path}")

    def again(self) -> str:
        """Arguments that ask for this plan again, to be typed into a shell."""
        words = [self.plan]
        for setting in self.settings:
            words += ["--set", setting]
        for option in ("seed", "fleet", "inventory", "costs"):
            if (value := getattr(self, option)) is not None:
                words += [f"--{option}", str(value)]
        return shlex.join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A scheduled plan with the fleet and links for its run."""

    plan: FaultPlan
    roster: tuple[RosterEntry, ...]
    schedule: Schedule
    text: PlanText
    fleet_setup: FleetSetup
    links: LinkSetup
    warnings: tuple[str, ...] = ()
    """Likely mistakes in the plan, a sentence each."""


def prepare(asked: Asked) -> Prepared:
    """Find, decode and schedule a plan; PlanError says what cannot work."""
    plan, document = decode(asked)
    left_out = tuple(not_judged(plan))
    drawn = None
    try:
        roster = roster_of(plan)
        drawn = schedule(plan, roster)
    except PlanError as error:
        if not (error.key or error.where or error.parts):
            raise
        document.note(error)
    document.refuse((*missing(plan), *unlinkable(plan), *impossible(plan, drawn)))
    if drawn is None:
        raise document.error()
    if fleet_of(plan).runs_here:
        document.refuse(untrainable(plan))
    with_links = replace(plan, fleet=replace(plan.fleet, links=link_kind(plan)))
    try:
        fleet, links = fleet_setup(plan), link_setup(plan)
    except (AbilityError, PlanError) as error:
        if error.where:
            raise
        key = ".".join(filter(None, ("fleet", error.key)))
        where = document.where(tuple(key.split(".")))
        raise type(error)(document.secrets.text(error.message), where=where, key=key) from error
    return Prepared(
        plan=plan,
        roster=roster,
        schedule=drawn,
        text=PlanText(
            source=document.text,
            resolved=resolved_yaml(with_links, secrets=document.secrets),
            secrets=document.secrets,
        ),
        fleet_setup=fleet,
        links=links,
        warnings=(*doubtful(plan, drawn, document), *left_out),
    )


def fleet_setup(plan: FaultPlan) -> FleetSetup:
    """The fleet that a plan names."""
    request = FleetRequest(
        modules=tuple(program.split()[0] for program in programs(plan).values()),
        data=plan.training.data,
        seed=plan.seed,
        trial=partial(task_trial, plan),
        learners={name: plan.training.hosts_of(name) for name in plan.training.roster},
        needs=_needs(plan),
        reading=_reading(plan),
        commands={} if (script := plan.training.script) is None else {
            name: script.words(rank, FOLDER, python=PYTHON)
            for rank, name in enumerate(script.started)
        },
    )  # fmt: skip
    settings = fleet_of(plan)
    if isinstance(settings, BringsClock):
        fleet = settings.factory(request)
        return FleetSetup(
            fleet=fleet, clock=settings.clock, is_simulated=True, speed=settings.speed
        )
    return FleetSetup(fleet=settings.factory(request))


def _needs(plan: FaultPlan, name: str = "") -> frozenset[Ability]:
    """Abilities that faults of a plan need; with `name` of those that may hit this node."""
    return frozenset(
        ability
        for one in plan.faults
        if isinstance(one.settings, Fault)
        and not (name and one.target.names and name not in one.target.names)
        for ability in one.settings.needs
    )


def _reading(plan: FaultPlan) -> Reading | None:
    """How the fleet reads a training of the user's own, and where that keeps checkpoints."""
    script = plan.training.script
    if script is None:
        return None
    needs = {name: _needs(plan, name) for name in script.names if script.folder}
    return Reading(
        patterns=OWN_LINES if script.reads_files else script.patterns,
        is_elsewhere=script.reads_files,
        restarts=script.restarts,
        sources=script.sources(FOLDER),
        saves=script.saves,
        keeps={
            name: Keeps(
                folder=script.folder_of(rank), names=script.damageable(rank),
                is_filled=Ability.VOLUME in needs[name],
            )
            for rank, name in enumerate(script.names)
            if needs.get(name, frozenset()) & {Ability.STORAGE, Ability.VOLUME}
        },
        counts_bytes=Ability.DISCONNECT in _needs(plan),
    )  # fmt: skip


def decode(asked: Asked) -> tuple[FaultPlan, Document]:
    """A plan and where its parts were written; PlanError names every mistake in it."""
    path = find_plan(asked.plan)
    return load(path, kinds(), overrides=asked.overrides, seed=asked.seed, fleet=asked.fleet)


def _as_yaml(path: str) -> str:
    """A path as the value of a key, in quotes unless it can be nothing but text."""
    return path if _PLAIN.fullmatch(path) else json.dumps(path)


def find_plan(given: str) -> Path:
    """The file of a plan, by path or by bare name. PlanError names the nearest one."""
    path = Path(given)
    if os.path.isfile(path):
        return path
    bundled = bundled_plans()
    if given in bundled:
        return bundled[given]
    if os.path.lexists(path):
        odd = "a pipe, a socket or a device" if path.exists() else "a link to nothing"
        odd = "a folder" if path.is_dir() else odd
        raise PlanError(f"{given!r} is {odd}: a plan is a regular file, such as a.yaml")
    raise PlanError(f"there is no plan file {given!r}: {_meant(path, bundled)}")


def _meant(path: Path, bundled: Mapping[str, Path]) -> str:
    """The nearest plan: beside the path that was given, or of those that come with chaoslab."""
    folder = path.parent
    beside = [str(folder / one.name) for one in folder.glob("*.y*ml") if one.is_file()]
    same = [one for one in beside if Path(one).stem == path.stem]
    near = same or difflib.get_close_matches(str(path), beside, n=1)
    near = near or difflib.get_close_matches(path.stem, bundled, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return (
        "`chaoslab catalog plans` lists those that come with chaoslab, which are named without a "
        "path; any other is named by its path"
    )


TIMES = "times.json"
"""Beside the plans that come with chaoslab: seconds that each took, by `benchmarks/plans.py`."""


def measured_s(plan: Path) -> int | None:
    """Seconds that an included plan took on two cores, without its twin; None: not measured."""
    seconds: Mapping[str, int] = json.loads((plan.parent / TIMES).read_text(encoding="utf-8"))
    return seconds.get(plan.stem)


def bundled_plans() -> Mapping[str, Path]:
    """The plans that come with chaoslab, by name: in the wheel, or beside it in a checkout."""
    package = Path(chaoslab.__file__).parent
    for folder in (package / "fault_plans", package.parent / "fault_plans"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return {}
