"""Faults on the syncer: their contract, and what counts as evidence."""

from chaoslab.core.events import Json, Kind
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.process import ProcessKill
from chaoslab.faults.storage_room import SyncerDiskFull
from tests.faults.fault_record import Case, FaultRecord, case, each_of

# ---------------------------------------------------------------- evidence from written records


class Record(FaultRecord):
    """A syncer's journal made by hand, with one fault from 10 s to 14 s asked for."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault, "syncer", for_s=4.0)
        self.add(0.0, Kind.NODE_STARTED, node="syncer", incarnation=1)
        self.merged(9.0, round_=1).begin()

    def add(self, time_s: float, kind: Kind, source: str = "syncer", **data: Json) -> "Record":
        return self.say(time_s, kind, source, **data)

    def merged(self, time_s: float, *, round_: int) -> "Record":
        return self.add(time_s, Kind.ROUND_MERGED, round=round_, fragment=0, version=round_)

    def exited(self, time_s: float, **how: Json) -> "Record":
        return self.add(time_s, Kind.NODE_EXITED, node="syncer", incarnation=1, **how)

    def healed(self) -> "Record":
        return self.fault_event(14.0, Kind.FAULT_HEALING)


REFUSED_SNAPSHOT: dict[str, Json] = {"waiting": 0, "reason": "no space", "is_snapshot": True}


def killed() -> Record:
    return Record(ProcessKill()).exited(10.1, signal="SIGKILL", exit_code=None)


def full(**blocked: Json) -> Record:
    blocked = blocked or {"waiting": 1, "reason": "no space"}
    return Record(SyncerDiskFull()).add(10.4, Kind.SYNCER_BLOCKED, **blocked)


@each_of(
    case(
        "a killed syncer is proved by its exit with what it had merged",
        killed().healed(),
        Code.AS_ASKED,
        down_s=3.9,
        versions={"0": 1},
    ),
    case(
        "a syncer that ended by itself was not killed",
        Record(ProcessKill()).exited(10.1, signal=None, exit_code=1).healed(),
        Code.EXITED_INSTEAD,
    ),
    case(
        "a syncer that still runs was not killed",
        Record(ProcessKill()).merged(11.0, round_=2).healed(),
        Code.STILL_RUNNING,
    ),
    case(
        "a round while it was down makes a kill weak",
        killed().merged(12.0, round_=2).healed(),
        Code.WORKED_MEANWHILE,
    ),
    case(
        "rounds after a restart by its job set do not make a kill weak",
        killed()
        .add(
            11.0,
            Kind.ENGINE_REPORTED,
            node="syncer",
            incarnation=1,
            action="job_restart",
            restarts=1,
        )
        .add(12.0, Kind.NODE_STARTED, node="syncer", incarnation=2, started_by="cluster")
        .merged(13.0, round_=2)
        .healed(),
        Code.AS_ASKED,
    ),
    case(
        "a kill that lasted too short is weak",
        killed().add(11.0, Kind.NODE_STARTED, node="syncer", incarnation=2).healed(),
        Code.TOO_SHORT,
    ),
    case(
        "a full disk is proved by the syncer's word and its silence",
        full().healed(),
        Code.AS_ASKED,
        blocked_after_s=0.4,
    ),
    case(
        "a snapshot that is refused says nothing of the state",
        full(**REFUSED_SNAPSHOT).merged(12.0, round_=2).healed(),
        Code.NO_EFFECT,
    ),
    case(
        "a state that is refused after it proves the full disk",
        full(**REFUSED_SNAPSHOT)
        .merged(10.5, round_=2)
        .add(10.6, Kind.SYNCER_BLOCKED, waiting=1, reason="no space")
        .add(11.0, Kind.SYNCER_FREED, waiting=1, blocked_s=0.6, is_snapshot=True)
        .healed(),
        Code.AS_ASKED,
    ),
    case(
        "a syncer that publishes from a full disk makes it weak",
        full().merged(12.0, round_=2).healed(),
        Code.WORKED_MEANWHILE,
    ),
    case(
        "a disk of which the syncer says nothing was not full",
        Record(SyncerDiskFull()).merged(12.0, round_=2).healed(),
        Code.NO_EFFECT,
    ),
    case(
        "a disk that takes what is written before the heal was full for too short",
        full().add(11.0, Kind.SYNCER_FREED, waiting=1, blocked_s=0.6).healed(),
        Code.TOO_SHORT,
    ),
)
def test_the_record_shows_what_became_of_the_syncer(case: Case) -> None:
    case.require()
