"""Every fleet, kind of links, fault and check that a plan may name: ours, and of other packages.

    FLEETS, LINKS, FAULTS, CHECKS ─┬─► Kinds, by which a plan file is read
    entry points (`core.registry`) ┘      └─► fleet_of, links_of: the settings in a plan

The one place where fleets and links are named. To add one: its settings class, one line here.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache, partial

from chaoslab.checks.base import Check
from chaoslab.checks.catalogue import CHECKS
from chaoslab.core.errors import HarnessBug
from chaoslab.core.registry import Group, brought
from chaoslab.faults.base import Fault
from chaoslab.faults.catalogue import FAULTS
from chaoslab.fleet.docker.settings import Docker
from chaoslab.fleet.local.settings import Local
from chaoslab.fleet.settings import FleetSettings
from chaoslab.links.netem.links import Netem
from chaoslab.links.proxied.embedded import Embedded
from chaoslab.links.settings import Direct, LinksSettings
from chaoslab.links.toxiproxy.settings import Toxiproxy
from chaoslab.plan.file import Kinds
from chaoslab.plan.model import NO_LINKS, FaultPlan

FLEETS: Mapping[str, type[FleetSettings]] = {"local": Local, "docker": Docker}
LINKS: Mapping[str, type[LinksSettings]] = {
    NO_LINKS: Direct,
    "embedded": Embedded,
    "toxiproxy": Toxiproxy,
    "netem": Netem,
}


@cache
def kinds() -> Kinds:
    """All; PackageError names a package that brings what cannot be used."""
    return Kinds(
        fleets=brought(Group.FLEETS, FLEETS, partial(_why_no_settings, FleetSettings)),
        links=brought(Group.LINKS, LINKS, partial(_why_no_settings, LinksSettings)),
        faults=faults(),
        checks=brought(Group.CHECKS, CHECKS, partial(_why_not, Check)),
    )


def faults() -> Mapping[str, type[Fault]]:
    """Faults by their full names."""
    return brought(Group.FAULTS, FAULTS, partial(_why_not, Fault))


def fleet_of(plan: FaultPlan) -> FleetSettings:
    """The settings of a plan's fleet."""
    found = plan.fleet.settings or kinds().fleets[plan.fleet.kind]()
    if not isinstance(found, FleetSettings):
        raise HarnessBug(f"{found!r} are no settings of a fleet")
    return found


def links_of(plan: FaultPlan, kind: str) -> LinksSettings:
    """Those of its links, which are of this kind."""
    found = plan.fleet.links_settings or kinds().links[kind]()
    if not isinstance(found, LinksSettings):
        raise HarnessBug(f"{found!r} are no settings of links")
    return found


def _why_no_settings(protocol: type, _: str, thing: object) -> str:
    if not (isinstance(thing, type) and is_dataclass(thing)):
        return "it is not the class of a dataclass"
    try:
        lacks = not isinstance(thing(), protocol)
    except TypeError as error:
        return f"it cannot be made without arguments ({error}): each field needs a default"
    return f"it lacks a member of {protocol.__module__}.{protocol.__name__}" if lacks else ""


def _why_not(protocol: type, name: str, thing: object) -> str:
    """Faults and checks need not be made without arguments: their settings may be required."""
    if not (isinstance(thing, type) and is_dataclass(thing)):
        return "it is not the class of a dataclass"
    lacks = sorted(
        member
        for member in (*protocol.__dict__, *protocol.__annotations__)
        if not member.startswith("_") and not hasattr(thing, member)
    )
    if lacks:
        return f"it lacks {', '.join(lacks)} of {protocol.__module__}.{protocol.__name__}"
    own = getattr(thing, "name", "")
    return "" if own == name else f"it calls itself {own!r}, not {name!r}"
