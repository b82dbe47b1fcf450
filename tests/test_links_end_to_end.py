"""Real trainings over real links, broken on purpose; and links broken by somebody else."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from chaoslab.core.events import Kind
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.record.journal import History
from chaoslab.undo.log import open_undos
from tests.whole_runs import await_round, start, verdict_of, whole

pytestmark = [pytest.mark.deep, pytest.mark.alone]
PLAN = """
version: 1
name: over_links
training: {learners: 2, stop: {rounds: 110}}
baseline: {warmup: 6 rounds, window: 16 rounds, max_variation: 100%}
limits: {min_alive: 0}
faults:
FAULTS
expect:
  - {check: rejoin, within: 30s}
  - {check: ledger}
  - {check: agreement}
  - {check: cleanup}
"""
FAR_AND_CUT = """
  - {id: far, fault: network.latency, mean: 200ms, target: {learners: [learner-1]},
     at: {round: 30}, for: 6s}
  - {id: cut, fault: network.refuse, target: {learners: [learner-0]}, at: {after: far}, for: 4s}
"""
FROZEN_AND_FAR = """
  - {id: frozen, fault: network.freeze, target: {learners: [learner-1]}, at: {round: 30}, for: 8s}
  - {id: far, fault: network.latency, mean: 200ms, target: {learners: [learner-1]},
     at: {round: 34}, for: 4s}
"""


def begin(folder: Path, plan: str, *more: str) -> "subprocess.Popen[str]":
    """`chaoslab run` of this plan in a process of its own."""
    file = folder / "over_links.yaml"
    file.write_text(plan)
    return start(str(file), folder / "runs", *more)


def ended(run: "subprocess.Popen[str]", folder: Path) -> tuple[int, Mapping[str, object], History]:
    """Exit code, verdict and record."""
    verdict = verdict_of(run)
    return run.returncode, verdict, History.read((folder / "runs" / "latest").resolve())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place to run in; whatever is left of it afterwards is a failure."""
    yield tmp_path
    marked = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(NODE_MARK, "").startswith(str(tmp_path)):
                marked.append(process)
                process.kill()
        except psutil.Error:
            continue
    assert not marked


@pytest.mark.toxiproxy
def test_faults_on_links_are_felt_at_both_ends_and_healed(folder: Path) -> None:
    run = begin(folder, PLAN.replace("FAULTS", FAR_AND_CUT), "--set", "fleet.links=toxiproxy")
    code, verdict, history = ended(run, folder)
    assert [story.status for story in history.faults] == ["proved", "proved"], whole(verdict)
    assert (code, verdict["outcome"]) == (0, "PASS"), whole(verdict)
    assert {event.payload.incarnation for event in history.of(Kind.NODE_STARTED)} == {1}


def test_a_fault_on_a_link_that_carries_no_traffic_is_no_pass(folder: Path) -> None:
    run = begin(folder, PLAN.replace("FAULTS", FROZEN_AND_FAR))
    code, verdict, history = ended(run, folder)
    assert [story.status for story in history.faults] == ["proved", "failed"]
    assert (code, verdict["outcome"]) == (3, "UNKNOWN")


def test_a_proxy_that_somebody_kills_is_noticed_and_nothing_is_left(folder: Path) -> None:
    run = begin(folder, PLAN.replace("FAULTS", FAR_AND_CUT))
    record = await_round(folder / "runs", 10)
    (proxy,) = [owed for owed in open_undos(record) if "proxy" in str(owed.facts.get("node"))]
    os.kill(int(str(proxy.facts["pid"])), signal.SIGKILL)
    code, verdict, history = ended(run, folder)
    lost = history.last(Kind.LINK_LOST)
    assert lost is not None
    assert "SIGKILL" in lost.payload.reason
    assert (code, verdict["outcome"]) == (3, "UNKNOWN")
    assert not open_undos(record)


STAND_INS = """
version: 1
name: over_links
fleet: {programs: {syncer: tests.harness.little_syncer, learner: tests.harness.little_learner}}
training: {learners: 2, fragments: 1, stop: {time: 3s}}
baseline: {warmup: 2 rounds, window: 6 rounds, max_variation: 300%}
settle: 3s
limits: {min_alive: 0, max_affected: 100%, timeout: 2m}
faults:
  - {id: far, fault: network.latency, mean: 10ms, jitter: 5ms, distribution: pareto,
     target: {learners: 1}, at: {round: 10}, for: 1s}
  - {id: thin, fault: network.bandwidth, rate: 100kB/s, target: {learners: 1}, at: {after: far},
     for: 500ms}
expect:
  - {check: continuity, max_gap: 20s}
"""


def test_the_same_seed_gives_the_same_schedule_and_the_same_links(folder: Path) -> None:
    shaped, schedules = [], []
    for name in ("one", "two"):
        (folder / name).mkdir()
        *_, history = ended(begin(folder / name, STAND_INS, "--seed", "5"), folder / name)
        record = (folder / name / "runs" / "latest").resolve()
        schedules.append((record / "schedule.jsonl").read_bytes())
        shaped.append(
            [
                {key: event.data[key] for key in ("link", "effect", "direction", "settings")}
                for event in history.of(Kind.LINK_SHAPED)
            ]
        )
    assert schedules[0] == schedules[1]
    assert {one["effect"] for one in shaped[0]} == {"latency", "bandwidth"}
    assert shaped[0] == shaped[1]
