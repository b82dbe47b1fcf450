"""Faults on the syncer: their contract, and what counts as evidence."""

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.syncer import SyncerDiskFull, SyncerKill
from tests.faults.fault_record import FaultRecord

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


def test_a_killed_syncer_is_proved_by_its_exit_with_what_it_had_merged() -> None:
    found = Record(SyncerKill()).exited(10.1, signal="SIGKILL", exit_code=None).healed().evidence
    assert (found.status, found.measured["down_s"]) == (Status.PROVED, 3.9)
    assert found.measured["versions"] == {"0": 1}


def test_a_full_disk_is_proved_by_the_syncers_word_and_its_silence() -> None:
    record = Record(SyncerDiskFull()).add(10.4, Kind.SYNCER_BLOCKED, waiting=1, reason="no space")
    found = record.healed().evidence
    assert (found.status, found.measured["blocked_after_s"]) == (Status.PROVED, 0.4)


def test_a_snapshot_that_is_refused_says_nothing_of_the_state() -> None:
    refused: dict[str, Json] = {"waiting": 0, "reason": "no space", "is_snapshot": True}
    record = Record(SyncerDiskFull()).add(10.4, Kind.SYNCER_BLOCKED, **refused)
    assert record.merged(12.0, round_=2).healed().evidence.code is Code.NO_EFFECT
    record = Record(SyncerDiskFull()).add(10.4, Kind.SYNCER_BLOCKED, **refused)
    record.merged(10.5, round_=2).add(10.6, Kind.SYNCER_BLOCKED, waiting=1, reason="no space")
    record.add(11.0, Kind.SYNCER_FREED, waiting=1, blocked_s=0.6, is_snapshot=True)
    assert record.healed().evidence.status is Status.PROVED


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            Record(SyncerKill()).exited(10.1, signal=None, exit_code=1).healed(),
            Code.EXITED_INSTEAD,
            id="a syncer that ended by itself was not killed",
        ),
        pytest.param(
            Record(SyncerKill()).merged(11.0, round_=2).healed(),
            Code.STILL_RUNNING,
            id="a syncer that still runs was not killed",
        ),
        pytest.param(
            Record(SyncerKill()).exited(10.1, signal="SIGKILL").merged(12.0, round_=2).healed(),
            Code.WORKED_MEANWHILE,
            id="a round while it was down makes a kill weak",
        ),
        pytest.param(
            Record(SyncerKill())
            .exited(10.1, signal="SIGKILL")
            .add(
                11.0,
                Kind.ENGINE_REPORTED,
                node="syncer",
                incarnation=1,
                at_s=0.0,
                action="job_restart",
                restarts=1,
            )
            .add(12.0, Kind.NODE_STARTED, node="syncer", incarnation=2, started_by="cluster")
            .merged(13.0, round_=2)
            .healed(),
            Status.PROVED,
            id="rounds after a restart by its job set do not make a kill weak",
        ),
        pytest.param(
            Record(SyncerKill())
            .exited(10.1, signal="SIGKILL", exit_code=None)
            .add(11.0, Kind.NODE_STARTED, node="syncer", incarnation=2)
            .healed(),
            Code.TOO_SHORT,
            id="a kill that lasted too short is weak",
        ),
        pytest.param(
            Record(SyncerDiskFull())
            .add(10.4, Kind.SYNCER_BLOCKED, waiting=1, reason="no space")
            .merged(12.0, round_=2)
            .healed(),
            Code.WORKED_MEANWHILE,
            id="a syncer that publishes from a full disk makes it weak",
        ),
        pytest.param(
            Record(SyncerDiskFull()).merged(12.0, round_=2).healed(),
            Code.NO_EFFECT,
            id="a disk of which the syncer says nothing was not full",
        ),
        pytest.param(
            Record(SyncerDiskFull())
            .add(10.4, Kind.SYNCER_BLOCKED, waiting=1, reason="no space")
            .add(11.0, Kind.SYNCER_FREED, waiting=1, blocked_s=0.6)
            .healed(),
            Code.TOO_SHORT,
            id="a disk that takes what is written before the heal was full for too short",
        ),
    ],
)
def test_the_record_shows_what_became_of_the_syncer(record: Record, shown: Code | Status) -> None:
    assert shown in (record.evidence.code, record.evidence.status)
