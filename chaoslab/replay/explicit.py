"""A plan without chance: each injection of a schedule as a fault of its own, with named targets.

    crashes: {arrivals: {mtbf: 20s}, …}  ─►  crashes-1: {target: {learners: [learner-2]},
                                             at: {time: 12.3s}, for: 4.1s}, crashes-2: …

Whatever seed it is drawn with, such a plan gives these injections, so it can be kept and shared.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import (
    LAUNCHER,
    SYNCER,
    FaultPlan,
    FaultSpec,
    Injection,
    Outage,
    Pick,
    Target,
)


def explicit(plan: FaultPlan, injections: Sequence[Injection]) -> FaultPlan:
    """The plan with these of its injections, in their order.

    PlanError if one waits for a fault that is not among them.
    """
    names = numbered([one.spec for one in injections])
    by_id = {spec.id: spec for spec in plan.faults}
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


def numbered(specs: Sequence[str]) -> list[str]:
    """A name for each injection, of the id of its fault: numbered where a fault has several."""
    times, seen = Counter(specs), Counter[str]()
    names = []
    for spec in specs:
        seen[spec] += 1
        names.append(spec if times[spec] == 1 else f"{spec}-{seen[spec]}")
    return names


def exactly(targets: tuple[str, ...], asked: Target) -> Target:
    """These nodes; what no list of names can say has no chance in it, and stays as asked."""
    if targets == (SYNCER,):
        return Target(syncer=True)
    if targets == (LAUNCHER,):
        return Target(launcher=True)
    return asked if SYNCER in targets else Target(names=targets, reserve=asked.reserve)


def _target(one: Injection, asked: Target) -> Target:
    """The drawn targets; which node a phase will hit is not drawn."""
    is_open = asked.pick is Pick.AT_PHASE or not one.targets
    return asked if is_open else exactly(one.targets, asked)
