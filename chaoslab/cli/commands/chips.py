"""How fast the chips of a plan are, and by what its faults slow them here: words for a preview."""

from collections import Counter

from chaoslab.core.units import show_share
from chaoslab.fleet.settings import FleetSettings
from chaoslab.fleet.stressors import Mechanism
from chaoslab.plan.model import Training
from chaoslab.plan.schedule import Schedule


def learners(training: Training) -> str:
    """How many there are, and of what kinds."""
    slower = Counter(training.speeds.values())
    kinds = (f"{count} of them at {show_share(speed)} speed" for speed, count in slower.items())
    return ", ".join((f"{training.learner_count} learners", *kinds))


def slowing(schedule: Schedule, fleet: FleetSettings) -> str | None:
    """The mechanisms that the fleet offers for what is scheduled; None if nothing slows."""
    asked = (getattr(one.settings, "mechanism", None) for one in schedule.injections)
    ways = dict.fromkeys(fleet.slowing(how) for how in asked if isinstance(how, Mechanism))
    return f"by {', by '.join(ways)}" if ways else None
