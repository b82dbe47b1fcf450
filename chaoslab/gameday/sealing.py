"""Drawing of sealed faults: from the seed, within the limits of the plan, shown to no participant.

    fleet, links ─► kinds that can be drawn ─┐
    seed ──────────────────────────────────► draw ── limits broken: once more ──► injections

The same plan and seed give the same faults. Each is on one learner. Before they come, the run
checks the limits once more, as of every fault: others may be open by then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.faults.base import Fault
from chaoslab.fleet.base import Ability, Role
from chaoslab.plan.file.document import nearest
from chaoslab.plan.model import (
    FaultPlan,
    FaultSpec,
    Injection,
    Outage,
    SealedFaults,
    Target,
    Trigger,
    sealed_ids,
)
from chaoslab.plan.schedule import Schedule, schedule
from chaoslab.plan.schedule.chance import some, stream
from chaoslab.prepare.kinds import faults
from chaoslab.prepare.plans import Prepared
from chaoslab.prepare.preflight import fault_of, refuse_impossible

USUAL: Final = ("process.kill", "process.pause", "network.partition")
"""Kinds that are drawn from if a plan names none."""
_KEY: Final = "gameday.sealed"
_TRIES: Final = 200
"""Most draws until all keep the limits together."""
_FROM_THE_START: Final = frozenset(
    {Ability.HOOKS, Ability.HOSTS, Ability.VOLUME, Ability.CUT_POWER}
)
"""Abilities that nodes are started with if a fault of the plan needs them."""


def drawn_from(prepared: Prepared) -> tuple[str, ...]:
    """Full names of the faults that may be drawn; empty if the plan seals none.

    PlanError or AbilityError for one that the plan names and the run cannot do.
    """
    asked = prepared.plan.charter.sealed
    if asked is None:
        return ()
    for name in asked.kinds:
        if problem := _why_not(prepared, name, asked):
            raise PlanError(problem, key=f"{_KEY}.kinds")
    usual = tuple(name for name in USUAL if not _why_not(prepared, name, asked))
    if not (found := asked.kinds or usual):
        raise PlanError(f"none of {', '.join(USUAL)} can be done here", key=f"{_KEY}.kinds")
    return found


def draw(prepared: Prepared, kinds: Sequence[str]) -> tuple[Injection, ...]:
    """Injections of these kinds, the earliest first; their times count from phase `inject` on.

    Nothing if the plan asks for none. PlanError if no draw keeps the limits.
    """
    plan = prepared.plan
    asked = plan.charter.sealed
    if asked is None:
        return ()
    rng = stream(plan.seed, _KEY)
    limits = replace(plan.limits, timeout_s=plan.charter.length_s)
    alone = replace(plan, faults=(), gameday=None, limits=limits)
    for _ in range(_TRIES):
        try:
            specs = tuple(_specs(plan, asked, kinds, rng))
            found = schedule(replace(alone, faults=specs), prepared.roster).injections
        except PlanError:
            continue
        first = len(prepared.schedule.injections)
        return tuple(replace(one, number=first + one.number) for one in found)
    raise PlanError(
        f"no draw of {asked.faults} keeps `limits`: use fewer faults, a shorter `for` or a longer "
        "`within`",
        key=_KEY,
    )


def _specs(
    plan: FaultPlan, asked: SealedFaults, kinds: Sequence[str], rng: Random
) -> Iterator[FaultSpec]:
    """One draw of all of them; only `rng.random()` is used, as for every draw of a schedule."""
    learners = [name for name in plan.training.learner_names if name not in plan.limits.protected]
    times_s = sorted(round(asked.within_s * rng.random(), 3) for _ in range(asked.faults))
    for name, time_s in zip(sealed_ids(asked.faults), times_s, strict=True):
        (kind,) = some(kinds, 1, rng)
        yield FaultSpec(
            id=name,
            fault=kind,
            settings=faults()[kind](),
            target=Target(names=some(learners, 1, rng)),
            at=Trigger(time_s=time_s),
            outage=Outage(seconds=asked.for_s),
        )


def _why_not(prepared: Prepared, name: str, asked: SealedFaults) -> str:
    """Why a fault cannot be drawn; empty if it can."""
    if name not in faults():
        return nearest(name, faults(), noun="fault")
    plan, kind = prepared.plan, faults()[name]
    one = Injection(
        number=0,
        spec=sealed_ids(1)[0],
        fault=name,
        settings=kind(),
        targets=plan.training.learner_names[:1],
        trigger=Trigger(time_s=0.0),
        for_s=asked.for_s,
    )
    if problem := _never(fault_of(one), plan):
        return problem
    alone = Schedule(seed=plan.seed, injections=(one,))
    try:
        refuse_impossible(plan, alone, prepared.fleet_setup.fleet, prepared.links)
    except (AbilityError, PlanError) as error:
        return error.message
    return ""


def _never(fault: Fault, plan: FaultPlan) -> str:
    """Why a fault is never sealed in this plan; empty if it can be."""
    if Role.LEARNER not in fault.roles or fault.brings_in:
        what = "brings learners in" if fault.brings_in else "acts on the syncer"
        return f"{fault.name} {what}, and a sealed fault is on a learner that is there: take it out"
    given = {one for spec in plan.faults for one in getattr(spec.settings, "needs", ())}
    if lacks := sorted(fault.needs & _FROM_THE_START - given):
        return (
            f"{fault.name} needs nodes that are started for it ({', '.join(lacks)}), and they are "
            "only if an entry of `faults` needs the same: take it out, or add one"
        )
    return ""
