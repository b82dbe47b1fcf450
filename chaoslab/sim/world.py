"""World of a simulated fleet: what all of its processes share."""

from dataclasses import dataclass, field

from chaoslab.core.events import Observation, Payload
from chaoslab.sim.clock import Agenda, SimClock
from chaoslab.sim.cores import Cores
from chaoslab.sim.costs import Costs
from chaoslab.sim.disk import LearnerDisk, SyncerDisk
from chaoslab.sim.network import Network
from chaoslab.sim.wires import Listener


@dataclass(slots=True, kw_only=True)
class World:
    """Clock, agenda, network, disks and reports of one simulated fleet."""

    clock: SimClock
    agenda: Agenda
    costs: Costs
    network: Network
    seed: int
    cores: Cores | None = None
    """Shared by all processes; None: each has a machine of its own."""
    syncer_disk: SyncerDisk = field(default_factory=SyncerDisk)
    learner_disks: dict[str, LearnerDisk] = field(default_factory=dict)
    syncer: Listener | None = None
    """The process that listens for learners; None while none does."""
    seen: list[Observation] = field(default_factory=list)
    """What was said and not polled yet."""

    def report(self, source: str, said: Payload, node_s: float | None = None) -> None:
        """Something that `poll` will tell."""
        self.seen.append(Observation.of(source, said, node_s=node_s))

    def disk(self, learner: str) -> LearnerDisk:
        """What a learner keeps."""
        return self.learner_disks.setdefault(learner, LearnerDisk())
