"""Faults of a cluster: the kit, and what their evidence makes of records."""

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.pod import JobRestart, PodDelete, PodEvict, PodImage
from tests.faults.test_network import Record


def reported(record: Record, time_s: float, action: str, reason: str = "", uid: str = "") -> Record:
    return record.add(
        time_s, Kind.ENGINE_REPORTED, node="learner-1", incarnation=1, action=action, at_s=0.0,
        reason=reason, uid=uid,
    )  # fmt: skip


def gone(record: Record, time_s: float) -> Record:
    return record.add(
        time_s, Kind.NODE_EXITED, node="learner-1", incarnation=1, signal="SIGKILL",
        is_seen=False, sent=["SIGTERM", "SIGKILL"],
    )  # fmt: skip


def back(record: Record, time_s: float) -> Record:
    return record.add(time_s, Kind.NODE_STARTED, node="learner-1", incarnation=2)


def test_an_earlier_pod_that_goes_meanwhile_proves_no_deletion() -> None:
    record = Record(PodDelete()).add(
        20.2, Kind.ENGINE_REPORTED, node="learner-1", incarnation=0, action="gone", at_s=0.0
    )
    assert back(gone(record, 23.0), 30.5).evidence.code is Code.NOT_APPLIED
    deleted = Record(PodDelete()).add(
        20.2, Kind.ENGINE_REPORTED, node="learner-1", incarnation=0, action="gone", at_s=0.0
    )
    evidence = back(gone(reported(deleted, 23.0, "gone"), 23.5), 30.5).evidence
    assert evidence.measured["away_s"] == pytest.approx(7.5)


def test_an_eviction_is_proved_with_the_clusters_reason_and_counts_from_its_word() -> None:
    record = reported(Record(PodEvict()), 20.1, "evict", "EvictionByEvictionAPI")
    left = record.add(24.0, Kind.NODE_EXITED, node="learner-1", incarnation=1, exit_code=0,
                      sent=["SIGTERM"])  # fmt: skip
    evidence = back(left, 30.2).evidence
    assert evidence.status is Status.PROVED
    assert "(EvictionByEvictionAPI)" in evidence.text
    assert evidence.measured["away_s"] == pytest.approx(10.1)


def by_job_set(record: Record, time_s: float, restarts: int = 1) -> Record:
    counted = record.add(
        time_s, Kind.ENGINE_REPORTED, node="learner-1", incarnation=1, action="job_restart",
        at_s=0.0, restarts=restarts,
    )  # fmt: skip
    return counted.add(
        time_s + 1.0, Kind.NODE_STARTED, node="learner-1", incarnation=2, started_by="cluster"
    )


def test_an_outage_that_a_job_set_ended_was_the_job_sets_to_end() -> None:
    evidence = by_job_set(gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0), 22.0).evidence
    assert (evidence.status, evidence.measured["job_restarts"]) == (Status.PROVED, 1)


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            back(gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0), 30.5),
            Status.PROVED,
            id="a deleted pod is proved by the clusters word and the nodes end",
        ),
        pytest.param(
            back(gone(Record(PodDelete()), 21.0), 30.5),
            Code.NOT_APPLIED,
            id="an end that the cluster knows nothing of proves no deletion",
        ),
        pytest.param(
            reported(Record(PodDelete()), 20.5, "delete"),
            Code.STILL_RUNNING,
            id="a node that runs on was not deleted",
        ),
        pytest.param(
            back(
                gone(reported(Record(PodEvict()), 20.1, "evict", "PreemptionByScheduler"), 24.0),
                30.2,
            ),
            Code.NOT_APPLIED,
            id="a pod that the cluster took away for another cause was not evicted",
        ),
        pytest.param(
            back(gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0), 23.0),
            Code.TOO_SHORT,
            id="a pod that came back too soon is weak",
        ),
        pytest.param(
            gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0).add(
                23.0, Kind.NODE_STARTED, node="learner-1", incarnation=2, started_by="cluster"
            ),
            Code.TOO_SHORT,
            id="one that no job set counts is weak whoever ended it",
        ),
    ],
)
def test_the_record_shows_what_became_of_the_pod(record: Record, shown: Code | Status) -> None:
    assert shown in (record.evidence.code, record.evidence.status)


# ---------------------------------------------------------------- images and Jobs


def test_a_missing_image_is_proved_by_the_clusters_word_and_a_node_that_stays_away() -> None:
    record = reported(gone(Record(PodImage()), 21.0), 22.0, "no_image", "ErrImagePull")
    evidence = record.fault_event(30.5, Kind.FAULT_HEALING).evidence
    assert evidence.status is Status.PROVED
    assert "(ErrImagePull, by the cluster's word)" in evidence.text


def test_to_leave_in_order_is_part_of_an_outage_without_image() -> None:
    deleted = reported(Record(PodImage()), 20.1, "job_gone", uid="a")
    record = reported(gone(deleted, 24.0), 25.0, "no_image", "ErrImagePull")
    evidence = record.fault_event(30.1, Kind.FAULT_HEALING).evidence
    assert (evidence.status, evidence.measured["down_s"]) == (Status.PROVED, pytest.approx(6.1))
    assert evidence.measured["away_s"] == pytest.approx(10.0)


def test_another_job_is_proved_by_both_unique_ids() -> None:
    record = reported(gone(Record(JobRestart()), 21.0), 20.5, "job_gone", uid="a")
    evidence = back(reported(record, 21.5, "job", uid="b"), 23.0).evidence
    assert (evidence.status, evidence.measured["uid_before"]) == (Status.PROVED, "a")
    assert (evidence.measured["uid"], evidence.measured["down_s"]) == ("b", pytest.approx(2.0))


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            reported(gone(Record(PodImage()), 24.0), 25.0, "no_image", "ErrImagePull").fault_event(
                30.1, Kind.FAULT_HEALING
            ),
            Code.TOO_SHORT,
            id="an outage without image that ends too soon is weak",
        ),
        pytest.param(
            gone(Record(PodImage()), 21.0).fault_event(30.5, Kind.FAULT_HEALING),
            Code.NOT_APPLIED,
            id="an image that the cluster does not miss proves nothing",
        ),
        pytest.param(
            back(reported(gone(Record(PodImage()), 21.0), 22.0, "no_image", "ErrImagePull"), 24.0),
            Code.NO_EFFECT,
            id="a node that starts although its image is missing shows no effect",
        ),
        pytest.param(
            back(reported(gone(Record(JobRestart()), 21.0), 21.5, "job", uid="b"), 23.0),
            Code.NOT_APPLIED,
            id="a job that is still there was not deleted",
        ),
        pytest.param(
            back(
                reported(
                    reported(gone(Record(JobRestart()), 21.0), 20.5, "job_gone", uid="a"),
                    21.5,
                    "job",
                    uid="a",
                ),
                23.0,
            ),
            Code.NO_EFFECT,
            id="the same job is no other one",
        ),
        pytest.param(
            reported(gone(Record(JobRestart()), 21.0), 20.5, "job_gone", uid="a"),
            Code.NOT_RESTARTED,
            id="a node that was not started in another job was not restarted",
        ),
    ],
)
def test_the_record_shows_the_image_or_the_job(record: Record, shown: Code) -> None:
    assert record.evidence.code is shown
