"""How fast the chips of a plan are, and by what its faults slow them here: words for a preview."""

from collections import Counter

from chaoslab.fleet.burdens import Mechanism
from chaoslab.fleet.slowing import said
from chaoslab.plan import Training
from chaoslab.schedule import Schedule
from chaoslab.units import show_share


def learners(training: Training) -> str:
    """How many there are, and of what kinds."""
    slower = Counter(training.speeds.values())
    kinds = (f"{count} of them at {show_share(speed)} speed" for speed, count in slower.items())
    return ", ".join((f"{training.learners} learners", *kinds))


def slowing(schedule: Schedule) -> str | None:
    """The mechanisms that this machine offers for what is scheduled; None if nothing slows."""
    asked = (getattr(one.settings, "mechanism", None) for one in schedule.injections)
    ways = dict.fromkeys(said(how) for how in asked if isinstance(how, Mechanism))
    return f"by {', by '.join(ways)}" if ways else None
