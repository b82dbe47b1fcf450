"""Every fleet, kind of links, fault and check that a plan may name: ours, and of other packages.

    FLEETS, LINKS, FAULTS, CHECKS ─┬─► Kinds, by which a plan file is read
    entry points (`core.registry`) ┘      └─► fleet_of, links_of: the settings in a plan

The one place where fleets and links are named. To add one: its settings class, one line here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from inspect import getattr_static, isfunction, signature
from typing import Any, Final

from chaoslab.checks.base import Check
from chaoslab.checks.catalogue import CHECKS
from chaoslab.core.errors import HarnessBug, PlanError
from chaoslab.core.on_demand import OnDemand
from chaoslab.core.registry import Group, load_plugins
from chaoslab.faults.base import Fault
from chaoslab.faults.catalogue import FAULTS
from chaoslab.fleet.settings import FleetSettings
from chaoslab.links.settings import LinksSettings
from chaoslab.plan.file import Kinds
from chaoslab.plan.file.conventions import is_required, key_of, keys_in
from chaoslab.plan.file.decoding import require_form
from chaoslab.plan.model import NO_LINKS, FaultPlan, FleetSpec

FLEETS: Final[Mapping[str, type[FleetSettings]]] = OnDemand(
    {
        "local": "chaoslab.fleet.local.settings:Local",
        "docker": "chaoslab.fleet.docker.settings:Docker",
        "kubernetes": "chaoslab.fleet.kubernetes.settings:Kubernetes",
        "ssh": "chaoslab.fleet.remote.settings:Ssh",
        "tpu-vm": "chaoslab.fleet.tpu.settings:TpuVm",
        "processes": "chaoslab.fleet.attached.settings:Processes",
        "compose": "chaoslab.fleet.attached.settings:Compose",
        "namespace": "chaoslab.fleet.attached.settings:Namespace",
        "hosts": "chaoslab.fleet.remote.settings:HostTraining",
        "sim": "chaoslab.sim.settings:Sim",
    }
)
LINKS: Final[Mapping[str, type[LinksSettings]]] = OnDemand(
    {
        NO_LINKS: "chaoslab.links.settings:Direct",
        "embedded": "chaoslab.links.proxied.settings:Embedded",
        "toxiproxy": "chaoslab.links.toxiproxy.settings:Toxiproxy",
        "netem": "chaoslab.links.netem.links:Netem",
        "sim": "chaoslab.sim.links:Simulated",
    }
)


@cache
def kinds() -> Kinds:
    """All; PackageError names a package that brings what cannot be used."""
    links = load_plugins(Group.LINKS, LINKS, partial(_why_not, LinksSettings))
    return Kinds(
        fleets=load_plugins(Group.FLEETS, FLEETS, partial(_why_no_fleet, links)),
        links=links,
        faults=faults(),
        checks=load_plugins(Group.CHECKS, CHECKS, partial(_why_not, Check)),
    )


def faults() -> Mapping[str, type[Fault]]:
    """Faults by their full names."""
    return load_plugins(Group.FAULTS, FAULTS, partial(_why_not, Fault))


def fleet_of(plan: FaultPlan) -> FleetSettings:
    """The settings of a plan's fleet."""
    found = plan.fleet.settings or kinds().fleets[plan.fleet.kind]()
    if not isinstance(found, FleetSettings):
        raise HarnessBug(f"{found!r} are no settings of a fleet")
    return found


def links_of(plan: FaultPlan, kind: str) -> LinksSettings:
    """Settings of its links, which are of this kind."""
    found = plan.fleet.links_settings or kinds().links[kind]()
    if not isinstance(found, LinksSettings):
        raise HarnessBug(f"{found!r} are no settings of links")
    return found


def _why_no_fleet(links: Mapping[str, type[LinksSettings]], name: str, thing: Any) -> str:
    """Why plans cannot name this fleet; empty if they can."""
    if why := _why_not(FleetSettings, name, thing):
        return why
    default = thing.default_links
    if default not in [*links]:
        return f"its default_links are {default!r}, which is none of {', '.join(links)}"
    if both := sorted(keys_in(thing) & keys_in(links[default])):
        return f"its default links, {default}, have a setting {both[0]!r} too: rename the field"
    return ""


def _why_not(protocol: type, name: str, thing: object) -> str:
    """Why plans cannot name this class of settings; empty if they can."""
    if not (isinstance(thing, type) and is_dataclass(thing) and _is_frozen(thing)):
        return "it is not the class of a frozen dataclass"
    promised = f"{protocol.__module__}.{protocol.__name__}"
    if lacks := sorted(_lacking(protocol, thing)):
        return f"it lacks {', '.join(lacks)}: see {promised}"
    own = getattr(thing, "name", "")
    if "name" in protocol.__annotations__ and own != name:
        return f"its name is {own!r}, but its entry point is {name!r}"
    if protocol is Fault and "." not in name:
        return f"its name has no family: call it family.{name}"
    if wrong := _called_otherwise(protocol, thing):
        return f"its {wrong} cannot be called as that of {promised}"
    shared = keys_in(FleetSpec) if protocol in (FleetSettings, LinksSettings) else ()
    if clash := sorted(keys_in(thing).intersection(shared)):
        return f"its setting {clash[0]!r} is a key of `fleet:` that chaoslab owns: rename the field"
    return _why_no_settings(thing, may_require=protocol is Check)


def _is_frozen(kind: type) -> bool:
    return bool(getattr(kind, "__dataclass_params__").frozen)  # noqa: B009  # mypy knows it not


def _lacking(protocol: type, kind: type) -> Iterator[str]:
    """Members of a protocol that a class has not, or only as the protocol's own empty ones."""
    yield from getattr(kind, "__abstractmethods__", ())
    for member in {*vars(protocol), *protocol.__annotations__}:
        found = getattr_static(kind, member, None)
        is_own = found is not None and found is not vars(protocol).get(member)
        if not (is_own or member.startswith("_")):
            yield member


def _called_otherwise(protocol: type, kind: type) -> str:
    """The first method that does not take the protocol's arguments, with its own; empty: none."""
    for member, promised in vars(protocol).items():
        if member.startswith("_") or not isfunction(promised):
            continue
        arguments = list(signature(promised).parameters)
        is_bound = not isfunction(getattr_static(kind, member))
        own = getattr(kind, member)
        if not callable(own):
            return member
        try:
            signature(own).bind(*arguments[is_bound:])
        except TypeError:
            return f"{member}{signature(own)}"
    return ""


def _why_no_settings(kind: type, *, may_require: bool) -> str:
    """Why the fields cannot be settings of a plan; those of a check alone may be required."""
    keys = [key_of(field.name) for field in fields(kind)]
    if twice := [key for key in keys if keys.count(key) > 1]:
        return f"two settings have the key {twice[0]!r} in a plan"
    try:
        require_form(kind)
    except HarnessBug as error:
        return f"{error}; chaoslab.plan.file lists the types"
    except NameError as error:
        return f"the type of a setting is unknown when a plan is read ({error})"
    if required := [field.name for field in fields(kind) if is_required(field)]:
        return "" if may_require else f"its setting {required[0]!r} has no default"
    try:
        kind()
    except PlanError as error:
        return f"it refuses its own defaults: {error.message}"
    return ""
