"""A follower learns of its pod from the watch, and asks the server where the watch is silent."""

import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

pytest.importorskip("lightkube")

from lightkube.models.core_v1 import Pod

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import log_follower, pod_state
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.log_follower import LogFollower
from chaoslab.fleet.kubernetes.names import LABEL_INDEX
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.pod_watch import JobPods, NumberedPods, PodWatch
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import PODS, Resource
from tests.waiting import wait_until

WAIT_S = 60.0
SILENT_S = log_follower._ASK_S + 1


def pod(name: str, *, runs: bool = True, job: str = "job", index: str = "0") -> dict[str, Any]:
    state = {"running": {"startedAt": "2026-11-27T10:00:00Z"}} if runs else {"waiting": {}}
    status = {"name": "node", "image": "", "imageID": "", "ready": runs, "restartCount": 0}
    return {
        "metadata": {"name": name, "uid": name, "labels": {"job-name": job, LABEL_INDEX: index}},
        "status": {"phase": "Running", "containerStatuses": [{**status, "state": state}]},
    }


class Server:
    """What of a cluster a follower asks; remembers what it was asked."""

    def __init__(self, *pods: Mapping[str, Any]) -> None:
        self.there = list(pods)
        self.asked: list[str] = []
        self.is_closing = False

    def pods(self, selector: str) -> Sequence[Pod]:
        self.asked.append(f"pods {selector}")
        return [pod_of(one) for one in self.there]

    def pod(self, name: str) -> Pod:
        self.asked.append(f"pod {name}")
        raise Missing(name)

    def lines(
        self, resource: Resource, name: str, params: Mapping[str, str], *, silent_s: float
    ) -> Iterator[bytes]:
        assert resource is PODS
        self.asked.append(f"log of {name}")
        yield from ()


class Told:
    """Whoever is told, for a test that waits for it."""

    def __init__(self) -> None:
        self.said: queue.Queue[tuple[str, object]] = queue.Queue()

    def pod_started(self, state: PodState) -> None:
        self.said.put(("started", state.name))

    def pod_printed(self, lines: bytes) -> None:
        self.said.put(("printed", lines))

    def pod_ended(self, state: PodState | None) -> None:
        self.said.put(("ended", state))

    def pod_failed(self, error: FleetError) -> None:
        self.said.put(("failed", str(error)))

    def next(self) -> tuple[str, object]:
        return self.said.get(timeout=WAIT_S)


def follow(server: Server, pods: JobPods, *, start_s: float = 60.0) -> tuple[LogFollower, Told]:
    told = Told()
    return LogFollower(cast("Cluster", server), "job", told, pods, start_s=start_s), told


def test_a_start_that_the_watch_sees_costs_no_request() -> None:
    server, pods = Server(), JobPods(lambda: 0.0)
    _, told = follow(server, pods)
    pods.see(state_of(pod_of(pod("p", runs=False))))
    pods.see(state_of(pod_of(pod("p"))))
    assert told.next() == ("started", "p")
    assert told.next() == ("ended", None)
    assert server.asked == ["log of p", "pod p", "log of p"]


def test_a_log_that_has_ended_is_asked_for_now_and_then_until_the_end_is_known() -> None:
    class Late(Server):
        def pod(self, name: str) -> Pod:
            if self.asked.count("log of p") > 3:
                return super().pod(name)
            return pod_of(pod(name))

    server, pods = Late(), JobPods(lambda: 0.0)
    pods.see(state_of(pod_of(pod("p"))))
    began_s = time.monotonic()
    _, told = follow(server, pods)
    assert [told.next(), told.next()] == [("started", "p"), ("ended", None)]
    assert time.monotonic() - began_s >= 3 * log_follower._PAUSE_S


def test_where_the_watch_is_silent_the_server_is_asked() -> None:
    server = Server(pod("p"))
    _, told = follow(server, JobPods(lambda: SILENT_S))
    assert told.next() == ("started", "p")
    assert server.asked[0] == "pods job-name=job"


def test_a_pod_that_is_gone_before_it_ran_has_ended_by_the_servers_word() -> None:
    server, pods = Server(), JobPods(lambda: 0.0)
    pods.see(state_of(pod_of(pod("p", runs=False))))
    _, told = follow(server, pods)
    pods.lose("p")
    assert told.next() == ("ended", None)
    assert server.asked == ["pods job-name=job"]


def test_a_pod_that_nobody_starts_is_an_error_that_says_so() -> None:
    _, told = follow(Server(), JobPods(lambda: 0.0), start_s=0.0)
    what, said = told.next()
    assert what == "failed"
    assert "Job job" in str(said)


def waits(name: str, reason: str) -> PodState:
    found = pod(name, runs=False)
    found["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": reason}}
    return state_of(pod_of(found))


def test_a_pod_whose_kubelet_tries_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "_LOOK_S", 0.01)
    looks = []

    class Counted(JobPods):
        def wait(self, limit_s: float) -> None:
            looks.append(limit_s)
            super().wait(limit_s)

    pods = Counted(lambda: 0.0)
    pods.see(waits("p", "CreateContainerConfigError"))
    _, told = follow(Server(), pods)
    wait_until(lambda: len(looks) > 5)
    assert told.said.empty()
    pods.see(state_of(pod_of(pod("p"))))
    assert told.next() == ("started", "p")


def test_a_pod_that_stays_without_hope_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "_LOOK_S", 0.01)
    monkeypatch.setattr(pod_state, "HOPELESS_S", 0.1)
    pods = JobPods(lambda: 0.0)
    pods.see(waits("p", "ErrImageNeverPull"))
    _, told = follow(Server(), pods)
    what, said = told.next()
    assert what == "failed"
    assert "ErrImageNeverPull" in str(said)


def test_a_client_that_is_closed_meanwhile_ends_the_follower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_follower, "_AGAIN_S", 0.0)

    class Closing(Server):
        def lines(self, *_: object, **__: object) -> Iterator[bytes]:
            self.is_closing = True
            raise FleetError("cannot read the log of pod p: the client has been closed")

        def pod(self, name: str) -> Pod:
            raise FleetError(f"cannot get pod {name}: the client has been closed")

    pods = JobPods(lambda: 0.0)
    pods.see(state_of(pod_of(pod("p"))))
    follower, told = follow(Closing(), pods)
    assert told.next() == ("started", "p")
    follower._thread.join(WAIT_S)
    assert told.said.empty()


def test_pods_are_those_of_the_job_now_and_later() -> None:
    watch = PodWatch(cast("Cluster", Server()), "", queue.Queue(), NumberedPods(lambda _: ()))
    watch._see(pod("a"))
    watch._see(pod("b", job="other"))
    watch._see(pod("d", index="1"))
    watch._see(pod("d", index="1"))
    pods = watch.pods_of("job")
    watch._see(pod("c"))
    assert [one.name for one in pods.there] == ["a", "c"]
    watch._lose("a")
    assert [one.name for one in pods.there] == ["c"]
    assert watch.pods_of("job") is pods
