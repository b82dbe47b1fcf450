"""A journal that a test writes by hand: one injection of a fault, and what nodes say meanwhile."""

from typing import Self

from chaoslab.core.events import Event, Json, Kind
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.base import Evidence
from chaoslab.plan.model import Injection, Trigger
from chaoslab.record.journal import History


class FaultRecord:
    """The record of one injection; subclasses add what their nodes say."""

    def __init__(self, fault: Fault, *targets: str, for_s: float | None = 5.0) -> None:
        self.fault = fault
        self.injection = Injection(
            number=0,
            spec="it",
            fault=fault.name,
            settings=fault,
            targets=targets,
            trigger=Trigger(time_s=0.0),
            for_s=for_s,
        )
        self.history = History(())

    def say(self, time_s: float, kind: Kind, source: str, wall: str = "", /, **data: Json) -> Self:
        """One more event."""
        seq = len(self.history.events)
        self.history.append(
            Event(seq=seq, time_s=time_s, source=source, kind=kind, data=data, wall=wall)
        )
        return self

    def fault_event(self, time_s: float, kind: Kind) -> Self:
        """What the harness says of the injection."""
        about = {"injection": "injection-0", "fault": self.fault.name, "spec": "it"}
        return self.say(time_s, kind, "harness", targets=self.injection.targets, **about)

    def begin(self, time_s: float = 10.0) -> Self:
        """The injection begins."""
        return self.fault_event(time_s, Kind.FAULT_INJECTING)

    @property
    def pieces(self) -> tuple[Evidence, ...]:
        """The evidence on each target."""
        return self.fault.evidence(self.injection, self.history)

    @property
    def evidence(self) -> Evidence:
        """The evidence on its only target."""
        (piece,) = self.pieces
        return piece
