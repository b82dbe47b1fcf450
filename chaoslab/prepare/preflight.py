"""Preflight: what fleet, links or task cannot do is refused before the start, with the reason.

injections ── needs ───► abilities of the fleet ─┐
           ├─ shapings ► abilities of the links ─┼─► AbilityError, PlanError, or nothing
           └─ steps ───► before it is healed ────┘
training.task ─► python -m chaoslab.diloco.task_trial, in a process of its own ─► a mistake
"""

import os
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache

import click

from chaoslab.core.errors import AbilityError, HarnessBug, PlanError
from chaoslab.core.terminal import last_lines
from chaoslab.core.units import Pacing
from chaoslab.faults.base import Fault, ShapesLinks
from chaoslab.fleet.base import Ability, Role
from chaoslab.fleet.settings import TRIAL_S, FleetFactory, HasRemedies, problem_in
from chaoslab.links.base import Links, require
from chaoslab.links.effects import Shaping
from chaoslab.plan.file import Mistake
from chaoslab.plan.model import LAUNCHER, SYNCER, FaultPlan, Injection
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.launch import task_trial
from chaoslab.prepare.setup import LinkSetup

_DISKS = frozenset({Ability.VOLUME, Ability.CUT_POWER})
"""No node has both."""
_OTHERWISE = "choose another fault or fleet (`--fleet`), or see `chaoslab doctor`"


# ---------------------------------------------------------------- fleet and links


def refuse_impossible(
    plan: FaultPlan, schedule: Schedule, fleet: FleetFactory, setup: LinkSetup
) -> None:
    """AbilityError or PlanError that names every fault which fleet or links cannot carry out.

    PlanError also if no kind of links has an effect in the direction that is asked for.
    """
    able = fleet.abilities  # before the faults: this may raise because of a host, not of a fault
    if plan.training.step_time is Pacing.AUTO and Ability.HOOKS not in able:
        raise AbilityError(
            f"`training.step_time: auto` needs the learners' test hooks, which the {fleet.kind} "
            "fleet cannot reach: write a duration, such as 60ms"
        )
    links = setup.ask()
    for shapings in setup.initial_effects.values():
        require_all(links, shapings)
    places = {spec.id: spec.where for spec in plan.faults}
    asked: frozenset[Ability] = frozenset()
    refused: dict[str, AbilityError | PlanError] = {}
    for injection in schedule.injections:
        fault = fault_of(injection)
        asked |= fault.needs & _DISKS
        try:
            _refuse_two_disks(injection, asked)
            refuse_wrong_roles(injection, fault)
            _refuse_missing_abilities(injection, fault, fleet, able)
            _refuse_impossible_shapings(injection, fault, links)
            _refuse_late_steps(injection, fault)
        except (AbilityError, PlanError) as error:
            told = type(error)(error.message, where=places.get(injection.spec, ""))
            refused.setdefault(injection.spec, told)
    if refused:
        first = next(iter(refused.values()))
        raise type(first)("\n".join(map(str, refused.values())))


def _refuse_two_disks(injection: Injection, asked: frozenset[Ability]) -> None:
    if asked == _DISKS:
        raise PlanError(
            f"{_named(injection)} needs another disk than an earlier fault: one that can be "
            "full is in memory, and loses all without power. Put them into two plans"
        )


def refuse_wrong_roles(injection: Injection, fault: Fault) -> None:
    """PlanError if a target runs something that this fault does not act on."""
    hits_syncer = SYNCER in injection.targets
    subject = _named(injection)
    if LAUNCHER in injection.targets:
        if Role.LAUNCHER not in fault.roles:
            raise PlanError(f"{subject} acts on workers alone; on their launcher acts process.kill")
        return
    if hits_syncer and Role.SYNCER not in fault.roles:
        raise PlanError(
            f"{subject} acts on learners alone as it is set here; on the syncer act process.kill "
            "by SIGKILL, process.pause and others"
        )
    if Role.LEARNER not in fault.roles and injection.targets != (SYNCER,):
        raise PlanError(f"{subject} acts on the syncer: write `target: {{syncer: all}}`")


def _refuse_missing_abilities(
    injection: Injection, fault: Fault, fleet: FleetFactory, able: frozenset[Ability]
) -> None:
    """AbilityError if the fault needs an ability that is not in `able`."""
    if missing := fault.needs - able:
        remedies = fleet.remedies if isinstance(fleet, HasRemedies) else {}
        what = "; ".join(remedies[one] for one in sorted(missing) if one in remedies)
        raise AbilityError(
            f"{_named(injection)} needs {_abilities(missing)}, which the {fleet.kind} fleet does "
            f"not have here: {what or _OTHERWISE}"
        )
    if injection.watched and Ability.HOOKS not in able:
        raise AbilityError(
            f"fault {injection.spec!r} waits for the phase {injection.trigger.phase}, and the "
            f"{fleet.kind} fleet cannot reach its nodes' test hooks: use another trigger"
        )


def _abilities(missing: frozenset[Ability]) -> str:
    names = ", ".join(f"`{one}`" for one in sorted(missing))
    return f"the abilit{'y' if len(missing) == 1 else 'ies'} {names}"


def _refuse_impossible_shapings(injection: Injection, fault: Fault, links: Links) -> None:
    try:
        require_all(links, fault.shapings() if isinstance(fault, ShapesLinks) else ())
    except (AbilityError, PlanError) as error:
        raise type(error)(f"{_named(injection)}: {error.message}") from error


def _refuse_late_steps(injection: Injection, fault: Fault) -> None:
    """PlanError if a fault that acts again and again would be healed before it is through."""
    last_s = max(fault.steps(), default=0.0)
    if injection.for_s is not None and last_s >= injection.for_s > 0:
        raise PlanError(
            f"{_named(injection)} acts for the last time after {last_s:g} s and is healed after "
            f"{injection.for_s:g} s: write a longer `for`"
        )


def _named(injection: Injection) -> str:
    return f"{injection.fault} (fault {injection.spec!r})"


def require_all(links: Links, shapings: Iterable[Shaping]) -> None:
    """AbilityError if these links cannot do one of them, PlanError if no links can."""
    for direction, effect in shapings:
        require(links, direction, effect)
        links.caveats(effect)  # which refuses a strength that these links cannot have


def fault_of(injection: Injection) -> Fault:
    """The fault of an injection."""
    if not isinstance(injection.settings, Fault):
        raise HarnessBug(f"{injection.id}: {injection.settings!r} is not a fault")
    return injection.settings


# ---------------------------------------------------------------- a task of the plan's own


def untrainable(plan: FaultPlan) -> Iterator[Mistake]:
    """Why a local process cannot train the plan's task; empty if it can, or if there is none."""
    command = task_trial(plan)
    if command is None:
        return
    click.echo(f"trying the task {plan.training.task} …", err=True)
    problem = _tried_here(command.argv, tuple(command.environment.items()))
    if problem is not None:
        yield ("training", "task"), problem


@cache
def _tried_here(argv: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> str | None:
    try:
        done = subprocess.run(
            argv, env={**os.environ, **dict(environment)}, capture_output=True, text=True,
            timeout=TRIAL_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"its trial took longer than {TRIAL_S:g} s: make `batches` and `evaluate` return"
    if done.returncode not in (0, 1):
        how = f"by signal {-done.returncode}" if done.returncode < 0 else f"{done.returncode}"
        words = last_lines(done.stderr)
        return f"its trial ended with the process ({how}){f': {words}' if words else ''}"
    return problem_in(done.stdout, done.stderr)
