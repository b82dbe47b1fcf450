"""Links of a plan: the kind that it names or needs, and the profiles of its regions.

    fleet.links ────────────────────────► LinksSettings ─ the fleet's `links` ─► Links ─┐
       └ nothing said: the fleet's own if anything needs links, none otherwise          ├► LinkSetup
    fleet.regions, fleet.profiles ─► effects on each learner's link from the start ─────┘

Nothing is started here.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from chaoslab.core.errors import PlanError
from chaoslab.faults.base import ShapesLinks
from chaoslab.links.effects import Shaping
from chaoslab.links.profiles import profile
from chaoslab.plan.file import Mistake
from chaoslab.plan.model import NO_LINKS, REGION, FaultPlan
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.kinds import fleet_of, links_of
from chaoslab.prepare.setup import LinkSetup


def link_setup(plan: FaultPlan) -> LinkSetup:
    """Links between learners and syncer; PlanError for an unknown profile."""
    kind = link_kind(plan)
    factory = fleet_of(plan).links(kind, links_of(plan, kind), plan.seed)
    return LinkSetup(factory=factory, initial_effects=initial_effects(plan))


def link_kind(plan: FaultPlan) -> str:
    """Kind in the plan; without one, the fleet's own when anything needs links, else none."""
    if plan.fleet.links is not None:
        return plan.fleet.links
    return fleet_of(plan).default_links if _needs_links(plan) else NO_LINKS


def why_this_kind(plan: FaultPlan) -> str:
    """Reason for the kind, in a preview: the plan or its needs."""
    if plan.fleet.links is not None:
        return "as the plan says"
    needs = "a fault or a profile needs them" if _needs_links(plan) else "nothing needs any"
    return f"the plan does not say, and {needs}"


def initial_effects(plan: FaultPlan) -> Mapping[str, tuple[Shaping, ...]]:
    """Effects of the region's profile on each learner's link from the start."""
    profiles = plan.fleet.profiles
    regions = {name: labels.get(REGION) for name, labels in plan.labels.items()}
    shapings = {region: profile(name).shapings for region, name in profiles.items()}
    return {
        name: shapings[region]
        for name, region in regions.items()
        if region in shapings and name in plan.training.roster
    }


def caveats(plan: FaultPlan, schedule: Schedule) -> tuple[str, ...]:
    """Differences between these links and the plan's requests, each once."""
    setup = link_setup(plan)
    links = setup.ask()
    asked = [shaping for shapings in setup.initial_effects.values() for shaping in shapings]
    for injection in schedule.injections:
        if isinstance(injection.settings, ShapesLinks):
            asked += injection.settings.shapings()
    return tuple(dict.fromkeys(said for _, effect in asked for said in links.caveats(effect)))


def unlinkable(plan: FaultPlan) -> Iterator[Mistake]:
    """Unknown profiles, and faults with an effect or a trace that cannot be."""
    for number, spec in enumerate(plan.faults):
        if isinstance(spec.settings, ShapesLinks) and (why := _refusal(spec.settings.shapings)):
            yield ("faults", number), f"{spec.fault}: {why}"
    for region, name in plan.fleet.profiles.items():
        if why := _refusal(partial(profile, name)):
            yield ("fleet", "profiles", region), why


def _refusal(ask: Callable[[], object]) -> str:
    """The message of the PlanError that this raises; empty if it raises none."""
    try:
        ask()
    except PlanError as error:
        return error.message
    return ""


def _needs_links(plan: FaultPlan) -> bool:
    faults = (spec.settings for spec in plan.faults)
    return bool(plan.fleet.profiles) or any(isinstance(fault, ShapesLinks) for fault in faults)
