"""Setup of a run: a fleet and its clock, links, and the text of the plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaoslab.core.clock import Clock, WallClock
from chaoslab.core.secrets import Secrets
from chaoslab.fleet.settings import FleetFactory
from chaoslab.links.base import Links
from chaoslab.links.effects import Shaping
from chaoslab.links.settings import Direct, LinksFactory
from chaoslab.undo.base import NoUndoLog


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSetup:
    """A fleet, and its clock."""

    fleet: FleetFactory
    clock: Callable[[], Clock] = WallClock
    is_simulated: bool = False
    """Its clock is virtual and it starts nothing on this machine: there is nothing to undo should
    the harness die, and what this machine is has no part in what comes out."""
    speed: float | None = 1.0
    """Seconds of its clock per second; None: as many as the machine can simulate."""

    @property
    def calendar(self) -> Clock:
        """The clock by which a run is dated and found again: never a virtual one."""
        return WallClock() if self.is_simulated else self.clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSetup:
    """Links by which the learners of a plan reach the syncer, and their effects from the start."""

    factory: LinksFactory = field(default_factory=lambda: Direct().factory(0))
    initial_effects: Mapping[str, tuple[Shaping, ...]] = field(default_factory=dict)
    """Profile of the region of each learner."""

    def ask(self) -> Links:
        """Links to ask about abilities, which are never entered. AbilityError if there are none."""
        return self.factory(Path(), undo_log=NoUndoLog())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanText:
    """The plan as YAML: what was asked, and what it resolved to, without its secrets.

    Both are empty for a run whose record is not kept; that one does not say where it was made.
    """

    source: str
    resolved: str
    secrets: Secrets = field(default_factory=Secrets)
