"""Whatever happens to the harness, nothing of its run stays in the cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.fleet.kubernetes.resources import JOBS
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import own_name, run_name
from chaoslab.undo.base import NoUndoLog
from chaoslab.undo.log import open_undos
from tests.cluster import Cluster, need_job_sets, small_fleet
from tests.engine import learner
from tests.waiting import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]


def killed_when(word: str, run_directory: Path, *more: str) -> None:
    """A stand-in for the harness that is killed when it has said this word."""
    program = ("-m", "tests.fleet.kubernetes.killed_harness", str(run_directory), *more)
    command = (sys.executable, *program)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        said = iter(harness.stdout)
        assert any(line.strip() == word for line in said)
        harness.kill()


@pytest.mark.gate
def test_the_janitor_of_a_killed_harness_deletes_everything(tmp_path: Path, here: Cluster) -> None:
    killed_when("paused", tmp_path)
    wait_until(lambda: not open_undos(tmp_path))
    assert remains(here, run_name(tmp_path)) == ()


def test_the_janitor_deletes_the_job_set_before_it_makes_jobs_anew(
    tmp_path: Path, here: Cluster
) -> None:
    need_job_sets(here)
    killed_when("paused", tmp_path, "--job-set")
    wait_until(lambda: not open_undos(tmp_path))
    assert remains(here, run_name(tmp_path), has_job_sets=True) == ()


def test_a_run_that_is_renewed_outlives_its_lease_though_no_pod_finds_a_machine(
    tmp_path: Path, here: Cluster
) -> None:
    run, nowhere = run_name(tmp_path), {"nodeSelector": {"kubernetes.io/hostname": "none"}}
    context = Cluster.connect(here.context, here.namespace)
    with small_fleet(
        tmp_path, WallClock(), context, NoUndoLog(), lease_s=10.0, learners=nowhere, others=nowhere
    ) as fleet:
        fleet.start(learner("learner-0"))
        wait_until(lambda: here.get(JOBS, own_name(run))["spec"]["activeDeadlineSeconds"] > 20)
        assert len(remains(here, run)) > 1
        fleet._objects.abandon()  # as if this process were dead
        wait_until(lambda: not remains(here, run))


@pytest.mark.parametrize("is_job_set", [pytest.param(False, marks=pytest.mark.gate), True])
def test_without_harness_and_janitor_the_cluster_deletes_everything(
    tmp_path: Path, here: Cluster, is_job_set: bool
) -> None:
    if is_job_set:
        need_job_sets(here)
    run = run_name(tmp_path)
    context = Cluster.connect(here.context, here.namespace)
    fleet = small_fleet(
        tmp_path, WallClock(), context, NoUndoLog(), lease_s=5.0, replaces=is_job_set,
        in_job_sets=is_job_set,
    )  # fmt: skip
    fleet.__enter__()  # and never left
    fleet.start(learner("learner-0"))
    assert remains(here, run)
    fleet._objects._is_over.set()  # as if this process were dead: nobody renews it
    wait_until(lambda: not remains(here, run, has_job_sets=is_job_set))
    for life in fleet._lives.values():
        life.abandon()  # closes its files
    fleet._close_objects()
