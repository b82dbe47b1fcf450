"""Context of a syncer: what all its parts work with."""

from collections.abc import Callable
from dataclasses import dataclass

from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.syncer.disk_writes import DiskWrites
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.training_state import TrainingState
from chaoslab.diloco.syncer.work import Jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerContext:
    """The state that decisions depend on, and the means by which they are carried out."""

    policy: Policy
    state: TrainingState
    work: Jobs
    writes: DiskWrites
    emit: Emit
    now: Callable[[], float]
    """Time of the turn."""
