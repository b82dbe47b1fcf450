"""Nodes in JobSets of a real cluster: each is started again alone, whatever ended it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.fleet.kubernetes.fleet import KubernetesFleet
from chaoslab.fleet.kubernetes.resources import JOB_SETS, JOBS
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from chaoslab.undo.base import NoUndoLog
from tests.cluster import Cluster, need_job_sets, small_fleet
from tests.contracts.fleet_kit import Stage, wait_until
from tests.engine import learner

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]
DEEDS = {"learner-0": "kill", "learner-1": "delete_pod", "learner-2": "delete_job"}
OTHER = "learner-3"


@pytest.fixture
def stage(tmp_path: Path, here: Cluster) -> Iterator[Stage]:
    """Four nodes in one JobSet, which step."""
    need_job_sets(here)
    clock = WallClock()
    with small_fleet(tmp_path, clock, here, NoUndoLog(), replaces=True, in_job_sets=True) as fleet:
        found = Stage(fleet=fleet, clock=clock)
        with fleet.start_together() as address:
            assert address == "0.0.0.0:4600"
            for name in (*DEEDS, OTHER):
                fleet.start(learner(name, "--stubborn"))
        poll_until(found, {*DEEDS, OTHER}, Kind.LEARNER_STEP, incarnation=1)
        yield found


def who(stage: Stage, kind: Kind, **facts: object) -> set[str]:
    return {
        str(one.data.get("node") or one.source) for one in stage.seen
        if one.kind is kind and facts.items() <= one.data.items()
    }  # fmt: skip


def poll_until(stage: Stage, names: set[str], kind: Kind, **facts: object) -> None:
    wait_until(lambda: stage.poll(0.1) is not None and who(stage, kind, **facts) == names)


@pytest.mark.gate
def test_each_that_died_is_started_again_and_no_other(stage: Stage) -> None:
    fleet = stage.fleet
    assert isinstance(fleet, KubernetesFleet)
    (made,) = fleet._cluster.list(JOB_SETS, f"chaoslab/run={fleet._objects.run}")[0]
    assert len(made["spec"]["replicatedJobs"]) == 4  # type: ignore[index,call-overload,arg-type]
    for name, how in DEEDS.items():
        getattr(fleet, how)(name)
    poll_until(stage, set(DEEDS), Kind.NODE_EXITED)
    poll_until(stage, set(DEEDS), Kind.NODE_STARTED, incarnation=2, started_by="cluster")
    poll_until(stage, set(DEEDS), Kind.LEARNER_STEP, incarnation=2)
    counted = set(DEEDS) - {"learner-2"}  # a Job that somebody deletes is made anew, uncounted
    assert who(stage, Kind.ENGINE_REPORTED, action="job_restart", restarts=1) == counted
    assert OTHER not in who(stage, Kind.ENGINE_REPORTED, action="job_gone")
    for name in DEEDS:
        assert fleet.restart(name).incarnation == 2, "and not started once more"


def test_one_that_left_in_order_is_started_once_chaoslab_asks(
    tmp_path: Path, here: Cluster
) -> None:
    need_job_sets(here)
    clock = WallClock()
    with small_fleet(tmp_path, clock, here, NoUndoLog(), replaces=True, in_job_sets=True) as fleet:
        stage = Stage(fleet=fleet, clock=clock)
        with fleet.start_together():
            for name in ("learner-0", "learner-1"):
                fleet.start(learner(name))
        fleet.start(learner("learner-2"))  # later: in a JobSet of its own
        poll_until(stage, {f"learner-{n}" for n in range(3)}, Kind.LEARNER_STEP, incarnation=1)
        fleet.signal("learner-0", signal="SIGTERM")
        poll_until(stage, {"learner-0"}, Kind.NODE_EXITED, exit_code=0)

        def is_back() -> bool:
            stage.poll(0.2)
            return fleet.restart("learner-0").is_alive

        wait_until(is_back)
        poll_until(stage, {"learner-0"}, Kind.NODE_STARTED, incarnation=2)
        assert who(stage, Kind.NODE_STARTED, started_by="cluster") == set()
        run = run_name(tmp_path)
        assert len(here.list(JOB_SETS, f"chaoslab/run={run}")[0]) == 2
        assert len(here.list(JOBS, f"chaoslab/run={run},chaoslab/node")[0]) == 3
    after = Cluster.connect(here.context, here.namespace)
    assert remains(after, run, has_job_sets=True) == ()
    after.close()
