"""Learners of two hosts in pods, without a cluster: what is told, and what is done in which pod."""

import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("lightkube")

from lightkube.models.core_v1 import Pod

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.base import Hosts
from chaoslab.fleet.kubernetes import pod as pods
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.host_pods import HostPods
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pod_state import PodState
from chaoslab.fleet.kubernetes.resources import Resource
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from chaoslab.fleet.kubernetes.stress_drivers import driver
from chaoslab.fleet.stress.registry import Wish
from chaoslab.fleet.stressors import MemoryLimit
from tests.engine import learner
from tests.fleet.local_stage import Remembered

HOSTS = Hosts(count=2, flags=("--host-index", "{host}"), secret="SECRET")
SPEC = replace(learner("learner-0"), hosts=HOSTS, hears=True)


@dataclass
class Server:
    """What of a cluster the pods of a learner ask; remembers what was made and done."""

    made: list[Mapping[str, Any]] = field(default_factory=list)
    done: list[tuple[str, str]] = field(default_factory=list)
    refuses: str = ""
    """Name of an object that it does not delete."""
    server, context, namespace, is_closing = "https://here", "here", "chaos", False

    def create(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        self.made.append(manifest)
        spec = {"clusterIP": "10.0.0.9", **manifest.get("spec", {})}
        return {"metadata": {"uid": "u"}, "spec": spec}

    def exec(self, name: str, command: Sequence[str], *, stdin: bytes | None = None) -> str:
        self.done.append((name, command[-1] if stdin is None else stdin.decode()))
        return ""

    def delete(self, resource: Resource, name: str, *, is_forced: bool = False) -> bool:
        assert is_forced is (resource.plural == "pods")
        self.done.append((name, "delete"))
        return name != self.refuses

    def pod(self, name: str) -> Pod:
        return pod_of({"metadata": {"name": name}, "status": {"phase": "Running"}})

    def of_kind(self, kind: str) -> list[Mapping[str, Any]]:
        return [one for one in self.made if one["kind"] == kind]


class Follower:
    """Follows nothing: tests say what happens to a pod."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def close(self) -> None:
        """Nothing to end."""


@dataclass
class Learner:
    """A learner of two hosts, its cluster and what arrives."""

    life: HostPods
    server: Server
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
            state = PodState(name=f"pod-{number}", machine=f"m-{number}", started_s=1.0)
            self.life._hosts[number].pod_started(state)
        return self.heard()

    def ends(self, number: int, code: int) -> list[Observation]:
        state = PodState(name=f"pod-{number}", started_s=1.0, exit_code=code)
        self.life._hosts[number].pod_ended(state)
        return self.heard()


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Learner]:
    monkeypatch.setattr(pods, "LogFollower", Follower)
    server, undo_log = Server(), Remembered()
    objects = RunObjects(
        cast("Cluster", server), tmp_path, undo_log, PodSettings(image="node:1"), 60.0
    )
    context = RunContext(
        run_directory=tmp_path, clock=WallClock(), undo_log=undo_log, run_objects=objects,
        arrivals=queue.Queue(), start_s=60.0,
    )  # fmt: skip
    life = HostPods(SPEC, 1, context)
    yield Learner(life=life, server=server, context=context, undo_log=undo_log)
    life.abandon()


def kinds(said: Sequence[Observation]) -> list[Kind]:
    return [one.kind for one in said]


def test_one_job_has_a_pod_for_each_host_and_they_share_a_secret(found: Learner) -> None:
    (job,) = found.server.of_kind("Job")
    assert (job["spec"]["completions"], job["spec"]["backoffLimit"]) == (2, 0)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["--host-index", "@host@"]
    assert {"name": "CHAOSLAB_MEETING", "value": "10.0.0.9:4650"} in container["env"]
    (secret,) = found.server.of_kind("Secret")
    assert list(secret["data"]) == ["environment.SECRET"]
    assert len(found.server.of_kind("Service")) == 2


def test_it_has_started_when_all_its_hosts_run(found: Learner) -> None:
    assert found.starts(1) == []
    assert not found.life.has_started
    said = found.starts(0)
    assert kinds(said) == [Kind.NODE_STARTED, Kind.HOST_STARTED, Kind.HOST_STARTED]
    assert said[0].data["container"] == "pod-0"
    assert found.life.machines == {"m-0", "m-1"}


def test_what_a_host_prints_comes_after_the_start_of_the_learner(found: Learner) -> None:
    found.starts(0)
    noticed = (
        b'{"kind":"learner.noticed","data":{"learner":"learner-0","incarnation":1,"step":0}}\n'
    )
    found.life._hosts[0].pod_printed(noticed)
    assert found.heard() == []
    assert kinds(found.starts(1)) == [
        Kind.NODE_STARTED, Kind.HOST_STARTED, Kind.HOST_STARTED, Kind.LEARNER_NOTICED,
    ]  # fmt: skip


def test_a_learner_one_of_whose_hosts_never_started_still_ends(found: Learner) -> None:
    found.starts(0)
    assert found.ends(0, 1) == []
    found.life._hosts[1].pod_ended(None)
    assert kinds(found.heard()) == [Kind.HOST_LOST, Kind.NODE_EXITED]


def test_a_host_that_is_killed_is_lost_and_the_learner_with_it(found: Learner) -> None:
    found.starts(0, 1)
    found.life.kill_host(1)
    assert found.server.done == [("pod-1", "KILL")]
    assert found.ends(0, 75) == []
    assert not found.life.is_over
    lost, exited = found.ends(1, 137)
    assert (lost.kind, lost.data["host"], lost.data["signal"]) == (Kind.HOST_LOST, 1, "SIGKILL")
    assert (exited.data["signal"], exited.data["sent"]) == ("SIGKILL", ["SIGKILL"])
    assert found.life.is_over


def test_the_other_hosts_are_killed_when_one_ends(found: Learner) -> None:
    found.starts(0, 1)
    found.ends(1, 1)
    assert found.life.waits
    found.life.end_rest()
    assert found.server.done == [("pod-0", "KILL")]
    lost, exited = found.ends(0, 137)
    assert (lost.data["host"], lost.data["reason"]) == (1, "exit code 1")
    assert exited.data["exit_code"] == 1


def test_where_a_host_has_not_started_the_job_is_deleted(found: Learner) -> None:
    found.starts(0)
    found.ends(0, 1)
    found.life.end_rest()
    assert found.server.done == [(found.life.job, "delete")]


def test_a_kill_of_all_loses_no_host(found: Learner) -> None:
    found.starts(0, 1)
    found.life.signal("SIGKILL")
    assert sorted(found.server.done) == [("pod-0", "KILL"), ("pod-1", "KILL")]
    found.ends(0, 137)
    assert kinds(found.ends(1, 137)) == [Kind.NODE_EXITED]


def test_a_deletion_is_of_all_pods_and_loses_no_host(found: Learner) -> None:
    found.starts(0, 1)
    found.life.delete()
    assert sorted(found.server.done) == [("pod-0", "delete"), ("pod-1", "delete")]
    assert found.life.is_ending
    found.ends(0, 137)
    assert kinds(found.ends(1, 137)) == [Kind.NODE_EXITED]


def test_a_deletion_that_was_done_by_others_is_not_ours(found: Learner) -> None:
    found.starts(0, 1)
    found.server.refuses = found.life.job
    with pytest.raises(FleetError, match=found.life.job):
        found.life.delete_job()
    assert not found.life.is_ending


def test_all_hosts_are_stopped_and_each_has_its_own_undo_entry(found: Learner) -> None:
    found.starts(0, 1)
    found.life.owe(found.life.undo_pause)
    found.life.stop()
    assert sorted(found.server.done) == [("pod-0", "STOP"), ("pod-1", "STOP")]
    owed = [(one["do"], one["pod"]) for one in found.undo_log.opened]
    assert owed == [("resume_pod", "pod-0"), ("resume_pod", "pod-1")]
    found.life.resume()
    found.life.settle(found.life.undo_pause)
    assert found.undo_log.closed == [0, 1]


def test_hooks_and_notices_are_for_host_0_and_a_chip_fails_on_its_own_host(found: Learner) -> None:
    found.starts(0, 1)
    found.life.signal("SIGHUP")
    found.life.tell({"do": "rest"})
    found.life.fail_chip(1)
    assert found.server.done == [
        ("pod-0", "HUP"), ("pod-0", '{"do":"rest"}\n'), ("pod-1", '{"do":"chip","index":0}\n'),
    ]  # fmt: skip


def test_their_memory_cannot_be_filled(found: Learner) -> None:
    limit = MemoryLimit(limit_bytes=1, for_s=30.0)
    wish = Wish(life=found.life, injection="i", stressor=limit, calm_cores=0.0, others=())
    with pytest.raises(FleetError, match="learner-0"):
        driver(wish)


def test_each_host_has_files_of_its_own(found: Learner, tmp_path: Path) -> None:
    found.starts(0, 1)
    found.life._hosts[1].pod_printed(b"of host 1\n")
    found.heard()
    home = tmp_path / "nodes" / "learner-0" / "1"
    assert (home / "host-1" / "stdout.log").read_bytes() == b"of host 1\n"
    assert (home / "stdout.log").read_bytes() == b""
