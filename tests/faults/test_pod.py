"""Faults of a cluster: the kit, and what their evidence makes of records."""

import pytest

from chaoslab.core.events import Kind
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.pod import JobRestart, PodDelete, Removal
from tests.faults.fault_record import Case, case, each_of
from tests.faults.test_network import Record


def reported(record: Record, time_s: float, action: str, reason: str = "", uid: str = "") -> Record:
    return record.add(
        time_s, Kind.ENGINE_REPORTED, node="learner-1", incarnation=1, action=action,
        reason=reason, uid=uid,
    )  # fmt: skip


def gone(record: Record, time_s: float) -> Record:
    return record.add(
        time_s, Kind.NODE_EXITED, node="learner-1", incarnation=1, signal="SIGKILL",
        is_seen=False, sent=["SIGTERM", "SIGKILL"],
    )  # fmt: skip


def back(record: Record, time_s: float) -> Record:
    return record.add(time_s, Kind.NODE_STARTED, node="learner-1", incarnation=2)


def by_job_set(record: Record, time_s: float, restarts: int = 1) -> Record:
    counted = record.add(
        time_s, Kind.ENGINE_REPORTED, node="learner-1", incarnation=1, action="job_restart",
        restarts=restarts,
    )  # fmt: skip
    return counted.add(
        time_s + 1.0, Kind.NODE_STARTED, node="learner-1", incarnation=2, started_by="cluster"
    )


def healed(record: Record, time_s: float = 30.5) -> Record:
    return record.fault_event(time_s, Kind.FAULT_HEALING)


def earlier_gone() -> Record:
    """The pod of an earlier life was gone after the fault had begun."""
    return Record(PodDelete()).add(
        20.2, Kind.ENGINE_REPORTED, node="learner-1", incarnation=0, action="gone"
    )


def deleted() -> Record:
    return gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0)


def without_job() -> Record:
    return reported(gone(Record(JobRestart()), 21.0), 20.5, "job_gone", uid="a")


@each_of(
    case(
        "a deleted pod is proved by the cluster's word and the node's end",
        back(deleted(), 30.5),
        Code.AS_ASKED,
    ),
    case(
        "an end that the cluster knows nothing of proves no deletion",
        back(gone(Record(PodDelete()), 21.0), 30.5),
        Code.NOT_APPLIED,
    ),
    case(
        "an earlier pod that goes meanwhile proves no deletion",
        back(gone(earlier_gone(), 23.0), 30.5),
        Code.NOT_APPLIED,
    ),
    case(
        "the time away counts from the word on this pod",
        back(gone(reported(earlier_gone(), 23.0, "gone"), 23.5), 30.5),
        Code.TOO_SHORT,
        away_s=pytest.approx(7.5),
    ),
    case(
        "a node that runs on was not deleted",
        reported(Record(PodDelete()), 20.5, "delete"),
        Code.STILL_RUNNING,
    ),
    case("a pod that came back too soon is weak", back(deleted(), 23.0), Code.TOO_SHORT),
    case(
        "one that no job set counts is weak whoever ended it",
        deleted().add(
            23.0, Kind.NODE_STARTED, node="learner-1", incarnation=2, started_by="cluster"
        ),
        Code.TOO_SHORT,
    ),
    case(
        "an outage that a job set ended was the job set's to end",
        by_job_set(deleted(), 22.0),
        Code.AS_ASKED,
        job_restarts=1,
    ),
    case(
        "an eviction is proved with the cluster's reason and counts from its word",
        back(
            reported(
                Record(PodDelete(how=Removal.EVICT)), 20.1, "evict", "EvictionByEvictionAPI"
            ).add(
                24.0,
                Kind.NODE_EXITED,
                node="learner-1",
                incarnation=1,
                exit_code=0,
                sent=["SIGTERM"],
            ),
            30.2,
        ),
        Code.AS_ASKED,
        away_s=pytest.approx(10.1),
    ),
    case(
        "a pod that the cluster took away for another cause was not evicted",
        back(
            gone(
                reported(
                    Record(PodDelete(how=Removal.EVICT)), 20.1, "evict", "PreemptionByScheduler"
                ),
                24.0,
            ),
            30.2,
        ),
        Code.NOT_APPLIED,
    ),
    case(
        "another job is proved by both unique ids",
        back(reported(without_job(), 21.5, "job", uid="b"), 23.0),
        Code.AS_ASKED,
        uid_before="a",
        uid="b",
        down_s=pytest.approx(2.0),
    ),
    case(
        "a job that is still there was not deleted",
        back(reported(gone(Record(JobRestart()), 21.0), 21.5, "job", uid="b"), 23.0),
        Code.NOT_APPLIED,
    ),
    case(
        "the same job is no other one",
        back(reported(without_job(), 21.5, "job", uid="a"), 23.0),
        Code.NO_EFFECT,
    ),
    case(
        "a node that was not started in another job was not restarted",
        without_job(),
        Code.NOT_RESTARTED,
    ),
)
def test_the_record_shows_what_became_of_the_pod(case: Case) -> None:
    case.require()
