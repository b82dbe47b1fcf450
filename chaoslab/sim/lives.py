"""Lives of simulated nodes: each node's place, its present process, and how earlier ones ended.

know ─► begin ─► process ─┬─ ends by itself ─────────► node.exited at once
          ▲               └─ end(signal) ─ exit_s ───► node.exited
          └──────────────────── next incarnation ◄────────┘
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import HostStarted, NodeExited, NodeStarted
from chaoslab.fleet.base import Node, NodeSpec, Role, known_already
from chaoslab.sim.clock import Timer
from chaoslab.sim.learner import Learner
from chaoslab.sim.process import Process
from chaoslab.sim.snapshots import Evaluator
from chaoslab.sim.syncer import Syncer
from chaoslab.sim.world import World

_PROGRAMS: Mapping[Role, type[Process]] = MappingProxyType(
    {Role.SYNCER: Syncer, Role.LEARNER: Learner, Role.EVALUATOR: Evaluator}
)
_PIDS = 1000
"""A life's process id is this many times the number of its node, and its incarnation."""
_HOST_PIDS = 10_000_000
"""Added to that for the process of each of its hosts, where it has several."""


@dataclass(slots=True, kw_only=True)
class Place:
    """A node, and the life that it has now."""

    spec: NodeSpec
    number: int
    incarnation: int = 0
    process: Process | None = None
    """Process; None before its first life, and after each."""
    sent: list[str] = field(default_factory=list)
    """Signals that were sent to end this life."""
    exit: tuple[Timer, NodeExited] | None = None
    """Exit of a life that has ended and is not reported yet."""
    slowness: dict[str, float] = field(default_factory=dict)
    """Slowness by injection."""

    @property
    def pid(self) -> int:
        """Different for each life of each node."""
        return _PIDS * self.number + self.incarnation

    @property
    def node(self) -> Node:
        """State of the node, as the fleet shows it."""
        return Node(
            name=self.spec.name,
            role=self.spec.role,
            labels=self.spec.labels,
            incarnation=self.incarnation,
            is_alive=self.process is not None,
        )


class Lives:
    """Places of all nodes of one fleet. Each look at one lets happen first what is due."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._places: dict[str, Place] = {}

    @property
    def nodes(self) -> Mapping[str, Node]:
        """See `Fleet.nodes`."""
        return {name: place.node for name, place in self._places.items()}

    def know(self, spec: NodeSpec) -> Place:
        """A new node; FleetError if it is known."""
        self._world.agenda.catch_up()
        if spec.name in self._places:
            raise known_already(spec)
        place = Place(spec=spec, number=len(self._places) + 1)
        self._places[spec.name] = place
        return place

    def place(self, name: str) -> Place:
        """A node after everything that was due has happened."""
        place = self._places[name]
        self._world.agenda.catch_up()
        return place

    def living(self, name: str) -> Process:
        """The process of a node; FleetError without one."""
        process = self.place(name).process
        if process is None:
            raise FleetError(f"{name} is not running")
        return process

    def learner(self, name: str) -> Learner:
        """The process of a learner; FleetError if there is none."""
        process = self.living(name)
        if not isinstance(process, Learner):
            raise FleetError(f"{name} is no learner")
        return process

    def begin(self, place: Place) -> Node:
        """Start the next incarnation."""
        self._tell_exit(place)
        place.incarnation += 1
        place.sent.clear()
        place.slowness.clear()
        spec = place.spec
        process = _PROGRAMS[spec.role](
            self._world, spec, place.incarnation, lambda _: self.end(place, signal=None)
        )
        place.process = process
        started = NodeStarted(
            node=spec.name,
            incarnation=place.incarnation,
            pid=place.pid,
            role=spec.role.value,
            labels=spec.labels,
        )
        self._world.report(spec.name, started)
        for host in range(spec.hosts.count if spec.hosts else 0):
            process.say(
                HostStarted(
                    learner=spec.name,
                    incarnation=place.incarnation,
                    host=host,
                    pid=place.pid + _HOST_PIDS * (host + 1),
                )
            )
        process.begin()
        return place.node

    def end(self, place: Place, *, signal: str | None) -> None:
        """A life is over; that is seen a moment later, or at once if it ended by itself."""
        process = place.process
        if process is None:
            return
        place.process = None
        process.end()
        exited = NodeExited(
            node=place.spec.name,
            incarnation=place.incarnation,
            pid=place.pid,
            exit_code=None if signal else process.exit_code,
            signal=signal,
            sent=tuple(place.sent),
        )
        delay_s = self._world.costs.exit_s if signal else 0.0
        place.exit = (self._world.agenda.after(delay_s, lambda: self._tell_exit(place)), exited)

    def end_all(self) -> None:
        """End every process at once."""
        for place in self._places.values():
            self.end(place, signal="SIGKILL")

    def _tell_exit(self, place: Place) -> None:
        if place.exit is not None:
            (timer, exited), place.exit = place.exit, None
            timer.cancel()
            self._world.report(place.spec.name, exited)
