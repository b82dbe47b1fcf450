"""Random arrivals of faults: their times, targets and durations.

    per: target   each target fails independently; its next failure is drawn from its repair on
    per: fleet    failures come to the fleet as a whole; each one draws its targets

A trace gives the arrivals themselves, in seconds since the start. Arrivals whose target is still
under a fault are drawn too; `blast_radius` leaves them out and says so.
"""

import math
from collections.abc import Iterator
from itertools import chain, islice

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import Arrivals, Distribution, FaultPlan, FaultSpec, Injection, Trigger
from chaoslab.plan.schedule.chance import gap_s, outage_s, stream
from chaoslab.plan.schedule.targets import Roster, choose

MOST = 10_000
"""Most injections of one fault; more are a mistake in the plan."""


def arriving(
    plan: FaultPlan,
    spec: FaultSpec,
    arrivals: Arrivals,
    roster: Roster,
    victims: tuple[str, ...],
) -> list[Injection]:
    """Injections of a fault, in the order of time."""
    if arrivals.per == "target":
        rng = stream(plan.seed, spec.id)
        protected = plan.limits.protected
        names = choose(spec.target, roster, rng, protected=protected, victims=victims)
        series = chain.from_iterable(_of_one(plan, spec, arrivals, name) for name in names)
    else:
        series = chain(_of_fleet(plan, spec, arrivals, roster, victims))
    found = list(islice(series, MOST + 1))
    if len(found) > MOST:
        raise PlanError(f"more than {MOST} injections would come: use a longer `mtbf`")
    found.sort(key=lambda one: one.trigger.time_s or 0.0)
    return found[: arrivals.most]


def _of_one(plan: FaultPlan, spec: FaultSpec, arrivals: Arrivals, name: str) -> Iterator[Injection]:
    """Renewal process: failure, repair, then the time to the next failure."""
    rng = stream(plan.seed, spec.id, name)
    if arrivals.dist is Distribution.TRACE:
        for time_s in _trace(plan, arrivals):
            yield draft(spec, (name,), Trigger(time_s=time_s), outage_s(spec.outage, rng))
        return
    time_s, end_s = _to_ms(arrivals.start_s + gap_s(arrivals, rng)), _end_s(plan, arrivals)
    while time_s < end_s:
        for_s = outage_s(spec.outage, rng)
        yield draft(spec, (name,), Trigger(time_s=time_s), for_s)
        if for_s is None:
            return
        time_s = _to_ms(time_s + for_s + gap_s(arrivals, rng))


def _of_fleet(
    plan: FaultPlan, spec: FaultSpec, arrivals: Arrivals, roster: Roster, victims: tuple[str, ...]
) -> Iterator[Injection]:
    """Failures at times independent of outages; targets are drawn from those not down, if any."""
    rng = stream(plan.seed, spec.id)
    until_s: dict[str, float] = {}
    for time_s in _fleet_times(plan, spec, arrivals):
        names = choose(
            spec.target,
            roster,
            rng,
            protected=plan.limits.protected,
            victims=victims,
            busy={name for name, end_s in until_s.items() if end_s > time_s},
        )
        for_s = outage_s(spec.outage, rng)
        end_s = math.inf if for_s is None else time_s + for_s
        until_s |= {name: max(end_s, until_s.get(name, 0.0)) for name in names}
        yield draft(spec, names, Trigger(time_s=time_s), for_s)


def _fleet_times(plan: FaultPlan, spec: FaultSpec, arrivals: Arrivals) -> Iterator[float]:
    if arrivals.dist is Distribution.TRACE:
        yield from _trace(plan, arrivals)
        return
    rng = stream(plan.seed, spec.id, "times")
    time_s = _to_ms(arrivals.start_s + gap_s(arrivals, rng))
    while time_s < _end_s(plan, arrivals):
        yield time_s
        time_s = _to_ms(time_s + gap_s(arrivals, rng))


def _trace(plan: FaultPlan, arrivals: Arrivals) -> list[float]:
    end_s = _end_s(plan, arrivals)
    return sorted(time_s for time_s in arrivals.trace_s if arrivals.start_s <= time_s < end_s)


def _end_s(plan: FaultPlan, arrivals: Arrivals) -> float:
    """Time at or after which no fault arrives: `until`, or the latest end of the run."""
    ends = (arrivals.until_s, plan.training.stop.time_s, plan.limits.timeout_s)
    return min(end_s for end_s in ends if end_s is not None)


def draft(
    spec: FaultSpec,
    targets: tuple[str, ...],
    trigger: Trigger,
    for_s: float | None,
    watched: tuple[str, ...] = (),
) -> Injection:
    """An injection of a fault, without its number yet."""
    return Injection(
        number=0,
        spec=spec.id,
        fault=spec.fault,
        settings=spec.settings,
        targets=targets,
        trigger=trigger,
        for_s=for_s,
        watched=watched,
    )


def _to_ms(time_s: float) -> float:
    """Rounded to the millisecond, the precision that fleets can keep."""
    return round(time_s, 3)
