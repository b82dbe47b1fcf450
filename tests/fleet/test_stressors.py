"""Burdens on real processes: that they bite, that they let go, and that they leave nothing."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.base import Ability, NodeSpec, Role
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.local.neighbours import Beside, refuse_more_memory_than_there_is
from chaoslab.fleet.stress.registry import Wish
from chaoslab.fleet.stressors import Mechanism, MemoryLimit, Neighbours, OccupiedMemory, Slowness
from chaoslab.undo.actions import undo
from chaoslab.undo.verbs import UndoEntry
from tests.contracts.fleet_kit import Stage, staged, wait_until
from tests.fleet.local_stage import Remembered

pytestmark = [pytest.mark.deep, pytest.mark.alone]

BUSY = "while True: sum(range(1000))"
MEMORY_BYTES = 48 << 20
needs_quota = pytest.mark.skipif(
    Ability.QUOTA not in LocalFleet.abilities, reason="no CPU cgroup can be made here"
)
needs_limit = pytest.mark.skipif(
    Ability.MEMORY_LIMIT not in LocalFleet.abilities, reason="no memory cgroup can be made here"
)


@pytest.fixture
def stage(tmp_path: Path, undo_log: Remembered) -> Iterator[Stage]:
    node = NodeSpec(name="n", role=Role.LEARNER, command=(sys.executable, "-c", BUSY))
    with staged(LocalFleet, tmp_path, undo_log) as stage:
        stage.fleet.start(node)
        yield stage


@pytest.fixture
def calm(stage: Stage) -> Stage:
    """The same, once it is known what the node uses while nothing is upon it."""
    until_s = stage.clock.now_s() + 1.8
    while stage.clock.now_s() < until_s:
        stage.poll(0.5)
    return stage


def put(
    stage: Stage, stressor: Slowness | Neighbours | OccupiedMemory | MemoryLimit
) -> Observation:
    """Burden the node; what was reported of that."""
    stage.fleet.stress("n", "injection-0", stressor)
    return stage.until(Kind.NODE_STRESSED)


def counted(stage: Stage) -> Observation:
    stage.fleet.probe("n")
    return stage.until(Kind.NODE_COUNTED)


def processes(count: int = 0) -> list[psutil.Process]:
    """Of this very process; so many are waited for, since each first has to become one."""

    def found() -> list[psutil.Process]:
        return [one for one in psutil.Process().children() if "stress_program.py" in words(one)]

    wait_until(lambda: len(found()) >= count)
    return found()


def words(process: psutil.Process) -> str:
    """Its command line; none of a process that ended, whether or not it was waited for."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


@needs_quota
def test_the_folder_of_a_harness_that_died_before_its_cgroup_was_made_is_removed() -> None:
    home = cgroups.where(Controller.CPU)
    assert home is not None
    ours = home.parent / "chaoslab"
    ours.mkdir(exist_ok=True)
    assert not cgroups.remove(ours / "never-made", home.back)
    assert not ours.exists() or any(place.is_dir() for place in ours.iterdir())


@needs_quota
def test_a_quota_keeps_a_node_from_the_cores_and_is_gone_afterwards(
    calm: Stage, undo_log: Remembered
) -> None:
    put(calm, Slowness(factor=4, mechanism=Mechanism.CGROUP))
    wait_until(lambda: float(str(counted(calm).data["throttled_s"])) > 0.1)
    (entry,) = [one for one in undo_log.opened if one["do"] == cgroups.UNDO_CGROUP]
    calm.fleet.relieve("n", "injection-0")
    assert not Path(str(entry["path"])).exists()
    assert undo_log.opened.index(entry) in undo_log.closed


@needs_quota
def test_the_janitor_s_undo_removes_a_cgroup_with_the_node_still_in_it(
    calm: Stage, undo_log: Remembered, tmp_path: Path
) -> None:
    put(calm, Slowness(factor=2, mechanism=Mechanism.CGROUP))
    facts = next(one for one in undo_log.opened if one["do"] == cgroups.UNDO_CGROUP)
    do = cgroups.UNDO_CGROUP
    entry = UndoEntry(number=0, do=do, facts=facts, directory=tmp_path)  # type: ignore[arg-type]
    assert len(undo(entry).actions) == 1
    assert undo(entry).actions == ()
    assert calm.until(Kind.NODE_RELIEVED).data["because"]
    calm.fleet.relieve("n", "injection-0")


@pytest.mark.gate
def test_a_duty_cycle_stops_a_node_again_and_again_and_lets_it_go_on(calm: Stage) -> None:
    put(calm, Slowness(factor=4, mechanism=Mechanism.DUTY_CYCLE))
    pid = int(str(calm.fleet.probe("n").data["pid"]))
    node = psutil.Process(pid)
    wait_until(lambda: node.status() == psutil.STATUS_STOPPED)
    wait_until(lambda: node.status() != psutil.STATUS_STOPPED)
    calm.fleet.relieve("n", "injection-0")
    assert node.status() != psutil.STATUS_STOPPED
    assert not processes()


