"""What fleet or links cannot do is refused before anything starts, with the reason.

injections ── needs ───► abilities of the fleet ─┐
           ├─ shapings ► abilities of the links ─┼─► AbilityError, PlanError, or nothing
           └─ beats ───► before it is healed ────┘
"""

from collections.abc import Iterable, Mapping

from chaoslab.core.errors import AbilityError, HarnessBug, PlanError
from chaoslab.faults.base import ChoosesRole, Fault, ShapesLinks
from chaoslab.fleet.base import Ability, Role
from chaoslab.links.base import Links, Shaping, require
from chaoslab.plan.model import Injection
from chaoslab.prepare.launch import SYNCER

_DISKS = frozenset({Ability.VOLUME, Ability.CUT_POWER})
"""No node has both."""


def refuse_missing_abilities(
    injections: Iterable[Injection],
    abilities: frozenset[Ability],
    fleet_kind: str,
    links: Links,
    places: Mapping[str, str] | None = None,
) -> None:
    """AbilityError when a fault needs what fleet or links cannot do; before anything starts.

    PlanError when an effect cannot be in the direction that is asked for, by any links. `places`
    says where the plan has each fault, as file:line:column by its id.
    """
    asked: frozenset[Ability] = frozenset()
    for injection in injections:
        where = (places or {}).get(injection.spec, "")
        fault = fault_of(injection)
        asked |= fault.needs & _DISKS
        if asked == _DISKS:
            raise PlanError(
                f"{injection.fault} (fault {injection.spec!r}) needs another disk than an earlier "
                "fault: one that can be full is in memory, and loses all without power. Put them "
                "into two plans",
                where=where,
            )
        _refuse_wrong_roles(injection, fault, where)
        if missing := fault.needs - abilities:
            raise AbilityError(
                f"{injection.fault} (fault {injection.spec!r}) needs a fleet that can "
                f"{', '.join(sorted(missing))}; the {fleet_kind} fleet cannot here: choose another "
                "fault or fleet (`--fleet`), or see `chaoslab doctor`",
                where=where,
            )
        if injection.watched and Ability.HOOKS not in abilities:
            raise AbilityError(
                f"fault {injection.spec!r} waits for the phase {injection.trigger.phase}, and the "
                f"{fleet_kind} fleet has no way to its nodes' test hooks: use another trigger",
                where=where,
            )
        if isinstance(fault, ShapesLinks):
            _refuse_impossible_shapings(injection, fault, links, where)
        _refuse_late_beats(injection, fault, where)


def _refuse_wrong_roles(injection: Injection, fault: Fault, where: str) -> None:
    """PlanError if a target runs something that this fault does not act on."""
    roles = fault.roles if isinstance(fault, ChoosesRole) else frozenset({Role.LEARNER})
    hits_syncer = SYNCER in injection.targets
    who = f"{injection.fault} (fault {injection.spec!r})"
    if hits_syncer and Role.SYNCER not in roles:
        raise PlanError(
            f"{who} acts on learners; the syncer has faults of its own, such as syncer.kill",
            where=where,
        )
    if Role.LEARNER not in roles and injection.targets != (SYNCER,):
        raise PlanError(
            f"{who} acts on the syncer: write `target: {{syncer: all}}`",
            where=where,
        )
    if hits_syncer and injection.for_s is None:
        raise PlanError(
            f"{who} is never healed, and training cannot go on without the syncer: write `for: 5s`",
            where=where,
        )


def _refuse_late_beats(injection: Injection, fault: Fault, where: str) -> None:
    """PlanError if a fault that acts again and again would be healed before it is through."""
    last_s = max(fault.steps(), default=0.0)
    if injection.for_s is not None and last_s >= injection.for_s > 0:
        raise PlanError(
            f"{injection.fault} (fault {injection.spec!r}) acts for the last time after "
            f"{last_s:g} s and is healed after {injection.for_s:g} s: write a longer `for`",
            where=where,
        )


def _refuse_impossible_shapings(
    injection: Injection, fault: ShapesLinks, links: Links, where: str
) -> None:
    who = f"{injection.fault} (fault {injection.spec!r})"
    try:
        require_all(links, fault.shapings())
    except PlanError as error:
        raise PlanError(f"{who}: {error.message}", where=where) from error
    except AbilityError as error:
        raise AbilityError(f"{who}: {error.message}", where=where) from error


def require_all(links: Links, shapings: Iterable[Shaping]) -> None:
    """AbilityError if these links cannot do one of them, PlanError if nobody can."""
    for direction, effect in shapings:
        require(links, direction, effect)
        links.caveats(effect)  # which refuses a strength that these links cannot have


def fault_of(injection: Injection) -> Fault:
    """The fault of an injection."""
    if not isinstance(injection.settings, Fault):
        raise HarnessBug(f"{injection.id}: {injection.settings!r} is not a fault")
    return injection.settings
