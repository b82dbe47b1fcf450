"""What the cluster shows of a pod, and what it reports when that changes."""

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("lightkube")

from chaoslab.core.events import Kind
from chaoslab.fleet.kubernetes import pod_state
from chaoslab.fleet.kubernetes.cluster import pod_of
from chaoslab.fleet.kubernetes.job_watch import JobSetWatch, JobWatch, reported
from chaoslab.fleet.kubernetes.pod import ending_of
from chaoslab.fleet.kubernetes.pod_state import Hope, PodState, state_of
from chaoslab.fleet.kubernetes.pod_watch import NumberedPods, PodWatch, changes, report
from chaoslab.fleet.kubernetes.rights import rules_of
from chaoslab.fleet.kubernetes.watch import Watch
from tests.fleet.kubernetes.fake_cluster import ENDED, RUNNING, ended, pod, waiting
from tests.payload_reading import observed

BEGIN_S = 1795773600.0
LABELS = {"chaoslab/node": "learner-0", "chaoslab/incarnation": "2"}


def seen(state: Any = RUNNING, *, deleted: bool = False, **status: Any) -> PodState:
    """A pod whose container is in this state, beside one that has ended."""
    found = pod(state=state, labels=LABELS, **status)
    if deleted:
        found["metadata"]["deletionTimestamp"] = ENDED
    sidecar = pod(state=ended(9), container="sidecar")["status"]["containerStatuses"]
    found["status"]["containerStatuses"][:0] = sidecar
    return state_of(pod_of(found))


@pytest.mark.parametrize("text", ["", "blue", "-1", "1.5"])
def test_a_label_of_other_people_is_no_number(text: str) -> None:
    found = pod(labels={"chaoslab/incarnation": text})
    assert state_of(pod_of(found)).incarnation == 0


def test_a_pod_without_a_container_waits_for_the_scheduler() -> None:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                   "message": "0/1 nodes are available"}]  # fmt: skip
    state = seen(None, conditions=conditions)
    assert state.waiting == "Unschedulable: 0/1 nodes are available"
    assert seen(None, phase="Pending").waiting == "Pending"
    assert (state.has_started, state.has_ended, state.is_hopeless) == (False, False, False)


@pytest.mark.parametrize(("reason", "is_hopeless"), [
    ("ErrImageNeverPull", True), ("InvalidImageName", True), ("ImagePullBackOff", False),
    ("ContainerCreating", False),
])  # fmt: skip
def test_some_waits_never_end(reason: str, is_hopeless: bool) -> None:
    state = seen(waiting(reason, "why"))
    assert (state.waiting, state.is_hopeless) == (f"{reason}: why", is_hopeless)


def test_hope_lasts_for_a_while_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    hope, fails = Hope(), seen(waiting("CreateContainerConfigError"))
    assert not hope.is_lost(fails)
    monkeypatch.setattr(pod_state, "HOPELESS_S", 0.0)
    assert hope.is_lost(fails)
    assert not hope.is_lost(seen(waiting("ContainerCreating")))


def test_a_running_pod_has_started() -> None:
    state = seen()
    assert (state.started_s, state.exit_code, state.waiting) == (BEGIN_S, None, "")
    assert (state.node, state.incarnation, state.image_id) == ("learner-0", 2, "sha256:1")


@pytest.mark.parametrize(("code", "exit_code", "signal"), [
    (0, 0, None), (1, 1, None), (137, None, "SIGKILL"), (143, None, "SIGTERM"), (255, 255, None),
])  # fmt: skip
def test_the_exit_code_tells_a_signal(code: int, exit_code: int | None, signal: str | None) -> None:
    ending = ending_of(seen(ended(code)), ())
    assert (ending["exit_code"], ending["signal"]) == (exit_code, signal)
    assert "is_seen" not in ending


def test_nobody_saw_the_end_of_a_pod_that_is_gone() -> None:
    ending = ending_of(None, ("SIGTERM", "SIGKILL"))
    assert (ending["exit_code"], ending["signal"], ending["is_seen"]) == (None, "SIGKILL", False)
    assert ending_of(None, ())["signal"] is None


def test_a_kill_for_want_of_memory_is_told_apart() -> None:
    state = seen(ended(137, "OOMKilled"))
    assert ending_of(state, ())["out_of_memory"] is True
    assert list(changes(None, state)) == ["start", "oom", "die"]


def test_an_eviction_is_reported_with_the_clusters_reason() -> None:
    told = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    evicted = seen(conditions=told, deleted=True)
    assert list(changes(seen(), evicted)) == ["evict", "delete"]
    assert report(evicted, "evict").reason == "EvictionByEvictionAPI"


def test_each_change_is_reported_once() -> None:
    died = seen(ended(137))
    assert list(changes(died, died)) == []
    said = report(died, "die")
    assert (said.node, said.incarnation, said.exit_code, said.signal) == (
        "learner-0", 2, 137, "SIGKILL",
    )  # fmt: skip


def test_an_image_that_cannot_be_had_is_reported_once_by_the_clusters_word() -> None:
    refused = seen(waiting("ErrImagePull", "no such host"))
    again = seen(waiting("ImagePullBackOff"))
    assert list(changes(None, refused)) == ["no_image"]
    assert report(refused, "no_image").reason == "ErrImagePull"
    assert list(changes(refused, again)) == []


def test_a_pod_that_replaces_another_of_its_job_is_the_next_incarnation() -> None:
    numbers = NumberedPods(lambda state: [observed(Kind.NODE_STARTED, source=state.name)])
    running = seen()
    first, waits, second = (
        replace(running, uid="a", job="j"),
        replace(running, uid="b", job="j", started_s=None),
        replace(running, uid="b", job="j"),
    )
    assert [numbers.numbered(one).incarnation for one in (first, waits, second, first)] == [
        2, 3, 3, 2,
    ]  # fmt: skip
    assert [numbers.started(one) is not None for one in (first, second)] == [False, True]
    elsewhere = replace(running, uid="c", job="k", incarnation=9)
    assert numbers.numbered(elsewhere).incarnation == 9
    assert numbers.started(elsewhere) is None


def test_pods_of_one_job_with_an_index_each_are_one_incarnation() -> None:
    numbers = NumberedPods(lambda state: [observed(Kind.NODE_STARTED, source=state.name)])
    running = seen()
    hosts = [replace(running, uid=f"u{index}", job="j", index=index) for index in (1, 0)]
    assert [numbers.numbered(one).incarnation for one in hosts] == [2, 2]
    assert [numbers.started(one) for one in hosts] == [None, None]


@pytest.mark.parametrize("watch", [PodWatch, JobWatch, JobSetWatch])
def test_whatever_is_watched_is_in_the_role(watch: type[Watch]) -> None:
    (verbs,) = [
        rule.verbs for rule in rules_of("kubernetes") if rule.resource == watch.resource.plural
    ]
    assert {"list", "watch"} <= set(verbs)


def test_a_job_is_reported_with_its_unique_id() -> None:
    said = reported({"metadata": {"uid": "u", "labels": LABELS}})
    assert (said.node, said.incarnation, said.uid) == ("learner-0", 2, "u")
    again = {**LABELS, "jobset.sigs.k8s.io/job-restart-attempt": "1"}
    assert reported({"metadata": {"uid": "v", "labels": again}}).incarnation == 3
