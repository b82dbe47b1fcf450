"""Machines of a cluster: cordons of a run, what the cluster says of them, stopped kubelets."""

import os
import queue
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import cordon, kubelet_stopper, machine_watch
from chaoslab.fleet.kubernetes.machine_watch import (
    MachineState,
    MachineWatch,
    changes,
    machine_state,
)
from chaoslab.fleet.kubernetes.manifests import Manifests, PodSettings
from chaoslab.fleet.kubernetes.stopper import stopper
from tests.fleet.kubernetes.fake_cluster import FakeCluster
from tests.waiting import wait_until


@pytest.fixture
def cluster() -> FakeCluster:
    """It has one machine."""
    found = FakeCluster()
    found.objects["nodes/one"] = {"metadata": {"name": "one"}, "spec": {}}
    return found


def test_a_cordon_is_undone_by_the_run_that_asked_for_it_and_no_other(cluster: FakeCluster) -> None:
    machine = cluster.objects["nodes/one"]
    cordon.require_free(cluster, "one")
    cordon.cordon(cluster, "one", "3fa9")
    assert machine["spec"] == {"unschedulable": True}
    assert not cordon.uncordon(cluster, "one", "another")
    assert cordon.is_cordoned_by(cluster, "one", "3fa9")
    assert cordon.uncordon(cluster, "one", "3fa9")
    assert not cordon.uncordon(cluster, "one", "3fa9"), "however often"
    assert (machine["spec"], machine["metadata"]["annotations"]) == ({}, {})
    assert not cordon.uncordon(cluster, "two", "3fa9"), "it is gone"


def test_a_machine_that_somebody_else_cordoned_is_left_alone(cluster: FakeCluster) -> None:
    cluster.objects["nodes/one"]["spec"]["unschedulable"] = True
    with pytest.raises(FleetError, match="one"):
        cordon.require_free(cluster, "one")
    assert not cordon.uncordon(cluster, "one", "3fa9")
    assert cluster.objects["nodes/one"]["spec"] == {"unschedulable": True}


# ---------------------------------------------------------------- what the cluster says


def said(*, taint: str = "", ready: str = "True", reason: str = "KubeletReady") -> dict[str, Any]:
    return {
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}] if taint else None},
        "status": {"conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": ready, "reason": reason},
        ]},
    }  # fmt: skip


WELL = machine_state(said(taint="chaoslab-test/second"), unrenewed_s=11.0)
CORDONED = machine_state(said(taint="node.kubernetes.io/unschedulable"))
SILENT = machine_state(said(), unrenewed_s=20.5)
UNKNOWN = machine_state(said(ready="Unknown", reason="NodeStatusUnknown"), unrenewed_s=51.0)


@pytest.mark.parametrize(("before", "after", "told"), [
    (MachineState(), WELL, {}),
    (WELL, CORDONED, {"cordon": "node.kubernetes.io/unschedulable"}),
    (CORDONED, WELL, {"uncordon": ""}),
    (WELL, SILENT, {"silent": ""}),
    (SILENT, UNKNOWN, {"not_ready": "NodeStatusUnknown"}),
    (UNKNOWN, WELL, {"renewed": "", "ready": ""}),
])  # fmt: skip
def test_a_machine_is_told_of_by_the_controllers_taint_its_lease_and_its_condition(
    before: MachineState, after: MachineState, told: Mapping[str, str]
) -> None:
    found = dict(changes(before, after))
    assert list(found) == list(told)
    assert all(found[action] == reason for action, reason in told.items() if reason)


def test_a_lease_that_nobody_could_renew_is_not_silent(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.objects["leases/one"] = {"spec": {"renewTime": "10:00"}}
    cluster.is_closing = True  # nobody looks but this test
    now_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: now_s, time=lambda: now_s, sleep=lambda _: None)
    monkeypatch.setattr(machine_watch, "time", clock)
    watch = MachineWatch(cluster, "one", [], queue.Queue())

    def is_silent_after(*looks_s: float) -> bool:
        nonlocal now_s
        for look_s in looks_s:
            now_s = look_s
            watch._look()
        return watch._state.is_silent

    assert not is_silent_after(1.0, 2.0, 27.0, 28.0), "for 25 s the server did not answer"
    assert not is_silent_after(*range(29, 46))
    assert is_silent_after(46.0)


# ---------------------------------------------------------------- the program that stops a kubelet


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[int]:
    """A process that is called so, but for what only the tests have."""
    program = tmp_path / "kubelet"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as process:
        wait_until(lambda: (Path("/proc") / str(process.pid) / "comm").read_text() == "kubelet\n")
        yield process.pid
        process.kill()


@pytest.fixture
def proc(tmp_path: Path, kubelet: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc in which there is nothing but that process, and what is no process."""
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / str(kubelet)).symlink_to(f"/proc/{kubelet}")
    (folder / "sys").mkdir()
    monkeypatch.setattr(kubelet_stopper, "PROC", folder)
    monkeypatch.setattr(kubelet_stopper, "_SEEN_S", 0.0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return folder


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_kubelet_is_stopped_and_goes_on(
    kubelet: int, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proc.exists()
    seen = []

    def look(for_s: float) -> None:
        if for_s:
            wait_until(lambda: state(kubelet) == "T")
            seen.append(for_s)

    monkeypatch.setattr(kubelet_stopper, "time", SimpleNamespace(sleep=look))
    assert kubelet_stopper.main(30.0, "one") == 0
    assert seen == [30.0]
    wait_until(lambda: state(kubelet) == "S")


def test_a_stopper_that_is_told_to_end_lets_it_go_on(
    kubelet: int, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proc.exists()

    def end(for_s: float) -> None:
        if for_s:
            raise SystemExit(0)  # as on SIGTERM

    monkeypatch.setattr(kubelet_stopper, "time", SimpleNamespace(sleep=end))
    with pytest.raises(SystemExit):
        kubelet_stopper.main(30.0, "one")
    wait_until(lambda: state(kubelet) == "S")


def test_of_several_kubelets_the_machines_own_is_taken_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for pid, name in ((7, "one"), (8, "one-2")):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "comm").write_text("kubelet\n")
        (folder / "cmdline").write_text(f"/kubelet\0--hostname-override={name}\0--v=1\0")
    monkeypatch.setattr(kubelet_stopper, "PROC", tmp_path)
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *words: sent.append(words))
    monkeypatch.setattr(kubelet_stopper, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert kubelet_stopper.main(1.0, "one") == 0
    assert sent == [(7, signal.SIGSTOP), (7, signal.SIGCONT)]
    assert kubelet_stopper.main(1.0, "two") == 1
    assert "two" in capfd.readouterr().err


def test_the_stopper_may_signal_processes_of_its_machine_and_no_more() -> None:
    settings = PodSettings(image="node:1")
    manifests = Manifests(run="3fa9", directory="/runs/x", settings=settings, owner="uid-1")
    job: Any = stopper(manifests, "chaoslab-3fa9-kubelet-0", "one", 30.0)
    (owner,) = job["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-1"
    pod = job["spec"]["template"]["spec"]
    assert (pod["nodeName"], pod["hostPID"], "volumes" in pod) == ("one", True, False)
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["KILL"]}
    assert "privileged" not in str(container)
    assert container["command"][-2:] == ["30", "one"]
    compile(container["command"][-3].replace("$$", "$"), "stopper", "exec")
