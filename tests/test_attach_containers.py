"""A training of the user's own in containers: a Compose service is broken and left as it was."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.record.history import History
from chaoslab.selftest.mutants import trainer
from tests.docker_runs import engine_with_images
from tests.whole_runs import ROOT, whole

import docker  # isort: skip  # after the engine
from chaoslab.fleet.docker.images import images  # isort: skip

pytestmark = [pytest.mark.deep, pytest.mark.docker]

PROJECT, SERVICE = "chaoslab-script-test", "trainer"
SOURCE = Path(trainer.__file__).read_text(encoding="utf-8")
PATIENCE_S = 60.0
PLAN = r"""
version: 1
name: attached
training:
  script: {progress: 'step (?P<step>\d+) loss (?P<loss>\S+)', saved: 'saved.* (?P<step>\d+)',
           resumed: 'resumed from step (?P<step>\d+)'}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 300%}
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


@pytest.fixture
def service() -> Iterator[docker.DockerClient]:
    """Two containers of a service, as Compose makes them of `deploy: {replicas: 2}`."""
    engine_with_images().close()
    client = docker.from_env()
    labels = {"com.docker.compose.project": PROJECT, "com.docker.compose.service": SERVICE}
    _remove(client)
    try:
        for number in (1, 2):
            client.containers.run(
                images.source().image,
                ["python3", "-u", "-c", SOURCE, "--rank", str(number), "--folder", "/tmp/saved"],
                name=f"{PROJECT}-{SERVICE}-{number}", labels=labels, detach=True, init=True,
            )  # fmt: skip
        yield client
    finally:
        _remove(client)
        client.close()


def _remove(client: docker.DockerClient) -> None:
    for one in client.containers.list(
        all=True, filters={"label": f"com.docker.compose.project={PROJECT}"}
    ):
        one.remove(force=True)


def attach(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "chaoslab", "attach", f"compose:{PROJECT}", *words]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=400
    )


def is_at_work(client: docker.DockerClient) -> bool:
    """Whether both run, on their network, and print more steps."""
    for number in (1, 2):
        one = client.containers.get(f"{PROJECT}-{SERVICE}-{number}")
        assert one.status == "running"
        assert one.attrs["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]
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
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    run = attach("--service", SERVICE, str(plan), "--yes", "--json", "--out", str(tmp_path))
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
