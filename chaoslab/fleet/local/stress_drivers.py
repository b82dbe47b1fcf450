"""What carries each burden on a local node, and what cannot be carried on this machine.

Wish ─► Bearing ─► slowing (a slower chip), crowding (neighbours, held memory, a shared limit)
"""

from collections.abc import Callable

from chaoslab.fleet.base import Ability
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.local.incarnation import LocalIncarnation
from chaoslab.fleet.local.neighbours import Beside, SharedLimit, promised_bytes
from chaoslab.fleet.local.slowdown import slower
from chaoslab.fleet.local.stress_driver import LocalDriver
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stressors import MemoryLimit, Slowness


def drivers_of(place: Place) -> Callable[[Wish[LocalIncarnation]], StressDriver]:
    """What carries a burden on a node of that place."""

    def driver(wish: Wish[LocalIncarnation]) -> StressDriver:
        bearing = LocalDriver(
            life=wish.life,
            injection=wish.injection,
            undo_log=place.undo_log,
            calm_cores=wish.calm_cores,
            promised_bytes=promised_bytes(wish.others),
        )
        if isinstance(wish.stressor, Slowness):
            return slower(bearing, wish.stressor)
        if isinstance(wish.stressor, MemoryLimit):
            return SharedLimit(bearing, wish.stressor)
        return Beside(bearing, wish.stressor)

    return driver


def lacking() -> frozenset[Ability]:
    """What can not be done to a node on this machine, for want of cgroups."""
    by_cgroup = {Controller.CPU: Ability.QUOTA, Controller.MEMORY: Ability.MEMORY_LIMIT}
    missing = (needed for kind, needed in by_cgroup.items() if cgroups.where(kind) is None)
    return frozenset(missing)
