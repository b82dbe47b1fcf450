"""Learners of two hosts in pods, without a cluster: what is told, and what is done in which pod."""

import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.base import Hosts
from chaoslab.fleet.kubernetes import pod as pods
from chaoslab.fleet.kubernetes.cluster import pod_of
from chaoslab.fleet.kubernetes.host_pods import HostPods
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pod_state import state_of
from chaoslab.fleet.kubernetes.pods import RunContext
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from chaoslab.fleet.kubernetes.stress_drivers import driver
from chaoslab.fleet.stress.registry import Wish
from chaoslab.fleet.stressors import MemoryLimit
from tests.engine import learner
from tests.fleet.kubernetes.fake_cluster import FakeCluster, ended, pod
from tests.fleet.local_stage import Remembered

HOSTS = Hosts(count=2, flags=("--host-index", "{host}"), secret="SECRET")
NOTICED = b'{"kind":"learner.noticed","data":{"learner":"learner-0","incarnation":1,"step":0}}\n'
STARTED = [Kind.NODE_STARTED, Kind.HOST_STARTED, Kind.HOST_STARTED]


@dataclass
class Learner:
    """A learner of two hosts, its cluster and what arrives."""

    life: HostPods
    server: FakeCluster
    context: RunContext
    undo_log: Remembered

    def heard(self) -> list[Observation]:
        """What is told of what has arrived."""
        said: list[Observation] = []
        while not self.context.arrivals.empty():
            said += self.context.arrivals.get().observe()
        return said

    def starts(self, *numbers: int) -> list[Observation]:
        for number in numbers:
            found = pod(f"pod-{number}", machine=f"m-{number}")
            self.server.objects[f"pods/pod-{number}"] = found
            self.life._hosts[number].pod_started(state_of(pod_of(found)))
        self.server.calls.clear()
        return self.heard()

    def ends(self, number: int, code: int) -> list[Observation]:
        self.life._hosts[number].pod_ended(state_of(pod_of(pod(f"pod-{number}", ended(code)))))
        return self.heard()


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Learner]:
    nobody = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(pods, "LogFollower", lambda *_, **__: nobody)
    server, undo_log = FakeCluster(), Remembered()
    objects = RunObjects(server, tmp_path, undo_log, PodSettings(image="node:1"), 60.0)
    context = RunContext(
        run_directory=tmp_path, clock=WallClock(), undo_log=undo_log, run_objects=objects,
        arrivals=queue.Queue(), start_s=60.0,
    )  # fmt: skip
    life = HostPods(replace(learner("learner-0"), hosts=HOSTS, hears=True), 1, context)
    yield Learner(life=life, server=server, context=context, undo_log=undo_log)
    life.abandon()


def kinds(*said: Observation) -> list[Kind]:
    return [one.kind for one in said]


def test_one_job_has_a_pod_for_each_host_and_they_share_a_secret(found: Learner) -> None:
    (job,), (secret,) = found.server.of("jobs"), found.server.of("secrets")
    assert (job["spec"]["completions"], job["spec"]["backoffLimit"]) == (2, 0)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["--host-index", "@host@"]
    assert {"name": "CHAOSLAB_MEETING", "value": "10.0.0.9:4650"} in container["env"]
    assert list(secret["data"]) == ["environment.SECRET"]
    assert len(found.server.of("services")) == 2


def test_it_has_started_when_all_its_hosts_run_and_what_they_print_comes_after_that(
    found: Learner, tmp_path: Path
) -> None:
    assert found.starts(1) == []
    found.life._hosts[1].pod_printed(NOTICED)
    found.life._hosts[1].pod_printed(b"no event\n")
    assert found.heard() == []
    assert not found.life.has_started
    first, *rest = found.starts(0)
    assert kinds(first, *rest) == [*STARTED, Kind.LEARNER_NOTICED]
    assert first.data["container"] == "pod-0"
    assert found.life.machines == {"m-0", "m-1"}
    home = tmp_path / "nodes" / "learner-0" / "1"
    assert (home / "host-1" / "stdout.log").read_bytes() == NOTICED + b"no event\n"
    assert (home / "stdout.log").read_bytes() == b""


