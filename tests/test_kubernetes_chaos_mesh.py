"""Links by the real Chaos Mesh in a real cluster: `docker/start_kubernetes.sh chaos-mesh`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.links.effects import Direction, Freeze, Latency
from chaoslab.links.netem.kernel import ask
from chaoslab.record.journal import History
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.cluster import CONTEXT, NAMESPACE, STATE, Cluster, cluster
from tests.contracts.fleet_kit import wait_until
from tests.whole_runs import ROOT, start, verdict_of, whole

from chaoslab.fleet.kubernetes.resources import NETWORK_CHAOS  # isort: skip  # after lightkube, see tests.cluster
from chaoslab.fleet.kubernetes.run_objects import remains  # isort: skip
from chaoslab.fleet.run_name import run_name  # isort: skip
from chaoslab.undo.actions import leftovers, undo  # isort: skip
from tests.fleet.kubernetes.meshed_pods import LEARNER, meshed  # isort: skip

pytestmark = [
    pytest.mark.deep, pytest.mark.kubernetes, pytest.mark.soak,
]  # fmt: skip
PLAN = f"""
version: 1
name: meshed
seed: 3
fleet: {{kind: kubernetes, context: {CONTEXT}, namespace: {NAMESPACE}, image_pull: Never,
  disk: 10MB, links: chaos-mesh}}
training: {{learners: 2, model: nano, suspect_after: 2s, drop_after: 5s, stop: {{rounds: 70}}}}
baseline: {{warmup: 6 rounds, window: 12 rounds, max_variation: 300%}}
control: none
limits: {{min_alive: 0, max_affected: 100%, timeout: 10m}}
faults:
  - {{id: split, fault: network.partition, target: {{learners: [learner-0]}},
     at: {{round: 24}}, for: 12s}}
expect:
  - {{check: rejoin, within: 60s, contributions: 2}}
  - {{check: ledger, answer_within: 30s}}
  - {{check: agreement}}
  - {{check: versions}}
  - {{check: cleanup}}
"""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The test cluster, with Chaos Mesh."""
    if not (STATE / "chaos-mesh").is_dir():
        why_not = "no Chaos Mesh in the test cluster: docker/start_kubernetes.sh chaos-mesh"
        if "chaos-mesh" in os.environ.get("CHAOSLAB_REQUIRE", ""):
            raise FleetError(why_not)
        pytest.skip(why_not)
    with cluster(monkeypatch) as found:
        yield found


def chaos_of(here: Cluster, run_directory: Path) -> list[str]:
    """NetworkChaos objects of a run."""
    listed = here.list(NETWORK_CHAOS, f"chaoslab/run={run_name(run_directory)}")[0]
    return [str(one["metadata"]["name"]) for one in listed]


# ---------------------------------------------------------------- a training


def test_a_partition_by_chaos_mesh_is_proved_by_the_nodes(here: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "meshed.yaml"
    plan.write_text(PLAN)
    verdict = verdict_of(start(str(plan), tmp_path / "runs"), limit_s=600)
    (record,) = (tmp_path / "runs" / "meshed").glob("2*")
    assert verdict["outcome"] == "PASS", whole(verdict)
    assert [story.status for story in History.read(record).faults] == ["proved"], whole(verdict)
    assert (chaos_of(here, record), remains(here, run_name(record))) == ([], ())
    assert not open_undos(record)


def test_what_chaos_mesh_says_it_has_done_is_no_evidence(here: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "meshed.yaml"
    plan.write_text(PLAN)
    command = (sys.executable, "-m", "tests.unmeshed_harness", "run", str(plan), "--json",
               "--quiet", "--out", str(tmp_path / "runs"))  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as run:
        verdict = verdict_of(run, limit_s=600)
    (record,) = (tmp_path / "runs" / "meshed").glob("2*")
    (story,) = History.read(record).faults
    assert (story.status, verdict["outcome"]) == ("failed", "UNKNOWN"), whole(verdict)
    assert chaos_of(here, record) == []


# ---------------------------------------------------------------- two pods


def test_a_link_is_cut_each_way_and_healed_by_this_and_by_another_process(
    here: Cluster, tmp_path: Path
) -> None:
    with UndoLogFile(tmp_path) as undo_log, meshed(tmp_path, undo_log) as pods:
        for way in Direction:
            pods.link.shape("injection-0", way, Freeze())
            assert pods.answers_s() is None
            assert not pods.links.troubles()
            assert len(chaos_of(here, tmp_path)) == len(way.ways)
            pods.link.clear("injection-0")
            assert pods.answers_s() is not None
        pods.link.shape("injection-1", Direction.BOTH, Freeze())
        owed = [one for one in open_undos(tmp_path) if one.do == "delete_network_chaos"]
        assert len(owed) == 2
        assert all(map(leftovers, owed))
        assert [undo(one).remaining for one in owed] == [(), ()]
        assert not any(map(leftovers, owed))
        assert pods.answers_s() is not None
        wait_until(lambda: bool(pods.links.troubles()))
    assert (chaos_of(here, tmp_path), remains(here, run_name(tmp_path))) == ([], ())
    assert not open_undos(tmp_path)


def test_a_delay_is_measured_or_refused_by_the_kernel_and_told(
    here: Cluster, tmp_path: Path
) -> None:
    with UndoLogFile(tmp_path) as undo_log, meshed(tmp_path, undo_log) as pods:
        if ask(("unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem"))[0] == 0:
            pods.link.shape("injection-0", Direction.BOTH, Latency(mean_s=0.2))
            assert 0.7 < (pods.answers_s() or 0.0) < 1.2, "a handshake, then an answer"
            pods.link.clear("injection-0")
            assert (pods.answers_s() or 1.0) < 0.2
        else:
            with pytest.raises(FleetError, match=r"not in force after 30 s.*unable to set tcs"):
                pods.link.shape("injection-0", Direction.UP, Latency(mean_s=0.2))
            assert pods.answers_s() is not None
    assert (chaos_of(here, tmp_path), remains(here, run_name(tmp_path))) == ([], ())
    assert not open_undos(tmp_path)


def test_a_pod_that_ends_while_its_link_is_cut_holds_up_no_heal(
    here: Cluster, tmp_path: Path
) -> None:
    with UndoLogFile(tmp_path) as undo_log, meshed(tmp_path, undo_log) as pods:
        pods.link.shape("injection-0", Direction.BOTH, Freeze())
        pods.fleet.kill(LEARNER)
        pods.link.clear("injection-0")
        assert chaos_of(here, tmp_path) == []
        pods.fleet.restart(LEARNER)
        wait_until(pods.is_up)
        assert pods.answers_s() is not None
        pods.link.shape("injection-1", Direction.BOTH, Freeze())  # and left so
        assert pods.answers_s() is None
    assert (chaos_of(here, tmp_path), remains(here, run_name(tmp_path))) == ([], ())
    assert not open_undos(tmp_path)


@pytest.mark.parametrize("alone", [(), ("--alone",)])
def test_the_janitor_of_a_killed_harness_takes_it_back_or_else_the_cluster(
    here: Cluster, tmp_path: Path, alone: tuple[str, ...]
) -> None:
    command = (sys.executable, "-m", "tests.fleet.kubernetes.meshed_pods", str(tmp_path), *alone)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as harness:
        assert harness.stdout is not None
        assert any(line == "cut\n" for line in harness.stdout)
        assert chaos_of(here, tmp_path)
        harness.kill()
    wait_until(lambda: bool(alone) or not open_undos(tmp_path))
    wait_until(lambda: not remains(here, run_name(tmp_path)))
    wait_until(lambda: not chaos_of(here, tmp_path))
