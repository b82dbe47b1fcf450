"""World of a simulated fleet: what all of its processes share, with all of its links."""

from dataclasses import dataclass, field

from chaoslab.core.events import Observation, Payload
from chaoslab.core.link_meter import Meter
from chaoslab.links.effects import Direction
from chaoslab.sim.chance import Chance
from chaoslab.sim.clock import EventQueue, SimClock
from chaoslab.sim.cores import Cores
from chaoslab.sim.costs import Costs
from chaoslab.sim.disk import LearnerDisk, SyncerDisk
from chaoslab.sim.pipe import Pipe
from chaoslab.sim.wires import End, Listener, Party, Stream, Wire


class Network:
    """All links of a simulated fleet: one wire for each learner, made when first asked for."""

    def __init__(self, agenda: EventQueue, costs: Costs, seed: int) -> None:
        self._agenda = agenda
        self._costs = costs
        self._seed = seed
        self._wires: dict[str, Wire] = {}
        self._streams = 0

    def wire(self, learner: str) -> Wire:
        """The learner's path to the syncer."""
        if learner not in self._wires:
            self._wires[learner] = Wire(
                up=self._pipe(learner, Direction.UP), down=self._pipe(learner, Direction.DOWN)
            )
        return self._wires[learner]

    def open(self, wire: Wire, learner: Party, syncer: Party) -> Stream:
        """A new stream over a wire."""
        self._streams += 1
        clock = self._agenda.clock
        below, above = (End(Meter(clock.now_s), clock.time_s) for _ in range(2))
        stream = Stream(
            number=self._streams, wire=wire, learner=learner, syncer=syncer,
            below=below, above=above,
        )  # fmt: skip
        wire.streams.append(stream)
        wire.opened += 1
        return stream

    def _pipe(self, learner: str, way: Direction) -> Pipe:
        return Pipe(
            self._agenda,
            Chance(self._seed, learner, way.value),
            latency_s=self._costs.latency_s,
            rate_bytes_per_s=self._costs.rate_bytes_per_s,
        )


@dataclass(slots=True, kw_only=True)
class World:
    """Clock, agenda, network, disks and reports of one simulated fleet."""

    clock: SimClock
    agenda: EventQueue
    costs: Costs
    network: Network
    seed: int
    cores: Cores | None = None
    """Cores that all processes share; None: each has a machine of its own."""
    syncer_disk: SyncerDisk = field(default_factory=SyncerDisk)
    learner_disks: dict[str, LearnerDisk] = field(default_factory=dict)
    syncer: Listener | None = None
    """The process that listens for learners; None while none does."""
    seen: list[Observation] = field(default_factory=list)
    """Observations that were not polled yet."""

    def report(self, source: str, said: Payload, node_s: float | None = None) -> None:
        """Something that `poll` will tell."""
        self.seen.append(Observation.of(source, said, node_s=node_s))

    def disk(self, learner: str) -> LearnerDisk:
        """Disk of a learner."""
        return self.learner_disks.setdefault(learner, LearnerDisk())
