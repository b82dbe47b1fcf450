"""A training of the user's own in containers: a Compose service is broken and left as it was."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import StorageDamaged
from chaoslab.record.history import History
from chaoslab.record.journal_file import JOURNAL
from chaoslab.undo.log import open_undos
from tests.docker_runs import engine_with_images
from tests.trainers import with_store
from tests.trainers.tolerant import SOURCE
from tests.waiting import wait_until
from tests.whole_runs import ROOT, whole

import docker  # isort: skip  # after the engine
from chaoslab.fleet.docker.images import images  # isort: skip

pytestmark = [pytest.mark.deep, pytest.mark.docker]

PROJECT, SERVICE = "chaoslab-script-test", "trainer"
TALKER = Path(with_store.__file__).read_text(encoding="utf-8")
FOLDER = "/saved/of-it"
PATIENCE_S = 60.0
PLAN = r"""
version: 1
name: attached
training:
  script: {progress: 'step (?P<step>\d+) loss (?P<loss>\S+)', saved: 'saved.* (?P<step>\d+)',
           resumed: 'resumed from step (?P<step>\d+)'}
baseline: {warmup: 10 rounds, window: 100 rounds, max_variation: 300%}
twin: false
limits: {min_alive: 0, max_affected: 100%, timeout: 5m}
faults:
  - {id: dies, fault: process.kill, target: {workers: [worker-1]}, at: {round: 20}, for: 2s}
  - {id: stands, fault: process.pause, target: {workers: [worker-0]},
     at: {after: dies, offset: 8s}, for: 2s}
expect:
  - {check: participation, min_share: 5%}
  - {check: rejoin, within: 60s, contributions: 3}
  - {check: resume}
  - {check: cleanup}
