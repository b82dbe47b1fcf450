"""What fleet or links cannot do is refused before anything starts, with the reason.

injections ── needs ───► abilities of the fleet ─┐
           └─ shapings ► abilities of the links ─┴─► AbilityError, PlanError, or nothing
"""

from collections.abc import Iterable

from chaoslab.errors import AbilityError, HarnessBug, PlanError
from chaoslab.faults.base import Fault, ShapesLinks
from chaoslab.fleet.base import Ability
from chaoslab.launch import SYNCER
from chaoslab.links.base import Links, Shaping, require
from chaoslab.plan import Injection


def refuse_missing_abilities(
    injections: Iterable[Injection],
    abilities: frozenset[Ability],
    fleet_kind: str,
    links: Links,
) -> None:
    """AbilityError when a fault needs what fleet or links cannot do; before anything starts.

    PlanError when an effect cannot be in the direction that is asked for, by any links.
    """
    for injection in injections:
        if SYNCER in injection.targets:
            raise AbilityError(
                f"fault {injection.spec!r} is on the syncer: a run ends with its syncer in this "
                "version, so nothing could be judged; target learners"
            )
        fault = fault_of(injection)
        if missing := fault.needs - abilities:
            raise AbilityError(
                f"{injection.fault} (fault {injection.spec!r}) needs a fleet that can "
                f"{', '.join(sorted(missing))}; the {fleet_kind} fleet cannot here: choose another "
                "fault, or see `chaoslab doctor`"
            )
        if isinstance(fault, ShapesLinks):
            _refuse_impossible_shapings(injection, fault, links)


def _refuse_impossible_shapings(injection: Injection, fault: ShapesLinks, links: Links) -> None:
    who = f"{injection.fault} (fault {injection.spec!r})"
    try:
        require_all(links, fault.shapings())
    except PlanError as error:
        raise PlanError(f"{who}: {error.message}") from error
    except AbilityError as error:
        raise AbilityError(f"{who}: {error}") from error


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
