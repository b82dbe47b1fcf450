"""Which links a plan gets: the kind it says or needs, and the profiles of its regions.

    fleet.links ──────────────────────────► EmbeddedLinks | ToxiproxyLinks | NoLinks ─┐
       └ nothing said: embedded if anything needs links, none otherwise                ├─► LinkSetup
    fleet.regions, fleet.profiles ─► effects on each learner's link from the start ────┘

Names the concrete kinds of links. Nothing is started here.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.faults.base import ShapesLinks
from chaoslab.links.base import Links, NoLinks, Shaping
from chaoslab.links.embedded import EmbeddedLinks
from chaoslab.links.profiles import profile
from chaoslab.plan.model import REGION, FaultPlan, FaultSpec, FleetKind, LinkKind
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.setup import LinkSetup, LinksFactory
from chaoslab.undo.base import UndoLog


def link_setup(plan: FaultPlan) -> LinkSetup:
    """How the learners of a plan reach the syncer.

    PlanError, with its place, for an unknown profile and for an effect or a trace that cannot be.
    """
    for spec in plan.faults:
        if isinstance(spec.settings, ShapesLinks):
            _refuse_impossible(spec, spec.settings)
    factories = FACTORIES if plan.fleet.kind is FleetKind.LOCAL else HOUSED
    return LinkSetup(factory=factories[link_kind(plan)](plan), standing=standing(plan))


def link_kind(plan: FaultPlan) -> LinkKind:
    """What the plan says; if it does not, embedded when anything needs links, else none.

    Between containers Toxiproxy in the place of embedded: it is one more of them.
    """
    if plan.fleet.links is not None:
        return plan.fleet.links
    if not _needs_links(plan):
        return LinkKind.NONE
    is_local = plan.fleet.kind is FleetKind.LOCAL
    return LinkKind.EMBEDDED if is_local else LinkKind.TOXIPROXY


def why_this_kind(plan: FaultPlan) -> str:
    """For a preview: who chose, the plan or its needs."""
    if plan.fleet.links is not None:
        return "as the plan says"
    needs = "a fault or a profile needs them" if _needs_links(plan) else "nothing needs any"
    return f"the plan does not say, and {needs}"


def standing(plan: FaultPlan) -> Mapping[str, tuple[Shaping, ...]]:
    """By learner: what its region's profile puts on its link from the start."""
    profiles = plan.fleet.profiles
    regions = {name: labels.get(REGION) for name, labels in plan.labels.items()}
    try:
        shapings = {region: profile(name).shapings for region, name in profiles.items()}
    except PlanError as error:
        raise PlanError(f"fleet.profiles: {error.message}", where=_file(plan)) from error
    return {
        name: shapings[region]
        for name, region in regions.items()
        if region in shapings and name in plan.training.roster
    }


def caveats(plan: FaultPlan, schedule: Schedule) -> tuple[str, ...]:
    """Where these links differ from what the plan asks of them, each once."""
    setup = link_setup(plan)
    links = setup.ask()
    asked = [shaping for shapings in setup.standing.values() for shaping in shapings]
    for injection in schedule.injections:
        if isinstance(injection.settings, ShapesLinks):
            asked += injection.settings.shapings()
    return tuple(dict.fromkeys(said for _, effect in asked for said in links.caveats(effect)))


def _refuse_impossible(spec: FaultSpec, fault: ShapesLinks) -> None:
    try:
        fault.shapings()
    except PlanError as error:
        said = f"{spec.fault} (fault {spec.id!r}): {error.message}"
        raise PlanError(said, where=spec.where) from error


def _file(plan: FaultPlan) -> str:
    """Of the plan, as its entries name it; empty if none of them was read from a file."""
    for where in (*(one.where for one in plan.faults), *(one.where for one in plan.expect)):
        file, *place = where.rsplit(":", 2)
        if len(place) == 2 and all(part.isdecimal() for part in place):
            return file
    return ""


def _needs_links(plan: FaultPlan) -> bool:
    faults = (spec.settings for spec in plan.faults)
    return bool(plan.fleet.profiles) or any(isinstance(fault, ShapesLinks) for fault in faults)


# ---------------------------------------------------------------- the concrete kinds


def _none(_: Path, /, *, undo_log: UndoLog) -> Links:  # noqa: ARG001 - nothing is owed
    return NoLinks()


def _housed(run_directory: Path, /, *, undo_log: UndoLog, seed: int | None) -> Links:
    """In a container; with a seed the embedded proxy, without one Toxiproxy."""
    from chaoslab.fleet.docker.engine import Engine  # noqa: PLC0415  # needs the SDK
    from chaoslab.fleet.docker.proxy import ContainerProxyHost  # noqa: PLC0415

    proxy_host = ContainerProxyHost(run_directory, Engine.connect())
    if seed is not None:
        return EmbeddedLinks(run_directory, undo_log=undo_log, seed=seed, proxy_host=proxy_host)
    from chaoslab.links.toxiproxy import ToxiproxyLinks  # noqa: PLC0415  # only who asks pays

    proxy_host.require_toxiproxy()
    return ToxiproxyLinks(run_directory, undo_log=undo_log, proxy_host=proxy_host)


def _forwarded(run_directory: Path, /, *, undo_log: UndoLog) -> Links:  # noqa: ARG001
    """By a gateway of the run's network: what it leaves goes with that."""
    from chaoslab.fleet.docker.engine import Engine  # noqa: PLC0415  # needs the SDK
    from chaoslab.fleet.docker.gateway import ContainerGateway  # noqa: PLC0415
    from chaoslab.links.netem_links import NetemLinks  # noqa: PLC0415

    return NetemLinks(ContainerGateway(run_directory, Engine.connect()))


def _only_between_containers(_: Path, /, *, undo_log: UndoLog) -> Links:  # noqa: ARG001
    raise AbilityError(
        "links: netem need a network of the run's own, which only containers have: use --fleet "
        "docker, or links: embedded"
    )


def _toxiproxy(run_directory: Path, /, *, undo_log: UndoLog, address: str | None) -> Links:
    from chaoslab.links.toxiproxy import ToxiproxyLinks  # noqa: PLC0415  # only who asks pays

    return ToxiproxyLinks(run_directory, undo_log=undo_log, address=address)


FACTORIES: Mapping[LinkKind, Callable[[FaultPlan], LinksFactory]] = {
    LinkKind.NONE: lambda _: _none,
    LinkKind.EMBEDDED: lambda plan: partial(EmbeddedLinks, seed=plan.seed),
    LinkKind.TOXIPROXY: lambda plan: partial(_toxiproxy, address=plan.fleet.toxiproxy),
    LinkKind.NETEM: lambda _: _only_between_containers,
}
HOUSED: Mapping[LinkKind, Callable[[FaultPlan], LinksFactory]] = {
    LinkKind.NONE: lambda _: _none,
    LinkKind.EMBEDDED: lambda plan: partial(_housed, seed=plan.seed),
    LinkKind.TOXIPROXY: lambda _: partial(_housed, seed=None),
    LinkKind.NETEM: lambda _: _forwarded,
}
"""Between containers."""
