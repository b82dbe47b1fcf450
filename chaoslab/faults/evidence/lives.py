"""Lives of a node during a fault: each from its start to its exit, with what it achieved."""

from dataclasses import dataclass

from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    LearnerJoined,
    LearnerLeft,
    LearnerStarted,
    LeftBecause,
    MemberJoined,
    NodeExited,
    NodeStarted,
    PushAccepted,
)
from chaoslab.faults.evidence.window import EvidenceWindow, of, of_life


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life that began during the fault. Events that did not happen until `end_s` are None."""

    started: Event[NodeStarted]
    ready: Event[LearnerStarted] | None
    """Its report that it is a learner."""
    member: Event[MemberJoined] | None
    """The syncer let it in, and asked a donor for it."""
    complete: Event[LearnerJoined] | None
    """Its report that it holds every fragment."""
    accepted: Event[PushAccepted] | None
    """Its first contribution."""
    left: Event[LearnerLeft] | None
    """Its goodbye."""
    exited: Event[NodeExited] | None
    end_s: float
    """Time of its exit, or end of the window."""

    def after_s(self, event: Event | None) -> float | None:
        """Time from its start to one of these events."""
        return None if event is None else max(0.0, event.time_s - self.started.time_s)

    @property
    def is_to_the_end(self) -> bool:
        """Whether it went on, or left in order because training was over."""
        if self.exited is None:
            return True
        is_over = self.left is not None and self.left.payload.reason is LeftBecause.STOPPED
        return is_over and self.exited.payload.exit_code == 0

    @property
    def contributed_s(self) -> float | None:
        """Time from its start to its first accepted contribution."""
        return self.after_s(self.accepted)

    @property
    def donor(self) -> str | None:
        """Learner whose checkpoint it has; None if it has the syncer's fragments."""
        return self.complete.payload.donor if self.complete else None

    @property
    def source(self) -> str | None:
        """Source of its parameters."""
        return self.complete.payload.source if self.complete else None

    @property
    def complete_s(self) -> float:
        """Time at which it was complete; the end of the known time if it was not."""
        return self.complete.time_s if self.complete else self.end_s


def lives(window: EvidenceWindow) -> list[Life]:
    """The lives of the target that began during the fault, in order."""
    return [_life(started, window) for started in window.of(NodeStarted)]


def _life(started: Event[NodeStarted], window: EvidenceWindow) -> Life:
    number, seen = started.payload.incarnation, window.during
    exited = next((e for e in of(seen, NodeExited) if e.payload.incarnation == number), None)
    return Life(
        started=started,
        ready=next(iter(of_life(seen, LearnerStarted, number)), None),
        member=next(iter(of_life(seen, MemberJoined, number)), None),
        complete=next(iter(of_life(seen, LearnerJoined, number)), None),
        accepted=next(iter(of_life(seen, PushAccepted, number)), None),
        left=next(iter(of_life(seen, LearnerLeft, number)), None),
        exited=exited,
        end_s=exited.time_s if exited else window.end_s,
    )