def test_who_kills_the_stress_process_of_a_duty_cycle_leaves_a_node_that_healing_lets_go_on(
    calm: Stage,
) -> None:
    put(calm, Slowness(factor=20, mechanism=Mechanism.DUTY_CYCLE))
    node = psutil.Process(int(str(calm.fleet.probe("n").data["pid"])))
    wait_until(lambda: node.status() == psutil.STATUS_STOPPED)
    for process in processes(1):
        process.kill()
    assert calm.until(Kind.NODE_RELIEVED).data["because"] != ""
    calm.fleet.relieve("n", "injection-0")
    wait_until(lambda: node.status() != psutil.STATUS_STOPPED)


def test_a_duty_cycle_ends_by_itself_when_nobody_heals_it(calm: Stage) -> None:
    put(calm, Slowness(factor=4, mechanism=Mechanism.DUTY_CYCLE, for_s=0.1))
    assert calm.until(Kind.NODE_RELIEVED).data["because"] != ""


def test_another_strength_is_no_second_burden(calm: Stage, undo_log: Remembered) -> None:
    put(calm, Slowness(factor=2, mechanism=Mechanism.DUTY_CYCLE))
    opened = len(undo_log.opened)
    put(calm, Slowness(factor=5, mechanism=Mechanism.DUTY_CYCLE))
    assert len(undo_log.opened) == opened
    assert len(processes(1)) == 1


@pytest.mark.parametrize(
    ("stressor", "shown", "least"),
    [
        (Neighbours(count=2), "cpu_s", 0.2),
        (OccupiedMemory(size_bytes=MEMORY_BYTES), "rss_bytes", MEMORY_BYTES),
    ],
)
def test_a_burden_beside_a_node_shows_and_is_gone_afterwards(
    stage: Stage, stressor: Neighbours | OccupiedMemory, shown: str, least: float
) -> None:
    with pytest.raises(FleetError):
        put(stage, OccupiedMemory(size_bytes=psutil.virtual_memory().total))
    stage.fleet.relieve("n", "injection-0")
    put(stage, stressor)
    wait_until(lambda: float(str(counted(stage).data[shown])) > least)
    if isinstance(stressor, OccupiedMemory):
        (process,) = processes(1)
        first_to_die = Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip()
        assert first_to_die == "1000"
    stage.fleet.relieve("n", "injection-0")
    assert not processes()


def test_memory_that_is_promised_to_one_is_not_promised_to_another() -> None:
    """Several targets are burdened at once: none of them has taken anything by then."""
    available = min(psutil.virtual_memory().available, cgroups.memory_left_bytes())
    refuse_more_memory_than_there_is(int(0.3 * available), available)
    with pytest.raises(FleetError):
        refuse_more_memory_than_there_is(int(0.3 * available), available, int(0.6 * available))


def test_what_a_burden_has_not_taken_yet_is_promised(stage: Stage) -> None:
    life = cast("LocalFleet", stage.fleet)._lives["n"]
    stressor = OccupiedMemory(size_bytes=MEMORY_BYTES)
    wish = Wish(life=life, injection="injection-0", stressor=stressor, calm_cores=1.0, others=())
    beside = Beside(wish, stressor)
    assert replace(wish, others=(beside,)).promised_bytes == MEMORY_BYTES
    beside.begin()
    try:
        wait_until(lambda: beside.promised_bytes == 0)
    finally:
        beside.end()


@needs_limit
def test_the_kernel_kills_a_node_whose_limit_is_used_up(stage: Stage, undo_log: Remembered) -> None:
    put(stage, MemoryLimit(limit_bytes=MEMORY_BYTES))
    assert stage.until(Kind.NODE_EXITED).data["signal"] == "SIGKILL"
    assert int(str(counted(stage).data["oom_kills"])) >= 1
    stage.fleet.relieve("n", "injection-0")
    (entry,) = [one for one in undo_log.opened if one["do"] == cgroups.UNDO_CGROUP]
    assert not Path(str(entry["path"])).exists()
    assert not processes()


@pytest.mark.gate
def test_leaving_the_fleet_takes_every_burden_away(tmp_path: Path, undo_log: Remembered) -> None:
    clock = WallClock()
    with LocalFleet(tmp_path, clock, undo_log=undo_log) as fleet:
        fleet.start(NodeSpec(name="n", role=Role.LEARNER, command=(sys.executable, "-c", BUSY)))
        fleet.stress("n", "injection-0", Neighbours(count=1))
        assert len(processes(1)) == 1
    assert not processes()
    assert sorted(undo_log.closed) == list(range(len(undo_log.opened)))
