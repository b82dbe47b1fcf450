"""Faults on clocks: their contract, and what the record must show of each."""

from datetime import UTC, datetime

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.clock import ClockDrift, ClockStep, Towards
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from tests.faults.fault_record import FaultRecord

EPOCH_S = 1_800_000_000.0


# ---------------------------------------------------------------- evidence from written records


class Record(FaultRecord):
    """A journal made by hand, with one fault on the syncer from 10 s to 14 s asked for."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault, "syncer", for_s=4.0)
        self._add(0.0, Kind.NODE_STARTED, node="syncer", incarnation=1)
        self.begin().fault_event(10.0, Kind.FAULT_INJECTED)

    def _add(self, time_s: float, kind: Kind, **data: Json) -> None:
        wall = datetime.fromtimestamp(EPOCH_S + time_s, UTC).isoformat()
        self.say(time_s, kind, "syncer", wall, **data)

    def read(self, time_s: float, *, ahead_s: float = 0.0, rate: float = 1.0) -> "Record":
        """What its clocks show; a rate counts from second 10."""
        gained_s = ahead_s + (time_s - 10.0) * (rate - 1)
        self._add(
            time_s, Kind.CLOCK_READ, node="syncer", incarnation=1,
            wall_s=EPOCH_S + time_s + gained_s,
            monotonic_s=time_s + (time_s - 10.0) * (rate - 1),
        )  # fmt: skip
        return self

    @property
    def evidence(self) -> Evidence:
        self._add(14.0, Kind.PHASE_ENTERED, phase="settle")
        return super().evidence


@pytest.mark.parametrize("towards", list(Towards))
def test_a_step_is_proved_by_the_distance_between_two_clocks(towards: Towards) -> None:
    step_s = 300.0 if towards is Towards.AHEAD else -300.0
    record = Record(ClockStep(towards=towards)).read(10.0)
    for time_s in (10.1, 11.0, 12.0, 13.0, 13.9):
        record.read(time_s, ahead_s=step_s)
    found = record.evidence
    assert found.status is Status.PROVED
    assert found.measured["step_s"] == pytest.approx(step_s, abs=0.01)
    assert found.measured["monotonic_step_s"] == pytest.approx(0.0, abs=0.01)


def test_a_clock_that_was_not_set_is_no_step() -> None:
    record = Record(ClockStep()).read(10.0)
    for time_s in (10.1, 12.0, 13.9):
        record.read(time_s)
    assert record.evidence.code is Code.NO_EFFECT


def test_a_step_of_another_size_or_one_that_was_taken_back_is_weak() -> None:
    other = Record(ClockStep()).read(10.0).read(10.1, ahead_s=200.0).read(13.9, ahead_s=200.0)
    assert other.evidence.code is Code.OUT_OF_TOLERANCE
    short = Record(ClockStep()).read(10.0).read(10.1, ahead_s=300.0).read(11.0, ahead_s=300.0)
    assert short.read(12.0).evidence.code is Code.TOO_SHORT
    twice = Record(ClockStep()).read(10.0).read(10.1, ahead_s=300.0).read(11.0)
    assert twice.read(12.0, ahead_s=300.0).evidence.code is Code.OUT_OF_TOLERANCE


def test_a_clock_that_the_node_sets_right_just_before_the_heal_was_set_all_the_time() -> None:
    record = Record(ClockStep()).read(10.0)
    for time_s in (10.1, 11.0, 12.0, 13.0, 13.9):
        record.read(time_s, ahead_s=300.0)
    found = record.read(13.995).evidence
    assert (found.status, found.code) == (Status.PROVED, Code.AS_ASKED)
    assert found.measured["readings"] == 5


def test_a_node_that_says_nothing_proves_nothing() -> None:
    for fault in (ClockStep(), ClockDrift()):
        assert Record(fault).evidence.code is Code.NOT_MEASURED
        assert Record(fault).read(10.0).evidence.code is Code.NOT_MEASURED


@pytest.mark.parametrize("rate", [0.8, 1.2])
def test_a_drift_is_proved_by_the_rate_of_the_monotonic_clock(rate: float) -> None:
    record = Record(ClockDrift(rate=rate)).read(9.99 + 0.01)
    for time_s in (10.1, 11.0, 12.0, 13.0, 13.9):
        record.read(time_s, rate=rate)
    found = record.evidence
    assert found.status is Status.PROVED
    assert found.measured["rate"] == pytest.approx(rate, abs=0.01)
    assert found.measured["wall_rate"] == pytest.approx(rate, abs=0.01)


def test_a_clock_that_keeps_time_does_not_drift_and_another_rate_is_weak() -> None:
    right, other = Record(ClockDrift()).read(10.0), Record(ClockDrift()).read(10.0)
    for time_s in (10.1, 11.0, 12.0, 13.9):
        right.read(time_s)
        other.read(time_s, rate=1.6)
    assert right.evidence.code is Code.NO_EFFECT
    assert other.evidence.code is Code.OUT_OF_TOLERANCE
