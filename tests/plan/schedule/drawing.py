"""Plans and rosters for the tests of the schedule."""

from dataclasses import replace

from chaoslab.plan.model import (
    Arrivals,
    FaultPlan,
    FaultSpec,
    LearnerGroup,
    Limits,
    Outage,
    Stop,
    Target,
    Training,
    Trigger,
)
from chaoslab.plan.schedule import Schedule, roster_of, schedule
from tests.plan.file.catalogue import Kill, Ramp

FAULTS: dict[str, type] = {"process.kill": Kill, "compute.ramp": Ramp}


def fault(
    target: Target,
    *,
    name: str = "it",
    at: Trigger | None = None,
    arrivals: Arrivals | None = None,
    outage: Outage | None = None,
    settings: object = Kill(),
) -> FaultSpec:
    """One fault, at round 5 and for 5 s unless told otherwise."""
    return FaultSpec(
        id=name,
        fault="compute.ramp" if isinstance(settings, Ramp) else "process.kill",
        settings=settings,
        target=target,
        at=at or (None if arrivals else Trigger(round=5)),
        arrivals=arrivals,
        outage=outage or Outage(seconds=5.0),
        where=f"trial.yaml:{name}",
    )


def plan_of(
    *faults: FaultSpec,
    learners: int | tuple[LearnerGroup, ...] = 4,
    seed: int = 7,
    limits: Limits | None = None,
) -> FaultPlan:
    """A plan with these faults, of a thousand seconds."""
    return FaultPlan(
        name="trial",
        seed=seed,
        training=Training(learners=learners, stop=Stop(time_s=1000.0)),
        limits=replace(limits or Limits(min_alive=0), timeout_s=1000.0),
        faults=faults,
    )


def drawn(plan: FaultPlan, labels: dict[str, dict[str, str]] | None = None) -> Schedule:
    """The schedule of a plan on the nodes it would start."""
    roster = [
        replace(entry, labels=(labels or {}).get(entry.name, {})) for entry in roster_of(plan)
    ]
    return schedule(plan, roster)
