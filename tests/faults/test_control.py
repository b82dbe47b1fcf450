"""Faults of who takes part: their contract, and their evidence from records made by hand."""

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.control import ControlLeave, ControlScaleUp
from chaoslab.faults.control_storm import ControlRejoinStorm
from chaoslab.faults.evidence.codes import Code
from tests.contracts.fault_kit import VICTIMS, FaultKit
from tests.faults.fault_record import Case, FaultRecord, case, each_of

approx = pytest.approx


class TestScaleUp(FaultKit):
    """Its targets are not there before it, and not there after it."""

    absent = VICTIMS

    @pytest.fixture
    def fault(self) -> Fault:
        return ControlScaleUp()


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


@each_of(
    case(
        "a learner that was not there and came is proved with its clocks",
        joining().arrive("learner-4", 10.0).end(),
        Code.AS_ASKED,
        joined_after_s=2.0,
        complete_after_s=2.5,
        contributed_after_s=3.0,
        source="donor",
        donor="learner-0",
        stayed_s=5.0,
    ),
    case(
        "a learner that was there already was not brought in",
        Record(ControlScaleUp(), "learner-4").founder("learner-4").begin().end(),
        Code.ALREADY_RUNNING,
    ),
    case("a learner that nobody started is failed", joining().end(), Code.NOT_STARTED),
    case(
        "a process that never says that it is a learner is weak",
        joining().add(10.1, Kind.NODE_STARTED, "learner-4").end(),
        Code.NO_REPORT,
    ),
    case(
        "that the syncer lets nobody in is no doubt about the fault",
        joining()
        .add(10.1, Kind.NODE_STARTED, "learner-4")
        .add(10.5, Kind.LEARNER_STARTED, "learner-4")
        .end(),
        Code.AS_ASKED,
    ),
    case(
        "whoever is to stay needs no length",
        joining(for_s=None).arrive("learner-4", 10.0).end(13.5),
        Code.AS_ASKED,
    ),
    *(
        case(
            f"whoever is to stay and leaves because it {reason}, with exit code {exit_code}",
            joining(for_s=None)
            .arrive("learner-4", 10.0)
            .add(13.2, Kind.LEARNER_LEFT, "learner-4", reason=reason)
            .add(13.4, Kind.NODE_EXITED, "learner-4", exit_code=exit_code)
            .end(13.5),
            code,
        )
        for reason, exit_code, code in (
            ("stopped", 0, Code.AS_ASKED),
            ("asked", 0, Code.ENDED_AGAIN),
            ("stopped", 1, Code.ENDED_AGAIN),
        )
    ),
)
def test_the_record_shows_whether_it_was_brought_in(case: Case) -> None:
    case.require()


def test_the_end_of_a_learner_that_does_not_stay_is_no_proof() -> None:
    record = joining().arrive("learner-4", 10.0)
    found = record.add(13.5, Kind.NODE_EXITED, "learner-4", exit_code=1).end().evidence
    assert found.code is Code.ENDED_AGAIN
    exits = {event.seq for event in record.history.of(Kind.NODE_EXITED)}
    assert not exits & set(found.proof)  # nobody asked for that


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


def left(record: Record, **ending: Json) -> Record:
    return record.add(11.0, Kind.NODE_EXITED, "learner-1", **{"exit_code": 0, **ending}).end()


@each_of(
    case(
        "an orderly leave is proved by both sides and the exit code",
        left(leaving()),
        Code.AS_ASKED,
        left_after_s=1.0,
        said_goodbye=True,
        was_suspected=False,
        next_round_after_s=approx(0.4),
        usual_gap_s=0.5,
        away_s=approx(4.8),
    ),
    case("the syncer took it for closed", left(leaving(heard="closed")), Code.NOT_ORDERLY),
    case("the syncer heard no goodbye", left(leaving(heard=None)), Code.NOT_ORDERLY),
    case("it left for another cause", left(leaving(reason="preempted")), Code.NOT_ORDERLY),
    case(
        "a leave after a suspicion is weak",
        Record(ControlLeave(), "learner-1")
        .founder("learner-1")
        .begin()
        .add(12.0, Kind.MEMBER_SUSPECTED, "learner-1")
        .add(12.1, Kind.LEARNER_LEFT, "learner-1", reason="asked")
        .add(12.2, Kind.MEMBER_LEFT, "learner-1", reason="said_goodbye")
        .add(12.3, Kind.NODE_EXITED, "learner-1", exit_code=0)
        .end(20.0),
        Code.NOT_ORDERLY,
        was_suspected=True,
    ),
    case(
        "an end by a signal is no leave",
        left(leaving(), signal="SIGTERM", exit_code=None),
        Code.EXITED_INSTEAD,
    ),
    case("an end by an error is no leave", left(leaving(), exit_code=1), Code.EXITED_INSTEAD),
    case("whoever does not go has not left", leaving().end(), Code.STILL_RUNNING),
)
def test_the_record_shows_whether_it_left_in_order(case: Case) -> None:
    case.require()


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


@each_of(
    case(
        "a return that has not contributed yet counts and says so",
        dead("learner-1").add(12.0, Kind.NODE_STARTED, "learner-1", incarnation=2).end(14.0),
        Code.AS_ASKED,
        contributed_after_s=None,
    ),
    case(
        "fewer storms than asked are weak",
        dead("learner-1", fault=ControlRejoinStorm(times=2, down_s=2.0, up_s=4.0))
        .arrive("learner-1", 12.0, life=2)
        .end(22.0),
        Code.FEWER_TIMES,
    ),
    case(
        "whoever was not killed was in no storm",
        Record(ControlRejoinStorm(), "learner-1").founder("learner-1").begin().end(),
        Code.NOT_KILLED,
    ),
)
def test_the_record_shows_a_storm_of_one(case: Case) -> None:
    case.require()
