"""Faults of who takes part: their contract, and their evidence from records made by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.control import ControlLeave, ControlScaleUp
from chaoslab.faults.control_storm import ControlRejoinStorm
from chaoslab.faults.evidence.codes import Code
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.links.effects import Direction, Latency
from chaoslab.record.journal import Journal
from tests.contracts.fault_kit import LEARNERS, VICTIMS, Director, FaultKit
from tests.contracts.no_fleet import NoFleet
from tests.faults.fault_record import FaultRecord
from tests.virtual_clock import VirtualClock


class TestScaleUp(FaultKit):
    """Its targets are not there before it, and not there after it."""

    @pytest.fixture
    def fault(self) -> Fault:
        return ControlScaleUp()

    @pytest.fixture
    def fleet(self, clock: VirtualClock) -> NoFleet:
        fleet = NoFleet(clock)
        for name in LEARNERS:
            spec = NodeSpec(name=name, role=Role.LEARNER, command=("true",))
            (fleet.enlist if name in VICTIMS else fleet.start)(spec)
            fleet.link(name, "127.0.0.1:1").shape("other", Direction.BOTH, Latency(mean_s=1.0))
        fleet.touched.clear()
        return fleet

    @pytest.fixture
    def director(self, fleet: NoFleet, clock: VirtualClock, tmp_path: Path) -> Iterator[Director]:
        with Journal(tmp_path, clock) as journal:
            for name in set(LEARNERS) - set(VICTIMS):
                journal.write(Kind.NODE_STARTED, {"node": name, "incarnation": 1}, source=name)
            yield Director(fleet=fleet, clock=clock, journal=journal)


def test_a_storm_returns_first_and_dies_again_before_each_further_return() -> None:
    assert ControlRejoinStorm(down_s=4.0).steps() == (4.0,)
    assert ControlRejoinStorm(times=3, down_s=4.0, up_s=12.0).steps() == (4, 16, 20, 32, 36)


# ---------------------------------------------------------------- records made by hand


class Record(FaultRecord):
    """A journal of one injection on some learners, from second 10 on."""

    def add(self, time_s: float, kind: Kind, who: str, **data: Json) -> "Record":
        return self.say(time_s, kind, who, **{"node": who, "learner": who, "incarnation": 1} | data)

    def founder(self, who: str) -> "Record":
        self.add(1.0, Kind.NODE_STARTED, who)
        return self.add(2.0, Kind.MEMBER_JOINED, who)

    def merge(self, *times_s: float) -> "Record":
        for time_s in times_s:
            self.add(time_s, Kind.ROUND_MERGED, "syncer", round=int(time_s * 10))
        return self

    def end(self, time_s: float = 15.0) -> "Record":
        return self.add(time_s, Kind.COUNTS_SAMPLED, "harness")

    def arrive(
        self, who: str, at_s: float, *, life: int = 1, donor: str | None = "learner-0"
    ) -> "Record":
        """Started then; a member, complete and contributing 2, 2.5 and 3 seconds later."""
        source = "donor" if donor else "syncer"
        self.add(at_s, Kind.NODE_STARTED, who, incarnation=life)
        self.add(at_s + 0.5, Kind.LEARNER_STARTED, who, incarnation=life)
        self.add(at_s + 2.0, Kind.MEMBER_JOINED, who, incarnation=life, donor=donor)
        self.add(at_s + 2.5, Kind.LEARNER_JOINED, who, incarnation=life, source=source, donor=donor)
        return self.add(at_s + 3.0, Kind.PUSH_ACCEPTED, who, incarnation=life)


# ---------------------------------------------------------------- scale_up


def joining(*, for_s: float | None = 5.0) -> Record:
    return Record(ControlScaleUp(), "learner-4", for_s=for_s).founder("learner-0").begin()


def test_a_learner_that_was_not_there_and_came_is_proved_with_its_clocks() -> None:
    found = joining().arrive("learner-4", 10.0).end().evidence
    assert found.status is Status.PROVED
    assert found.measured == {
        "joined_after_s": 2.0,
        "held_everything_after_s": 2.5,
        "contributed_after_s": 3.0,
        "source": "donor",
        "donor": "learner-0",
        "stayed_s": 5.0,
    }


def test_a_learner_that_does_not_stay_is_weak() -> None:
    record = joining().arrive("learner-4", 10.0)
    found = record.add(13.5, Kind.NODE_EXITED, "learner-4", exit_code=1).end().evidence
    assert found.code is Code.ENDED_AGAIN
    exits = {event.seq for event in record.history.of(Kind.NODE_EXITED)}
    assert not exits & set(found.proof)  # nobody asked for that


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            Record(ControlScaleUp(), "learner-4").founder("learner-4").begin().end(),
            Code.ALREADY_RUNNING,
            id="a learner that was there already was not brought in",
        ),
        pytest.param(
            joining().end(), Code.NOT_STARTED, id="a learner that nobody started is failed"
        ),
        pytest.param(
            joining().add(10.1, Kind.NODE_STARTED, "learner-4").end(),
            Code.NO_REPORT,
            id="a process that never says that it is a learner is weak",
        ),
        pytest.param(
            joining()
            .add(10.1, Kind.NODE_STARTED, "learner-4")
            .add(10.5, Kind.LEARNER_STARTED, "learner-4")
            .end(),
            Status.PROVED,
            id="that the syncer lets nobody in is no doubt about the fault",
        ),
        pytest.param(
            joining(for_s=None).arrive("learner-4", 10.0).end(13.5),
            Status.PROVED,
            id="whoever is to stay needs no length",
        ),
        pytest.param(
            joining(for_s=None)
            .arrive("learner-4", 10.0)
            .add(13.2, Kind.LEARNER_LEFT, "learner-4", reason="stopped")
            .add(13.4, Kind.NODE_EXITED, "learner-4", exit_code=0)
            .end(13.5),
            Status.PROVED,
            id="whoever is to stay may leave when training is over",
        ),
    ],
)
def test_the_record_shows_whether_it_was_brought_in(record: Record, shown: Code | Status) -> None:
    assert shown in (record.evidence.code, record.evidence.status)


@pytest.mark.parametrize(("reason", "exit_code"), [("asked", 0), ("stopped", 1)])
def test_whoever_is_to_stay_and_leaves_otherwise_is_weak(reason: str, exit_code: int) -> None:
    record = joining(for_s=None).arrive("learner-4", 10.0)
    record.add(13.2, Kind.LEARNER_LEFT, "learner-4", reason=reason)
    found = record.add(13.4, Kind.NODE_EXITED, "learner-4", exit_code=exit_code).end(13.5).evidence
    assert found.code is Code.ENDED_AGAIN


# ---------------------------------------------------------------- leave


def leaving(
    *, reason: str = "asked", heard: str | None = "said_goodbye", for_s: float = 5.0
) -> Record:
    record = Record(ControlLeave(), "learner-1", for_s=for_s).founder("learner-1")
    record.merge(8.0, 8.5, 9.0, 9.5).begin()
    record.add(10.1, Kind.LEARNER_LEFT, "learner-1", reason=reason)
    if heard:
        record.add(10.2, Kind.MEMBER_LEFT, "learner-1", reason=heard)
    return record.merge(10.6)


def test_an_orderly_leave_is_proved_by_both_sides_and_the_exit_code() -> None:
    found = leaving().add(11.0, Kind.NODE_EXITED, "learner-1", exit_code=0).end().evidence
    assert (found.status, found.measured["left_after_s"]) == (Status.PROVED, 1.0)
    assert found.measured["said_goodbye"] is True
    assert found.measured["was_suspected"] is False
    assert found.measured["next_round_after_s"] == pytest.approx(0.4)
    assert (found.measured["usual_gap_s"], found.measured["away_s"]) == (0.5, pytest.approx(4.8))


@pytest.mark.parametrize(
    ("reason", "heard", "says"),
    [
        ("asked", "closed", "the syncer took it for closed"),
        ("asked", None, "without a goodbye that the syncer heard"),
        ("preempted", "said_goodbye", "because of something else"),
    ],
)
def test_a_leave_without_order_is_weak(reason: str, heard: str | None, says: str) -> None:
    record = leaving(reason=reason, heard=heard)
    found = record.add(11.0, Kind.NODE_EXITED, "learner-1", exit_code=0).end().evidence
    assert found.code is Code.NOT_ORDERLY


def test_a_leave_after_a_suspicion_is_weak() -> None:
    record = Record(ControlLeave(), "learner-1").founder("learner-1").begin()
    record.add(12.0, Kind.MEMBER_SUSPECTED, "learner-1")
    record.add(12.1, Kind.LEARNER_LEFT, "learner-1", reason="asked")
    record.add(12.2, Kind.MEMBER_LEFT, "learner-1", reason="said_goodbye")
    found = record.add(12.3, Kind.NODE_EXITED, "learner-1", exit_code=0).end(20.0).evidence
    assert (found.code, found.measured["was_suspected"]) == (Code.NOT_ORDERLY, True)


@pytest.mark.parametrize("how", [{"signal": "SIGTERM", "exit_code": None}, {"exit_code": 1}])
def test_an_end_by_signal_or_error_is_no_leave(how: dict[str, Json]) -> None:
    found = leaving().add(11.0, Kind.NODE_EXITED, "learner-1", **how).end().evidence
    assert found.code is Code.EXITED_INSTEAD


def test_whoever_does_not_go_has_not_left() -> None:
    assert leaving().end().evidence.code is Code.STILL_RUNNING


# ---------------------------------------------------------------- rejoin_storm


def dead(*names: str, fault: Fault | None = None) -> Record:
    """All of them are killed at second 10."""
    record = Record(fault or ControlRejoinStorm(down_s=2.0), *names, for_s=12.0)
    for name in names:
        record.founder(name)
    record.begin()
    for name in names:
        record.add(10.0, Kind.NODE_EXITED, name, signal="SIGKILL")
    return record


def test_returns_at_once_are_proved_with_what_they_cost() -> None:
    record = dead("learner-1", "learner-2").arrive("learner-1", 12.0, life=2, donor="learner-3")
    one, other = record.arrive("learner-2", 12.2, life=2, donor="learner-0").end(22.0).pieces
    assert one.status is other.status is Status.PROVED
    assert one.measured == {
        "deaths": 1,
        "returns": 1,
        "contributed_after_s": 3.0,
        "source": "donor",
        "donor": "learner-3",
        "start_spread_s": 0.2,
        "join_spread_s": 0.2,
        "on_their_way_at_once": 2,
        "transfers_at_once": 2,
        "donors": {"learner-3": 1, "learner-0": 1},
    }


def test_returns_one_after_the_other_are_no_storm() -> None:
    record = dead("learner-1", "learner-2").arrive("learner-1", 12.0, life=2)
    one, other = record.arrive("learner-2", 16.0, life=2).end(22.0).pieces
    assert one.code is other.code is Code.NOT_TOGETHER
    assert one.measured["on_their_way_at_once"] == 1


def test_when_one_of_them_never_returns_it_is_failed_and_the_storm_weak() -> None:
    one, other = dead("learner-1", "learner-2").arrive("learner-1", 12.0, life=2).end(22.0).pieces
    assert (one.code, other.code) == (Code.NOT_TOGETHER, Code.NOT_RESTARTED)


def test_a_return_that_has_not_contributed_yet_counts_and_says_so() -> None:
    found = dead("learner-1").add(12.0, Kind.NODE_STARTED, "learner-1", incarnation=2)
    piece = found.end(14.0).evidence
    assert piece.status is Status.PROVED
    assert piece.measured["contributed_after_s"] is None


def test_fewer_storms_than_asked_are_weak() -> None:
    record = dead("learner-1", fault=ControlRejoinStorm(times=2, down_s=2.0, up_s=4.0))
    record.arrive("learner-1", 12.0, life=2)
    assert record.end(22.0).evidence.code is Code.FEWER_TIMES


def test_whoever_was_not_killed_was_in_no_storm() -> None:
    record = Record(ControlRejoinStorm(), "learner-1").founder("learner-1").begin().end()
    assert record.evidence.code is Code.NOT_KILLED