def test_a_learner_one_of_whose_hosts_never_started_ends_and_its_job_is_deleted(
    found: Learner,
) -> None:
    found.starts(0)
    assert found.ends(0, 1) == []
    found.life.end_rest()
    assert found.server.calls == [f"delete jobs/{found.life.job}"]
    found.life._hosts[1].pod_ended(None)
    assert kinds(*found.heard()) == [Kind.HOST_LOST, Kind.NODE_EXITED]


def test_a_host_that_is_killed_is_lost_and_the_learner_with_it(found: Learner) -> None:
    found.starts(0, 1)
    found.life.kill_host(1)
    assert found.server.calls == ["exec pods/pod-1: KILL"]
    assert found.ends(0, 75) == []
    assert not found.life.is_over
    lost, exited = found.ends(1, 137)
    assert (lost.kind, lost.data["host"], lost.data["signal"]) == (Kind.HOST_LOST, 1, "SIGKILL")
    assert (exited.data["signal"], exited.payload.sent) == ("SIGKILL", ("SIGKILL",))
    assert found.life.is_over


def test_the_other_hosts_are_killed_when_one_ends(found: Learner) -> None:
    found.starts(0, 1)
    found.ends(1, 1)
    assert found.life.waits
    found.life.end_rest()
    assert found.server.calls == ["exec pods/pod-0: KILL"]
    lost, exited = found.ends(0, 137)
    assert (lost.data["host"], lost.data["signal"]) == (1, None)
    assert exited.data["exit_code"] == 1


@pytest.mark.parametrize(("end", "done"), [
    (lambda life: life.signal("SIGKILL"), ["exec pods/pod-0: KILL", "exec pods/pod-1: KILL"]),
    (HostPods.delete, ["delete pods/pod-0", "delete pods/pod-1"]),
])  # fmt: skip
def test_what_ends_all_is_done_to_all_and_loses_no_host(
    found: Learner, end: Callable[[HostPods], None], done: list[str]
) -> None:
    found.starts(0, 1)
    end(found.life)
    assert sorted(found.server.calls) == done
    found.ends(0, 137)
    assert kinds(*found.ends(1, 137)) == [Kind.NODE_EXITED]


def test_a_deletion_that_was_done_by_others_is_not_ours(found: Learner) -> None:
    found.starts(0, 1)
    del found.server.objects[f"jobs/{found.life.job}"]
    with pytest.raises(FleetError):
        found.life.delete_job()
    assert not found.life.is_ending


def test_all_hosts_are_stopped_and_each_has_its_own_undo_entry(found: Learner) -> None:
    found.starts(0, 1)
    found.life.open_undo(found.life.undo_pause)
    found.life.stop()
    assert sorted(found.server.calls) == ["exec pods/pod-0: STOP", "exec pods/pod-1: STOP"]
    opened = [(one["do"], one["pod"]) for one in found.undo_log.opened]
    assert opened == [("resume_pod", "pod-0"), ("resume_pod", "pod-1")]
    found.life.resume()
    found.life.close_undo(found.life.undo_pause)
    assert found.undo_log.closed == [0, 1]


def test_hooks_and_notices_are_for_host_0_and_a_chip_fails_on_its_own_host(found: Learner) -> None:
    found.starts(0, 1)
    found.life.signal("SIGHUP")
    found.life.tell({"do": "rest"})
    found.life.fail_chip(1)
    assert found.server.calls == [
        "exec pods/pod-0: HUP", 'exec pods/pod-0: {"do":"rest"}',
        'exec pods/pod-1: {"do":"chip","index":0}',
    ]  # fmt: skip


def test_their_memory_cannot_be_filled(found: Learner) -> None:
    limit = MemoryLimit(limit_bytes=1, for_s=30.0)
    with pytest.raises(FleetError, match="learner-0"):
        driver(Wish(life=found.life, injection="i", stressor=limit, calm_cores=0.0, others=()))
