"""All links of a simulated fleet: one wire for each learner, made when it is first asked for."""

from chaoslab.links.effects import Direction
from chaoslab.sim.chance import Chance
from chaoslab.sim.clock import Agenda
from chaoslab.sim.costs import Costs
from chaoslab.sim.pipe import Pipe
from chaoslab.sim.wires import Party, Stream, Wire


class Network:
    """All wires of a fleet, by learner."""

    def __init__(self, agenda: Agenda, costs: Costs, seed: int) -> None:
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
        stream = Stream(number=self._streams, wire=wire, learner=learner, syncer=syncer)
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
