"""State of one slice of a fleet: what is known of it, whether it is lost, and its repair.

It decides nothing: `manager` does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from chaoslab.core.events import Observation
from chaoslab.core.payloads import RepairMoved
from chaoslab.fleet.provider import Condition, SliceReport
from chaoslab.fleet.slices.repair import LATE_S, Cause, Counts, SliceRepair, Stage

TAKEN = (Condition.PREEMPTED, Condition.ABSENT, Condition.LEAVING)
"""The machines of a slice in such a condition are gone for good."""
LOST = (*TAKEN, Condition.FAILED)
"""A slice in such a condition is not coming back by itself."""
_AWAY = (Condition.MAINTAINED, Condition.COMING, Condition.STOPPED)
"""A slice in such a condition has lost its hosts, and may have them again."""


@dataclass(slots=True)
class KeptSlice:
    """State of the slice of one node."""

    report: SliceReport
    is_faulted: bool = False
    """A fault has done something to it, and was not healed yet."""
    before: SliceReport | None = None
    """The report of before that."""
    resource: str = ""
    """Name of the last slice that there was."""
    counts: Counts = field(default_factory=Counts)
    repair: SliceRepair | None = None
    said: tuple[object, ...] = ()
    """Last report of the repair."""
    has_begun: bool = False
    """Whether its node was started once: earlier losses are not counted."""
    incarnation: int = 0
    """The one of its node that was started last."""
    is_alive: bool = False
    """Whether that has not ended, as far as its own fleet knows."""
    hosts_lost_s: float | None = None
    """Time at which it ended because its hosts did not answer any more."""

    @property
    def is_repaired(self) -> bool:
        """Whether a repair is going on that has not started its node yet."""
        return self.repair is not None and not (
            self.repair.is_over or self.repair.stage is Stage.TRIAL
        )

    @property
    def is_change_awaited(self) -> bool:
        """Whether the provider still says what it said before a fault."""
        return self.is_faulted and self.report == self.before

    def is_gone(self, now_s: float) -> bool:
        """Whether its node has ended and the provider has admitted why, or was given the time."""
        if not self.has_begun or self.is_alive:
            return False
        if self.report.condition in LOST:
            return True
        if self.hosts_lost_s is None:
            return False
        is_late = now_s - self.hosts_lost_s > LATE_S
        return self.report.condition in _AWAY or (self.report.condition is Condition.UP and is_late)

    @property
    def cause(self) -> Cause:
        """Why it is lost. One that is deleted or stopped by others went as a preempted one does;
        what broke is a failure, and so are lost hosts that are up by the provider's word.
        """
        is_failure = self.report.condition in (Condition.FAILED, Condition.UP)
        return Cause.FAILURE if is_failure else Cause.PREEMPTION

    def news_of_repair(self) -> Iterator[Observation]:
        """Progress of its repair, if that was not reported yet."""
        repair = self.repair
        if repair is None:
            return
        now = (repair.stage, repair.cause, repair.attempt, repair.expected)
        if now == self.said:
            return
        self.said = now
        moved = RepairMoved(
            node=repair.node,
            cause=repair.cause.value,
            stage=repair.stage.value,
            attempt=repair.attempt,
            lost=repair.lost,
            resource=repair.expected,
            preemptions=repair.counts.preemptions,
            failures=repair.counts.failures,
            detail=repair.detail,
        )
        yield Observation.of(repair.node, moved)
