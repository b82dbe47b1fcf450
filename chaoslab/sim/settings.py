"""The simulated fleet as a plan names it: `fleet: {kind: sim, costs: costs.toml}`."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, HarnessBug, PlanError
from chaoslab.core.units import BytesPerSecond, Factor
from chaoslab.fleet.base import Ability, Fleet, NodeSite
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import abilities_of
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.fleet.stressors import Mechanism
from chaoslab.links.settings import LinksFactory, LinksSettings
from chaoslab.plan.model import NO_LINKS
from chaoslab.sim.clock import SimClock
from chaoslab.sim.costs import Costs
from chaoslab.sim.fleet import SimFleet
from chaoslab.sim.links import SimLinks
from chaoslab.undo.base import UndoLog

_OURS = "chaoslab.diloco."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sim:
    """Nodes are simulated: no process is started, nothing is trained, losses are modelled."""

    costs: str = ""
    """A file of costs (TOML): what work takes in place of the defaults; empty: the defaults."""
    rate_bytes_per_s: BytesPerSecond | None = None
    """Rate of each link without effects, each way; absent: that of the costs."""
    speed: Factor | None = None
    """How much faster than real time it runs, at least `1x`, so that people can follow; absent: as
    fast as it can be simulated."""

    default_links: ClassVar[str] = "sim"
    runs_here: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.speed is not None and self.speed < 1:
            raise PlanError(f"speed: must be at least 1x, got {self.speed:g}x")

    def named_files(self) -> tuple[str, ...]:
        """The costs."""
        return (self.costs,) if self.costs else ()

    def clock(self) -> Clock:
        """A virtual one."""
        return SimClock(self.speed)

    def factory(self, request: FleetRequest) -> FleetFactory:
        """AbilityError for programs or a task of the plan's own: what they do is not known."""
        if foreign := [module for module in request.modules if not module.startswith(_OURS)]:
            raise AbilityError(
                f"the sim fleet runs no programs, so {foreign[0]} has no meaning in it: leave "
                "`fleet.programs` out, or choose another fleet"
            )
        if request.trial(NodeSite()) is not None:
            raise AbilityError(
                "the sim fleet trains nothing, so `training.task` has no meaning in it: name a "
                "`training.model`, or choose another fleet"
            )
        costs = Costs.read(Path(self.costs)) if self.costs else Costs()
        if self.rate_bytes_per_s is not None:
            costs = replace(costs, rate_bytes_per_s=self.rate_bytes_per_s)
        return SimFleets(costs=costs, seed=request.seed)

    def links(self, kind: str, settings: LinksSettings, seed: int) -> LinksFactory:
        """Simulated links, whatever kind would carry real ones."""
        if kind == NO_LINKS:
            return settings.factory(seed)
        return _links

    def slowing(self, mechanism: Mechanism) -> str:  # noqa: ARG002 - the protocol's
        """Steps that take longer."""
        return "longer steps, simulated"


@dataclass(frozen=True, kw_only=True)
class SimFleets:
    """Makes the fleets of one plan; see `FleetFactory`."""

    costs: Costs
    seed: int
    kind: str = "sim"

    @cached_property
    def abilities(self) -> frozenset[Ability]:
        """Abilities that have a meaning in a simulation."""
        return abilities_of(SimFleet)

    def __call__(
        self,
        run_directory: Path,  # noqa: ARG002 - the protocol's
        clock: Clock,
        *,
        undo_log: UndoLog,  # noqa: ARG002 - nothing to undo
        node_links: NodeLinks,
    ) -> Fleet:
        """Make the fleet of one run."""
        if not isinstance(clock, SimClock):
            raise HarnessBug(f"a simulation needs a virtual clock, and got {clock!r}")
        return SimFleet(clock, costs=self.costs, seed=self.seed, node_links=node_links)


def _links(_: Path, /, *, undo_log: UndoLog) -> SimLinks:  # noqa: ARG001 - nothing to undo
    return SimLinks()
