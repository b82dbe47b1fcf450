"""Whole runs on containers: the verdict is right, and nothing is left on the engine."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.errors import ExitCode
from chaoslab.events import Kind
from chaoslab.journal import History
from tests.engine import IS_REQUIRED, Engine, engine_or_skip

from chaoslab.fleet.docker import images  # isort: skip  # after the engine, which may skip all this
from chaoslab.fleet.docker.estate import remains, run_name  # isort: skip

pytestmark = [pytest.mark.slow, pytest.mark.docker]
ROOT = Path(__file__).parent.parent
PLAN = """
version: 1
name: containers
seed: 3
fleet: {kind: docker, links: LINKS}
training: {learners: 2, model: nano, stop: {rounds: 50}}
baseline: {warmup: 6 rounds, window: 12 rounds, max_variation: 300%}
control: none
limits: {min_alive: 1, max_affected: 100%, timeout: 4m}
faults:
  - {id: dies, fault: process.kill, target: {learners: [learner-1]}, at: {round: 24}, for: 3s}
expect:
  - {check: rejoin, within: 60s, contributions: 2}
  - {check: ledger, answer_within: 20s}
  - {check: agreement}
  - {check: versions}
  - {check: cleanup}
"""


@pytest.fixture
def engine() -> Engine:
    """One that has the images of this very source."""
    engine = engine_or_skip()
    if engine.image_id(images.node_image()) is None and not IS_REQUIRED:
        pytest.skip("the images of this source are missing: chaoslab images build")
    return engine


def start(plan: str, folder: Path, *more: str) -> "subprocess.Popen[str]":
    """`chaoslab run` with the verdict as JSON."""
    command = (sys.executable, "-m", "chaoslab", "run", plan, "--json", "--quiet")
    return subprocess.Popen(
        [*command, "--out", str(folder), *more], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def verdict_of(run: "subprocess.Popen[str]") -> Mapping[str, object]:
    told, _ = run.communicate(timeout=290)
    found = json.loads(told)
    assert isinstance(found, dict)
    return found


def nothing_is_left(engine: Engine, record: Path) -> bool:
    return not remains(engine, run_name(record))


@pytest.mark.parametrize("links", ["toxiproxy", "embedded"])
def test_a_learner_that_is_killed_in_a_container_rejoins(
    engine: Engine, tmp_path: Path, links: str
) -> None:
    plan = tmp_path / "containers.yaml"
    plan.write_text(PLAN.replace("LINKS", links))
    verdict = verdict_of(start(str(plan), tmp_path / "runs"))
    assert verdict["outcome"] == "PASS", verdict
    (record,) = (tmp_path / "runs" / "containers").glob("2*")
    assert nothing_is_left(engine, record)
    died = [
        event
        for event in History.read(record).of(Kind.ENGINE_REPORTED)
        if (event.data["action"], event.data["node"]) == ("die", "learner-1")
    ]
    assert died[0].data["exit_code"] == 137


def test_a_container_that_somebody_else_kills_is_named(engine: Engine, tmp_path: Path) -> None:
    plan = tmp_path / "containers.yaml"
    plan.write_text(PLAN.replace("LINKS", "none"))
    run = start(str(plan), tmp_path / "runs")
    record = wait_for_round(tmp_path / "runs" / "containers", 10)
    engine.kill(f"chaoslab-{run_name(record)}-learner-0.1", "SIGKILL")
    verdict = verdict_of(run)
    assert run.returncode in (ExitCode.FAIL, ExitCode.UNKNOWN)
    assert "learner-0" in json.dumps(verdict["findings"])
    assert nothing_is_left(engine, record)


def wait_for_round(folder: Path, number: int) -> Path:
    """The record of the run that begins there, once it has merged so many rounds."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for record in folder.glob("2*"):
            if (record / "journal.jsonl").exists():
                merged = History.read(record).of(Kind.ROUND_MERGED)
                if len(merged) >= number:
                    return record
        time.sleep(0.2)
    raise AssertionError(f"no round {number} in {folder}")


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("plan", ["kill_half", "wan_throttle", "slow_chip", "syncer_crash"])
def test_both_fleets_reach_the_same_verdict(engine: Engine, tmp_path: Path, plan: str) -> None:
    told = {}
    for fleet in ("local", "docker"):
        verdict = verdict_of(start(plan, tmp_path / fleet, "--fleet", fleet, "--no-control"))
        told[fleet] = (verdict["outcome"], judged(verdict, "findings", "check", "outcome"),
                       judged(verdict, "injections", "id", "status"))  # fmt: skip
    assert told["docker"] == told["local"]
    assert engine.url


def judged(verdict: Mapping[str, object], what: str, name: str, how: str) -> dict[str, str]:
    rows = verdict[what]
    assert isinstance(rows, list)
    return {row[name]: row[how] for row in rows}
