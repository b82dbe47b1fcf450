"""A journal that a test writes by hand: one injection of a fault, and what nodes say meanwhile.

@each_of(case("a delay that nobody feels is failed", Record(…).until(30), Code.NO_EFFECT), …)
def test_the_record_shows_what_the_link_did(case: Case) -> None:
case.require()
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import pytest

from chaoslab.core.events import Event, Json, Kind
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.plan.model import Injection, Trigger
from chaoslab.record.history import History


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


@dataclass(frozen=True, kw_only=True)
class Case:
    """A record, and what it shows of its fault."""

    says: str
    record: FaultRecord
    code: Code
    measured: Mapping[str, object]
    """Some of what the evidence has measured; None for what it has not."""
    requested: Mapping[str, object] = field(default_factory=dict)
    """Some of what it says was asked for."""
    proof: Sequence[Kind] = ()
    """The kinds of the events that it gives as its proof, if they count."""

    def require(self) -> None:
        """It is shown."""
        found = self.record.evidence
        assert found.code is self.code, found.text
        for said, facts in ((self.measured, found.measured), (self.requested, found.requested)):
            assert {key: facts.get(key) for key in said} == said
        events = [self.record.history.events[seq].kind for seq in found.proof]
        assert not self.proof or events == self.proof


def case(
    says: str,
    record: FaultRecord,
    code: Code,
    *,
    requested: Mapping[str, object] | None = None,
    proof: Sequence[Kind] = (),
    **measured: object,
) -> Case:
    """One of `each_of`."""
    return Case(says=says, record=record, code=code, measured=measured, requested=requested or {})


def each_of(*cases: Case) -> pytest.MarkDecorator:
    """Run a test with each of them as `case`."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.says)