"""
BEFORE, _, AFTER = PLAN.partition("faults:\n")


def on_files(faults: str) -> str:
    """The plan with faults on the checkpoints."""
    folder = f"{FOLDER}, checkpoints: 'rank*.json'"
    before = BEFORE.replace("script: {", f"script: {{folder: {folder}, ")
    return f"{before}faults:\n{faults}{AFTER[AFTER.index('expect:') :]}"


@pytest.fixture
def service() -> Iterator[docker.DockerClient]:
    """Two containers of a service, as Compose makes them of `deploy: {replicas: 2}`."""
    engine_with_images().close()
    client = docker.from_env()
    labels = {"com.docker.compose.project": PROJECT, "com.docker.compose.service": SERVICE}
    _remove(client)
    try:
        for number in (1, 2):
            name = f"{PROJECT}-{SERVICE}-{number}"
            in_memory = {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"} if number == 1 else {}
            client.volumes.create(name, driver_opts=in_memory, labels=labels)
            client.containers.run(
                images.source().image,
                ["python3", "-u", "-c", SOURCE, "--rank", str(number), "--folder", FOLDER],
                name=name, labels=labels, detach=True, init=True, user="0",
                volumes={name: {"bind": "/saved"}},
            )  # fmt: skip
        yield client
    finally:
        _remove(client)
        client.close()


@pytest.fixture
def talkers() -> Iterator[docker.DockerClient]:
    """Two containers of a service, each of whose steps uses a store in a third one."""
    engine_with_images().close()
    client = docker.from_env()
    _remove(client)
    try:
        listening = TALKER.replace("127.0.0.1", "0.0.0.0")
        start(client, "store", 1, listening, "--opens", "--store", "0.0.0.0:9000")
        address = address_of(client.containers.get(f"{PROJECT}-store-1"))
        for number in (1, 2):
            start(client, SERVICE, number, TALKER, "--store", f"{address}:9000")
        yield client
    finally:
        _remove(client)
        client.close()


def start(client: docker.DockerClient, service: str, number: int, *words: str) -> None:
    client.containers.run(
        images.source().image, ["python3", "-u", "-c", *words],
        name=f"{PROJECT}-{service}-{number}", detach=True, init=True,
        labels={"com.docker.compose.project": PROJECT, "com.docker.compose.service": service},
    )  # fmt: skip


def address_of(container: "docker.models.containers.Container") -> str:
    container.reload()
    return str(container.attrs["NetworkSettings"]["Networks"]["bridge"]["IPAddress"])


def _remove(client: docker.DockerClient) -> None:
    for one in client.containers.list(
        all=True, filters={"label": f"com.docker.compose.project={PROJECT}"}
    ):
        one.remove(force=True)
    for one in client.volumes.list(filters={"label": f"com.docker.compose.project={PROJECT}"}):
        one.remove()


def command_of(*words: str) -> list[str]:
    return [sys.executable, "-m", "chaoslab", "attach", f"compose:{PROJECT}", *words]


def attach(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command_of(*words), capture_output=True, text=True, cwd=ROOT, check=False, timeout=400
    )


def is_at_work(client: docker.DockerClient) -> bool:
    """Whether both run, on their network, and print more steps."""
    for number in (1, 2):
        one = client.containers.get(f"{PROJECT}-{SERVICE}-{number}")
        assert one.status == "running"
        assert address_of(one)
        before, deadline = len(one.logs()), time.monotonic() + PATIENCE_S
        while len(one.logs()) <= before:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    return True


def test_a_service_is_broken_by_a_plan_and_left_as_it_was(
    service: docker.DockerClient, tmp_path: Path
) -> None:
    absent = attach("--service", "traner")
    assert absent.returncode == 2
    assert f"its services: {SERVICE}" in absent.stderr
    listed = json.loads(attach("--service", SERVICE, "--json").stdout)
    assert [(one["node"], one["where"]) for one in listed] == [
        (f"worker-{rank}", f"container {PROJECT}-{SERVICE}-{rank + 1}") for rank in (0, 1)
    ]
    run = run_plan(tmp_path, PLAN)
    verdict = json.loads(run.stdout)
    assert run.returncode == 0, f"{whole(verdict)}\n{run.stderr}"
    assert [one["status"] for one in verdict["injections"]] == ["proved"] * 2
    history = History.read((tmp_path / "latest").resolve())
    exited = [event.data["node"] for event in history.events if event.kind is Kind.NODE_EXITED]
    assert exited == ["worker-1"]
    assert is_at_work(service)


def test_a_plan_is_written_from_what_the_containers_have_printed(
    service: docker.DockerClient, tmp_path: Path
) -> None:
    assert is_at_work(service)
    gate = tmp_path / "gate.yaml"
    written = attach("--service", SERVICE, "--write", str(gate))
    assert written.returncode == 0, written.stderr
    run = attach("--service", SERVICE, str(gate), "--yes", "--json", "--out", str(tmp_path))
    assert run.returncode == 0, f"{whole(json.loads(run.stdout))}\n{run.stderr}"
    assert is_at_work(service)


def run_plan(folder: Path, plan: str) -> "subprocess.CompletedProcess[str]":
    path = folder / "plan.yaml"
    path.write_text(plan)
    return attach("--service", SERVICE, str(path), "--yes", "--json", "--out", str(folder))


def files_of(client: docker.DockerClient, number: int) -> list[str]:
    code, listed = client.containers.get(f"{PROJECT}-{SERVICE}-{number}").exec_run(
        ["ls", "-A", FOLDER]
    )
    assert code == 0
    return sorted(listed.decode().split())


def test_a_checkpoint_is_lost_and_a_disk_full_and_both_go_on(
    service: docker.DockerClient, tmp_path: Path
) -> None:
    assert is_at_work(service)
    run = run_plan(tmp_path, on_files(
        "  - {id: lost, fault: storage.damage_checkpoint, how: lose,\n"
        "     target: {workers: [worker-1]}, at: {round: 150}, for: 8s}\n"
        "  - {id: full, fault: storage.disk_full, target: {workers: [worker-0]},\n"
        "     at: {after: lost, offset: 16s}, for: 6s}\n"
    ))  # fmt: skip
    assert run.stdout, run.stderr
    verdict = json.loads(run.stdout)
    assert run.returncode == 0, f"{whole(verdict)}\n{run.stderr}"
    assert [one["status"] for one in verdict["injections"]] == ["proved"] * 2
    assert is_at_work(service)
    assert all(file.startswith("rank") for number in (1, 2) for file in files_of(service, number))


def test_a_checkpoint_that_was_cut_off_is_put_back_and_its_trainer_started_again(
    service: docker.DockerClient, tmp_path: Path
) -> None:
    assert is_at_work(service)
    run = run_plan(tmp_path, on_files(
        "  - {id: cut, fault: storage.damage_checkpoint, how: truncate,\n"
        "     target: {workers: [worker-1]}, at: {round: 150}, for: 10s}\n"
    ).replace("twin: false", "twin: false\nsettle: 15s"))  # fmt: skip
    assert run.stdout, run.stderr
    verdict = json.loads(run.stdout)
    assert run.returncode == 1, f"{whole(verdict)}\n{run.stderr}"
    history = History.read((tmp_path / "latest").resolve())
    (damaged,) = history.of(StorageDamaged)
    assert is_at_work(service)
    step = int(damaged.payload.file.removesuffix(".json").rpartition("-")[2])
    output = service.containers.get(f"{PROJECT}-{SERVICE}-2").logs().decode()
    assert f"resumed from step {step}\n" in output
    assert all(file.startswith("rank") for file in files_of(service, 2))


def test_a_container_is_taken_off_its_network_which_what_that_carried_proves(
    talkers: docker.DockerClient, tmp_path: Path
) -> None:
    assert is_at_work(talkers)
    fault = "fault: network.disconnect, target: {workers: [worker-1]}, at: {round: 150}, for: 10s"
    judged = "expect:\n  - {check: rejoin, within: 60s, contributions: 3}\n  - {check: cleanup}\n"
    run = run_plan(tmp_path, f"{BEFORE}faults:\n  - {{id: cable, {fault}}}\n{judged}")
    assert run.stdout, run.stderr
    verdict = json.loads(run.stdout)
    assert run.returncode == 0, f"{whole(verdict)}\n{run.stderr}"
    assert [one["status"] for one in verdict["injections"]] == ["proved"]
    assert is_at_work(talkers)


def test_the_janitor_puts_files_back_and_starts_the_container(
    service: docker.DockerClient, tmp_path: Path
) -> None:
    assert is_at_work(service)
    path = tmp_path / "plan.yaml"
    path.write_text(on_files(
        "  - {id: cut, fault: storage.damage_checkpoint, how: truncate,\n"
        "     target: {workers: [worker-1]}, at: {round: 150}, for: 60s}\n"
    ))  # fmt: skip
    command = command_of("--service", SERVICE, str(path), "--yes", "--out", str(tmp_path))
    harness = subprocess.Popen(command, cwd=ROOT)
    latest = tmp_path / "latest"
    journal = latest / JOURNAL
    try:
        wait_until(lambda: journal.exists() and b'"storage.damaged"' in journal.read_bytes())
    finally:
        harness.kill()
        harness.wait()
    wait_until(lambda: not open_undos(latest.resolve()))
    (damaged,) = History.read(latest.resolve()).of(StorageDamaged)
    assert damaged.payload.file in files_of(service, 2)
    assert all(file.startswith("rank") for file in files_of(service, 2))
    assert is_at_work(service)
