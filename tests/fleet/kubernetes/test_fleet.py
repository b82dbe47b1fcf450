"""Nodes as Jobs of a real cluster: the contract, and what only a cluster can do, or do wrong."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.fleet.base import Damage, NodeSpec
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from chaoslab.fleet.stressors import MemoryLimit
from tests.cluster import Cluster, small_fleet
from tests.contracts.fleet_kit import LivingFleetKit, Stage, wait_until
from tests.engine import learner
from tests.fleet.local_stage import Remembered

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]


@pytest.fixture
def stage(tmp_path: Path, here: Cluster, undo_log: Remembered) -> Iterator[Stage]:
    clock = WallClock()
    with small_fleet(tmp_path, clock, here, undo_log) as fleet:
        yield Stage(fleet=fleet, clock=clock)


@pytest.fixture
def spec() -> NodeSpec:
    return learner("learner-0")


class TestKubernetesFleet(LivingFleetKit):
    """The kit, of which the gate takes the essentials."""

    @pytest.mark.gate
    def test_the_start_of_a_node_is_seen_first_and_then_what_it_reports(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        super().test_the_start_of_a_node_is_seen_first_and_then_what_it_reports(stage, spec)

    @pytest.mark.gate
    def test_a_node_hears_what_it_is_told(self, stage: Stage, spec: NodeSpec) -> None:
        super().test_a_node_hears_what_it_is_told(stage, spec)

    @pytest.mark.gate
    def test_each_life_finds_its_private_files_which_the_record_does_not_have(
        self, stage: Stage, spec: NodeSpec, tmp_path: Path
    ) -> None:
        test = super().test_each_life_finds_its_private_files_which_the_record_does_not_have
        test(stage, spec, tmp_path)

    @pytest.mark.gate
    def test_a_node_that_ends_by_itself_is_seen_to(self, stage: Stage, spec: NodeSpec) -> None:
        super().test_a_node_that_ends_by_itself_is_seen_to(stage, spec)

    @pytest.mark.gate
    def test_after_kill_restart_gives_the_next_life(self, stage: Stage, spec: NodeSpec) -> None:
        super().test_after_kill_restart_gives_the_next_life(stage, spec)

    @pytest.mark.gate
    def test_a_paused_node_is_stopped_until_it_is_resumed(
        self, stage: Stage, spec: NodeSpec
    ) -> None:
        super().test_a_paused_node_is_stopped_until_it_is_resumed(stage, spec)

    @pytest.mark.gate
    def test_a_wedged_node_lives_and_does_not_step(self, stage: Stage, spec: NodeSpec) -> None:
        super().test_a_wedged_node_lives_and_does_not_step(stage, spec)


def reported(stage: Stage, action: str) -> dict[str, object]:
    """The first report of an action, waited for."""
    while True:
        for one in stage.seen:
            if one.kind is Kind.ENGINE_REPORTED and one.data["action"] == action:
                return dict(one.data)
        stage.until(Kind.ENGINE_REPORTED)


# ---------------------------------------------------------------- kinds of death


@pytest.mark.gate
@pytest.mark.parametrize(("how", "is_seen", "action", "facts"), [
    ("kill", True, "die", {"exit_code": 137, "signal": "SIGKILL"}),
    ("delete_pod", False, "gone", {"incarnation": 1}),
    ("evict_pod", True, "evict", {"reason": "EvictionByEvictionAPI"}),
])  # fmt: skip
def test_each_death_is_told_by_the_exit_and_by_the_clusters_word(
    stage: Stage, spec: NodeSpec, how: str, *, is_seen: bool, action: str, facts: dict[str, object]
) -> None:
    stage.fleet.start(spec)
    stage.until(Kind.LEARNER_STEP)
    getattr(stage.fleet, how)(spec.name)
    assert stage.until(Kind.NODE_EXITED).data.get("is_seen", True) is is_seen
    assert facts.items() <= reported(stage, action).items()


def test_a_kill_shows_in_the_pod_before_the_cluster_knows(
    stage: Stage, spec: NodeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.fleet.start(spec)
    stage.until(Kind.LEARNER_STEP)
    with monkeypatch.context() as the_cluster_knows_nothing:
        the_cluster_knows_nothing.setattr(PodIncarnation, "has_exited", False)
        stage.fleet.kill(spec.name)
        assert stage.fleet.probe(spec.name).data["state"] == "gone"
    assert stage.fleet.probe(spec.name).data["state"] == "gone"
    assert stage.until(Kind.NODE_EXITED).data["signal"] == "SIGKILL"


def test_memory_that_is_given_back_in_time_kills_nobody(
    tmp_path: Path, here: Cluster, undo_log: Remembered, spec: NodeSpec
) -> None:
    clock = WallClock()
    with small_fleet(tmp_path, clock, here, undo_log, memory_bytes=4 << 30) as fleet:
        stage = Stage(fleet=fleet, clock=clock)
        fleet.start(spec)
        stage.until(Kind.LEARNER_STEP)
        fleet.stress(spec.name, "injection-0", MemoryLimit(limit_bytes=1, for_s=30.0))
        (entry,) = [n for n, one in enumerate(undo_log.opened) if one["do"] == "relieve_pod"]
        assert entry not in undo_log.closed
        fleet.relieve(spec.name, "injection-0")
        assert entry in undo_log.closed
        assert fleet.probe(spec.name).data["state"] != "gone"


# ---------------------------------------------------------------- where the cluster heals


@pytest.mark.gate
def test_the_cluster_brings_back_what_died_as_the_next_incarnation(
    tmp_path: Path, here: Cluster, undo_log: Remembered
) -> None:
    causes = {"learner-0": "kill", "learner-1": "delete_pod", "learner-2": "evict_pod"}
    clock = WallClock()
    with small_fleet(tmp_path, clock, here, undo_log, replaces=True) as fleet:
        stage = Stage(fleet=fleet, clock=clock)

        def have(kind: Kind, **facts: object) -> set[str]:
            return {
                one.source for one in stage.seen
                if one.kind is kind and facts.items() <= one.data.items()
            }  # fmt: skip

        def poll_until(kind: Kind, **facts: object) -> None:
            wait_until(lambda: stage.poll(0.1) is not None and have(kind, **facts) == set(causes))

        for name in causes:
            fleet.start(learner(name, "--stubborn"))
        poll_until(Kind.LEARNER_STEP, incarnation=1)
        for name, how in causes.items():
            getattr(fleet, how)(name)
        for name in causes:
            fleet.restart(name)  # which is left to the cluster
        poll_until(Kind.NODE_EXITED, incarnation=1)
        poll_until(Kind.NODE_STARTED, incarnation=2, started_by="cluster")
        poll_until(Kind.LEARNER_STEP, incarnation=2)
        for name in causes:
            assert fleet.restart(name).incarnation == 2, "and not started once more"


def test_what_left_in_order_is_not_the_clusters_to_start(
    tmp_path: Path, here: Cluster, undo_log: Remembered, spec: NodeSpec
) -> None:
    clock = WallClock()
    with small_fleet(tmp_path, clock, here, undo_log, replaces=True) as fleet:
        stage = Stage(fleet=fleet, clock=clock)
        fleet.start(spec)
        stage.until_step_of(1)
        fleet.signal(spec.name, signal="SIGTERM")
        assert stage.until(Kind.NODE_EXITED).data["exit_code"] == 0
        wait_until(lambda: fleet.restart(spec.name).is_alive)
        started = stage.until(Kind.NODE_STARTED)
        assert (started.data["incarnation"], started.data["started_by"]) == (2, "")
        stage.until_step_of(2)


# ---------------------------------------------------------------- what outlives a pod


@pytest.mark.gate
def test_what_a_node_keeps_is_there_for_its_next_incarnation_and_can_be_damaged(
    stage: Stage, spec: NodeSpec
) -> None:
    keeps = "import pathlib; p = pathlib.Path('state/x'); p.parent.mkdir(exist_ok=True); "
    write = f"{keeps}print(p.exists(), flush=True); p.write_text('a' * 100); "
    command = ("python3", "-c", f"{write}import time; time.sleep(600)")
    stage.fleet.start(replace(spec, command=command, keeps="state"))
    stage.until(Kind.NODE_STARTED)
    stage.fleet.kill(spec.name)
    stage.until(Kind.NODE_EXITED)
    stage.fleet.damage(spec.name, Damage.TRUNCATE)  # type: ignore[attr-defined]
    told = stage.until(Kind.STORAGE_DAMAGED)
    assert (told.data["bytes_before"], told.data["bytes_after"]) == (100, 50)


@pytest.mark.gate
def test_leaving_the_fleet_leaves_nothing(
    tmp_path: Path, here: Cluster, spec: NodeSpec, undo_log: Remembered
) -> None:
    with small_fleet(tmp_path, WallClock(), here, undo_log) as fleet:
        fleet.start(replace(spec, keeps="state", private_files={"key": b"k"}))
        assert any("job" in one for one in remains(here, run_name(tmp_path)))
    after = Cluster.connect(here.context, here.namespace)
    assert remains(after, run_name(tmp_path)) == ()
    after.close()
