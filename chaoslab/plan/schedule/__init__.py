"""Schedule: plan, roster and seed give injections; all random choices are made here.

    fault ─ stream(seed, id) ─► when (at, arrivals) and whom (target) and how long (outage)
      └─► drafts of all faults ── limits ──► injections, and those that the limits left out

The same plan, roster and seed give the same schedule on every machine. Each fault draws from its
own random stream, with `per: target` each target from its own, so that adding one does not change
the others. A target is not hit again by the same fault during an outage: the time to its next
failure runs from its repair. Nothing here knows what a fault does.
"""

from dataclasses import replace

from chaoslab.core.errors import HarnessBug, PlanError
from chaoslab.core.protocol import SYNCER_PHASES
from chaoslab.plan.model import FaultPlan, FaultSpec, Injection
from chaoslab.plan.model.rules import refuse
from chaoslab.plan.schedule.arrivals import arriving, draft
from chaoslab.plan.schedule.blast_radius import apply_limits
from chaoslab.plan.schedule.chance import outage_s, stream
from chaoslab.plan.schedule.lines import Dropped, Schedule, from_lines, preview, to_lines
from chaoslab.plan.schedule.targets import (
    LEARNER,
    RESERVE,
    Roster,
    RosterEntry,
    choose,
    known_names,
    roster_of,
    watched,
)

__all__ = [
    "RESERVE",
    "Dropped",
    "RosterEntry",
    "Schedule",
    "from_lines",
    "preview",
    "roster_of",
    "schedule",
    "to_lines",
]


def schedule(plan: FaultPlan, roster: Roster) -> Schedule:
    """Make all random choices of the plan, within its limits.

    PlanError for a target that matches nothing, a planned injection that breaks a limit, or a plan
    with faults that would never be injected.
    """
    learners = frozenset(entry.name for entry in roster if entry.role == LEARNER)
    known_names(roster, plan.limits.protected, "limits.protected")
    drafts: list[Injection] = []
    victims: tuple[str, ...] = ()
    mistakes: list[PlanError] = []
    for spec in plan.faults:
        if mistakes and spec.target.pick == "last_victim":
            continue  # whose victim that is is not known
        try:
            found = _drafts(plan, spec, roster, victims)
        except PlanError as error:
            mistakes.append(PlanError(f"fault {spec.id!r}: {error.message}", where=spec.where))
            continue
        victims = found[0].targets if spec.at is not None else victims
        drafts += found
    refuse(mistakes)
    reserve = frozenset(entry.name for entry in roster if entry.role == RESERVE)
    kept, dropped = apply_limits(plan, drafts, learners, reserve)
    if plan.faults and not kept:
        raise PlanError(
            f"with seed {plan.seed} no fault falls into the run: use a shorter `mtbf`, a later "
            f"end or another seed"
        )
    return Schedule(
        seed=plan.seed,
        injections=tuple(replace(one, number=number) for number, one in enumerate(kept)),
        dropped=tuple(dropped),
    )


def _drafts(
    plan: FaultPlan, spec: FaultSpec, roster: Roster, victims: tuple[str, ...]
) -> list[Injection]:
    """Injections of one fault, in the order of time."""
    if spec.arrivals is not None:
        return arriving(plan, spec, spec.arrivals, roster, victims)
    if spec.at is None:
        raise HarnessBug(f"fault {spec.id!r} has neither `at` nor `arrivals`")
    if spec.at.of is not None and spec.at.phase not in SYNCER_PHASES:
        learners = [entry for entry in roster if entry.role in (LEARNER, RESERVE)]
        known_names(learners, [spec.at.of], "of")
    rng = stream(plan.seed, spec.id)
    protected = plan.limits.protected
    announcers = watched(spec.at, spec.target, roster, protected=protected)
    targets = choose(spec.target, roster, rng, protected=protected, victims=victims)
    for_s = outage_s(spec.outage, rng)
    return [draft(spec, targets, spec.at, for_s, announcers)]
