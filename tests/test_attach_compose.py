"""docker/compose.yaml, attached: found, broken by a plan, and left healthy."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.record.history import History
from tests.docker_runs import engine_with_images

from chaoslab.fleet.docker.engine.engine import Engine  # isort: skip  # after the engine
from chaoslab.fleet.docker.images import images  # isort: skip
from tests import compose  # isort: skip
from tests.whole_runs import whole

pytestmark = [pytest.mark.deep, pytest.mark.docker]

ROOT = Path(__file__).parent.parent
PROJECT = "chaoslab-attach-test"
NODES = ["learner-0", "learner-1", "learner-2", "learner-3", "syncer"]
PATIENCE_S = 240.0
PLAN = """
version: 1
name: attached
training: {learners: 4}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 200%}
limits: {min_alive: 1, max_affected: 50%, timeout: 10m}
faults:
  - {id: die, fault: process.kill, target: {learners: [learner-1]}, at: {time: 5s}, for: 4s}
  - id: stand
    fault: process.pause
    target: {learners: [learner-0]}
    at: {after: die, offset: 15s}
    for: 4s
  - id: pull
    fault: network.disconnect
    target: {learners: [learner-2]}
    at: {after: stand, offset: 15s}
    for: 6s
expect:
  - {check: continuity, max_gap: 30s}
  - {check: rejoin, within: 90s}
  - {check: agreement}
  - {check: cleanup}
"""


@pytest.fixture
def training() -> Iterator[Engine]:
    """All learners of it are at work."""
    engine = engine_with_images()
    with compose.up(PROJECT, images.source().image):
        deadline = time.monotonic() + PATIENCE_S
        while merged(engine) < 8:
            assert time.monotonic() < deadline, engine.said(f"{PROJECT}-syncer-1", last=20)
            time.sleep(0.5)
        yield engine
    engine.close()


def merged(engine: Engine) -> int:
    return engine.said(f"{PROJECT}-syncer-1").count('"round.merged"')


def is_healthy(engine: Engine) -> bool:
    """Whether all run, on their network, under their names, and more is merged."""
    states = [engine.inspect(f"{PROJECT}-{name}-1") for name in NODES]
    made = [engine.made_as(f"{PROJECT}-{name}-1").networks for name in NODES]
    assert [state.status for state in states] == ["running"] * len(NODES)
    for name, networks in zip(NODES, made, strict=True):
        assert name in networks[f"{PROJECT}_training"]
    before, deadline = merged(engine), time.monotonic() + PATIENCE_S
    while merged(engine) <= before + 4:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return True


def chaoslab(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "chaoslab", *words],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=560,
    )  # fmt: skip


def test_a_plan_breaks_and_restores_the_containers(training: Engine, tmp_path: Path) -> None:
    listed = chaoslab("attach", f"compose:{PROJECT}", "--json")
    assert sorted(one["node"] for one in json.loads(listed.stdout)) == NODES
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    run = chaoslab("attach", f"compose:{PROJECT}", str(plan), "--yes", "--json", "--out",
                   str(tmp_path))  # fmt: skip
    verdict = json.loads(run.stdout)
    assert run.returncode == 0, f"{whole(verdict)}\n{run.stderr}"
    assert [one["status"] for one in verdict["injections"]] == ["proved"] * 3
    assert is_healthy(training)
    history = History.read((tmp_path / "latest").resolve())
    exited = next(e for e in history.events if e.kind is Kind.NODE_EXITED)
    assert (exited.data["node"], exited.data["signal"]) == ("learner-1", "SIGKILL")
    assert exited.data.get("is_seen", True)
