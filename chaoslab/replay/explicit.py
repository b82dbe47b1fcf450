"""A plan without chance: each injection of a schedule as a fault of its own, with named targets.

    crashes: {arrivals: {mtbf: 20s}, …}  ─►  crashes-1: {target: {learners: [learner-2]},
                                             at: {time: 12.3s}, for: 4.1s}, crashes-2: …

Whatever seed it is drawn with, such a plan gives these injections, so it can be kept and shared.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import SYNCER, FaultPlan, FaultSpec, Injection, Outage, Pick, Target


def explicit(plan: FaultPlan, injections: Sequence[Injection]) -> FaultPlan:
    """The plan with these of its injections, in their order.

    PlanError if one waits for a fault that is not among them.
    """
    names, by_id = _names(injections), {spec.id: spec for spec in plan.faults}
    faults = []
    last: dict[str, str] = {}
    for one, name in zip(injections, names, strict=True):
        trigger = one.trigger
        if trigger.after is not None:
            if trigger.after not in last:
                raise PlanError(f"{one.spec} comes after {trigger.after}, which is left out")
            trigger = replace(trigger, after=last[trigger.after])
        last[one.spec] = name
        faults.append(
            FaultSpec(
                id=name,
                fault=one.fault,
                settings=one.settings,
                target=_target(one, by_id[one.spec].target),
                at=trigger,
                outage=Outage(rest=True) if one.for_s is None else Outage(seconds=one.for_s),
            )
        )
    return replace(plan, faults=tuple(faults), gameday=None)


def _names(injections: Sequence[Injection]) -> list[str]:
    """The fault's id; numbered where a fault has several injections."""
    times, seen = Counter(one.spec for one in injections), Counter[str]()
    names = []
    for one in injections:
        seen[one.spec] += 1
        names.append(one.spec if times[one.spec] == 1 else f"{one.spec}-{seen[one.spec]}")
    return names


def _target(one: Injection, asked: Target) -> Target:
    """Those that were drawn; what no list of names can say has no chance in it, and stays."""
    if asked.pick is Pick.AT_PHASE or not one.targets:
        return asked
    if one.targets == (SYNCER,):
        return Target(syncer=True)
    return asked if SYNCER in one.targets else Target(names=one.targets, reserve=asked.reserve)
