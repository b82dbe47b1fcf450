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


def test_a_deleted_pod_is_proved_by_the_clusters_word_and_the_nodes_end() -> None:
    evidence = back(gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0), 30.5).evidence
    assert evidence.status is Status.PROVED


def test_an_end_that_the_cluster_knows_nothing_of_proves_no_deletion() -> None:
    evidence = back(gone(Record(PodDelete()), 21.0), 30.5).evidence
    assert evidence.code is Code.NOT_APPLIED


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


def test_a_node_that_runs_on_was_not_deleted() -> None:
    assert reported(Record(PodDelete()), 20.5, "delete").evidence.code is Code.STILL_RUNNING


def test_an_eviction_is_proved_with_the_clusters_reason_and_counts_from_its_word() -> None:
    record = reported(Record(PodEvict()), 20.1, "evict", "EvictionByEvictionAPI")
    left = record.add(24.0, Kind.NODE_EXITED, node="learner-1", incarnation=1, exit_code=0,
                      sent=["SIGTERM"])  # fmt: skip
    evidence = back(left, 30.2).evidence
    assert evidence.status is Status.PROVED
    assert "(EvictionByEvictionAPI)" in evidence.text
    assert evidence.measured["away_s"] == pytest.approx(10.1)


def test_a_pod_that_the_cluster_took_away_for_another_cause_was_not_evicted() -> None:
    record = reported(Record(PodEvict()), 20.1, "evict", "PreemptionByScheduler")
    assert back(gone(record, 24.0), 30.2).evidence.code is Code.NOT_APPLIED


def test_a_pod_that_came_back_too_soon_is_weak() -> None:
    evidence = back(gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0), 23.0).evidence
    assert evidence.code is Code.TOO_SHORT


def by_job_set(record: Record, time_s: float, restarts: int = 1) -> Record:
    counted = record.add(
        time_s, Kind.ENGINE_REPORTED, node="learner-1", incarnation=1, action="job_restart",
        at_s=0.0, restarts=restarts,
    )  # fmt: skip
    return counted.add(
        time_s + 1.0, Kind.NODE_STARTED, node="learner-1", incarnation=2, started_by="cluster"
    )


def test_an_outage_that_a_job_set_ended_was_the_job_sets_to_end() -> None:
    killed = gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0)
    evidence = by_job_set(killed, 22.0).evidence
    assert (evidence.status, evidence.measured["job_restarts"]) == (Status.PROVED, 1)


def test_one_that_no_job_set_counts_is_weak_whoever_ended_it() -> None:
    killed = gone(reported(Record(PodDelete()), 20.5, "gone"), 21.0)
    again = killed.add(
        23.0, Kind.NODE_STARTED, node="learner-1", incarnation=2, started_by="cluster"
    )
    assert again.evidence.code is Code.TOO_SHORT


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


def test_an_outage_without_image_that_ends_too_soon_is_weak() -> None:
    record = reported(gone(Record(PodImage()), 24.0), 25.0, "no_image", "ErrImagePull")
    assert record.fault_event(30.1, Kind.FAULT_HEALING).evidence.code is Code.TOO_SHORT


def test_an_image_that_the_cluster_does_not_miss_proves_nothing() -> None:
    evidence = gone(Record(PodImage()), 21.0).fault_event(30.5, Kind.FAULT_HEALING).evidence
    assert evidence.code is Code.NOT_APPLIED


def test_a_node_that_starts_although_its_image_is_missing_shows_no_effect() -> None:
    record = reported(gone(Record(PodImage()), 21.0), 22.0, "no_image", "ErrImagePull")
    assert back(record, 24.0).evidence.code is Code.NO_EFFECT


def test_another_job_is_proved_by_both_unique_ids() -> None:
    record = reported(gone(Record(JobRestart()), 21.0), 20.5, "job_gone", uid="a")
    evidence = back(reported(record, 21.5, "job", uid="b"), 23.0).evidence
    assert (evidence.status, evidence.measured["uid_before"]) == (Status.PROVED, "a")
    assert (evidence.measured["uid"], evidence.measured["down_s"]) == ("b", pytest.approx(2.0))


def test_a_job_that_is_still_there_was_not_deleted() -> None:
    record = reported(gone(Record(JobRestart()), 21.0), 21.5, "job", uid="b")
    assert back(record, 23.0).evidence.code is Code.NOT_APPLIED


def test_the_same_job_is_no_other_one() -> None:
    record = reported(gone(Record(JobRestart()), 21.0), 20.5, "job_gone", uid="a")
    assert back(reported(record, 21.5, "job", uid="a"), 23.0).evidence.code is Code.NO_EFFECT


def test_a_node_that_was_not_started_in_another_job_was_not_restarted() -> None:
    record = reported(gone(Record(JobRestart()), 21.0), 20.5, "job_gone", uid="a")
    assert record.evidence.code is Code.NOT_RESTARTED
