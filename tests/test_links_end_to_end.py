"""Real trainings over real links, broken on purpose; and links broken by somebody else."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from chaoslab.core.events import Kind
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.record.journal import History
from chaoslab.undo.log import open_undos

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


class Called:
    """`chaoslab run` as a process of its own."""

    def __init__(self, folder: Path, plan: str, *more: str) -> None:
        self.folder = folder
        command = (sys.executable, "-m", "chaoslab", "run", plan, "--json", "--quiet")
        self.process = subprocess.Popen(
            [*command, *more], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )  # fmt: skip

    @property
    def run(self) -> Path | None:
        """Its record, once there is one."""
        return next(iter(self.folder.glob("runs/*/2*")), None)

    def journal(self) -> History:
        """What was written so far."""
        assert self.run is not None
        return History.read(self.run) if (self.run / "journal.jsonl").exists() else History(())

    def until(self, kind: Kind, number: int) -> None:
        """Wait for so many events of a kind."""
        deadline = time.monotonic() + 120
        while self.run is None or len(self.journal().of(kind)) < number:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def end(self) -> tuple[int, dict[str, object]]:
        """Exit code and verdict."""
        out, error = self.process.communicate(timeout=400)
        found = json.loads(out or b"{}")
        assert isinstance(found, dict), error
        return self.process.returncode, found


def written(folder: Path, faults: str) -> str:
    """The file of a plan with these faults."""
    (folder / "over_links.yaml").write_text(PLAN.replace("FAULTS", faults))
    return "over_links.yaml"


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
    called = Called(folder, written(folder, FAR_AND_CUT), "--set", "fleet.links=toxiproxy")
    code, verdict = called.end()
    history = called.journal()
    assert [story.status for story in history.faults] == ["proved", "proved"], [
        event.payload.text for event in history.of(Kind.EVIDENCE_MEASURED)
    ]
    assert (code, verdict["outcome"]) == (0, "PASS"), verdict["findings"]
    assert len({node["incarnation"] for node in _starts(history)}) == 1


def _starts(history: History) -> list[dict[str, object]]:
    return [dict(event.data) for event in history.of(Kind.NODE_STARTED)]


def test_a_fault_on_a_link_that_carries_no_traffic_is_no_pass(folder: Path) -> None:
    called = Called(folder, written(folder, FROZEN_AND_FAR))
    code, verdict = called.end()
    statuses = [story.status for story in called.journal().faults]
    assert statuses == ["proved", "failed"]
    assert (code, verdict["outcome"]) == (3, "UNKNOWN")


def test_a_proxy_that_somebody_kills_is_noticed_and_nothing_is_left(folder: Path) -> None:
    called = Called(folder, written(folder, FAR_AND_CUT))
    called.until(Kind.ROUND_MERGED, 10)
    assert called.run is not None
    (proxy,) = [owed for owed in open_undos(called.run) if "proxy" in str(owed.facts.get("node"))]
    os.kill(int(str(proxy.facts["pid"])), signal.SIGKILL)
    code, verdict = called.end()
    lost = called.journal().last(Kind.LINK_LOST)
    assert lost is not None
    assert "SIGKILL" in lost.payload.reason
    assert (code, verdict["outcome"]) == (3, "UNKNOWN")
    assert not open_undos(called.run)


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
        (folder / name / "over_links.yaml").write_text(STAND_INS)
        called = Called(folder / name, "over_links.yaml", "--seed", "5")
        called.end()
        assert called.run is not None
        schedules.append((called.run / "schedule.jsonl").read_bytes())
        shaped.append(
            [
                {key: event.data[key] for key in ("link", "effect", "direction", "settings")}
                for event in called.journal().of(Kind.LINK_SHAPED)
            ]
        )
    assert schedules[0] == schedules[1]
    assert {one["effect"] for one in shaped[0]} == {"latency", "bandwidth"}
    assert shaped[0] == shaped[1]
