"""Attached pods: found, broken from inside and by the cluster, let go on, and left as they were."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("lightkube")

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.attached import fleet as fleet_module
from chaoslab.fleet.attached import lease, pod_log, pod_program, pods, restoring_pods
from chaoslab.fleet.attached.pod_search import PodSearch, ask, found_of
from chaoslab.fleet.attached.pods import NamespaceFleet
from chaoslab.fleet.base import Damage
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.kubernetes import watch
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.settings import FleetRequest, Keeps, Reading
from chaoslab.trainers.reading import OWN_LINES
from chaoslab.undo.janitor import perform
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.fleet.attached.fake_namespace import FakeNamespace
from tests.waiting import wait_until

VICTIM = "learner-1"


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNamespace]:
    made = FakeNamespace(tmp_path)
    for module in (restoring_pods, lease):
        monkeypatch.setattr(module, "connect_again", lambda *_: _Kept(made))
    monkeypatch.setattr(restoring_pods, "_LATE_S", 0.0)
    monkeypatch.setattr(fleet_module, "_RETURN_S", 0.01)
    monkeypatch.setattr(restoring_pods, "_AGAIN_S", 0.01)
    for module, name in ((pod_log, "_AGAIN_S"), (pod_log, "_AWAY_S"), (watch, "_AGAIN_S")):
        monkeypatch.setattr(module, name, 0.01)
    monkeypatch.setattr(pod_program, "_TRIES", 12_000)  # for a busy machine
    monkeypatch.setattr(pod_program, "pids", lambda: made.processes)
    try:
        yield made
    finally:
        for life in [life for fleet in made.fleets for life in fleet._lives.values()]:
            if not life.is_over:
                life.detach()
        for fleet in made.fleets:
            fleet._lease._is_over.set()
            fleet._place.recipes.close()
        made.close()
        made.end()


class _Kept(FakeNamespace):
    """The same one, which whoever undoes may close."""

    def __init__(self, other: FakeNamespace) -> None:
        self.__dict__ = other.__dict__

    def close(self) -> None:
        """It stays open."""


def attached(
    day: FakeNamespace, folder: Path, run: str = "run", keeps: Path | None = None
) -> NamespaceFleet:
    """`keeps`: the folder of the victim's checkpoints."""
    reading = None
    if keeps is not None:
        kept = {VICTIM: Keeps(folder=str(keeps), names="*", is_filled=False)}
        reading = Reading(patterns=OWN_LINES, is_elsewhere=False, restarts="supervisor", keeps=kept)
    directory = folder / run
    directory.mkdir(mode=0o700)
    fleet = NamespaceFleet(
        Place(run_directory=directory, clock=WallClock(), undo_log=UndoLogFile(directory)),
        FleetRequest(reading=reading), cluster=cast("Cluster", _Kept(day)),
    )  # fmt: skip
    fleet.__enter__()
    day.fleets.append(fleet)
    fleet.adopt({})
    return fleet


@pytest.fixture
def fleet(day: FakeNamespace, tmp_path: Path) -> NamespaceFleet:
    """One that has taken the nodes up; `day` ends it."""
    return attached(day, tmp_path)


def leave(fleet: NamespaceFleet) -> None:
    fleet.__exit__(None, None, None)


def until(fleet: NamespaceFleet, *are_they: Callable[[Observation], bool]) -> list[Observation]:
    """The first observation of each kind that is asked for."""
    told: list[Observation] = []

    def is_all_told() -> bool:
        told.extend(fleet.poll(fleet._place.clock.now_s() + 0.1))
        return all(any(map(is_it, told)) for is_it in are_they)

    wait_until(is_all_told)
    return [next(filter(is_it, told)) for is_it in are_they]


def of(kind: Kind, node: str) -> Callable[[Observation], bool]:
    return lambda one: one.kind is kind and one.data.get("node", one.source) == node


def state(day: FakeNamespace, name: str) -> object:
    node = next(one for one in PodSearch(cast("Cluster", day)).look() if one.name == name)
    return ask(cast("Cluster", day), node, "show")["state"]


@pytest.mark.parametrize(("facts", "why"), [
    ({"pid": 1}, "shareProcessNamespace: true"),
    ({"owner": "", "is_started_again": False}, "restartPolicy: Never"),
])  # fmt: skip
def test_what_a_fault_could_not_break_or_nobody_would_start_again_is_refused(
    day: FakeNamespace, facts: dict[str, Any], why: str
) -> None:
    nodes = [replace(one, **facts) for one in PodSearch(cast("Cluster", day)).look()]
    with pytest.raises(AbilityError, match=why):
        found_of(nodes, "day")


def test_a_node_that_was_killed_is_taken_up_in_the_same_pod(
    day: FakeNamespace, fleet: NamespaceFleet, tmp_path: Path
) -> None:
    fleet.kill(VICTIM)
    exited, reported = until(fleet, of(Kind.NODE_EXITED, VICTIM), of(Kind.ENGINE_REPORTED, VICTIM))
    assert (exited.data["signal"], reported.source) == ("SIGKILL", "cluster")
    assert not fleet.restart(VICTIM).is_alive  # others start it
    day.restart_in_place(VICTIM)
    wait_until(lambda: fleet.restart(VICTIM).is_alive)
    until(fleet, of(Kind.LEARNER_JOINED, VICTIM))
    leave(fleet)
    assert not day.life(VICTIM).has_ended
    assert not open_undos(tmp_path / "run")


def test_a_kill_that_is_refused_is_no_death(
    day: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "ENDED_S", 0.0)
    fleet = attached(day, tmp_path)
    life = fleet._lives[VICTIM]
    day.refusals = [Refused("cannot exec: forbidden")]
    with pytest.raises(FleetError, match="forbidden"):
        life.signal_all("SIGKILL")
    assert not life.has_exited
    assert fleet.probe(VICTIM).data["state"] != "gone"
    leave(fleet)


def test_a_kill_by_which_the_command_itself_ended_is_a_death(
    day: FakeNamespace, fleet: NamespaceFleet
) -> None:
    life = fleet._lives[VICTIM]
    day.refusals = [FleetError("it broke off"), Refused("no such container runs")]
    life.signal_all("SIGKILL")
    wait_until(lambda: life.has_exited)


def test_the_end_is_seen_even_if_the_next_life_runs_already(
    day: FakeNamespace, fleet: NamespaceFleet
) -> None:
    day.is_away = True  # or the end would be seen before there is a next life
    day.life(VICTIM).process.terminate()
    day.life(VICTIM).process.wait(60)
    day.restart_in_place(VICTIM)
    day.is_away = False
    exited, started = until(
        fleet,
        of(Kind.NODE_EXITED, VICTIM),
        lambda one: of(Kind.NODE_STARTED, VICTIM)(one) and one.data["incarnation"] == 2,
    )
    assert (exited.data["signal"], exited.data["incarnation"]) == ("SIGTERM", 1)
    assert started.data["container"] == f"{VICTIM}-pod"


def test_a_pod_that_was_deleted_comes_back_as_another_one(
    day: FakeNamespace, fleet: NamespaceFleet
) -> None:
    fleet.delete_pod(VICTIM)
    (exited,) = until(fleet, of(Kind.NODE_EXITED, VICTIM))
    assert (exited.data["signal"], exited.data["is_seen"]) == ("SIGKILL", False)
    day.another_pod(VICTIM)
    wait_until(lambda: fleet.restart(VICTIM).is_alive)
    leave(fleet)
    assert not day.life(VICTIM).has_ended


def test_a_pod_that_was_replaced_meanwhile_is_not_evicted(
    day: FakeNamespace, fleet: NamespaceFleet
) -> None:
    life = fleet._lives[VICTIM]
    day.pods[VICTIM].uid, uid = "another", day.pods[VICTIM].uid
    with pytest.raises(FleetError, match="another"):
        life.evict()
    day.pods[VICTIM].uid = uid
    life.evict()
    until(fleet, of(Kind.NODE_EXITED, VICTIM))


def test_a_node_of_another_training_is_no_return(day: FakeNamespace, fleet: NamespaceFleet) -> None:
    fleet.kill(VICTIM)
    until(fleet, of(Kind.NODE_EXITED, VICTIM))
    other = next(one for one in fleet._search.look() if one.name == "learner-0")
    flags = {"--name": VICTIM, "--syncer": "other:4600"}
    foreign = replace(other, owner="StatefulSet other", command=replace(other.command, flags=flags))
    before = fleet._lives[VICTIM].node
    assert not foreign.replaces(before)
    assert replace(foreign, owner=before.owner).replaces(before)
    fleet._search._known[other.state.container] = foreign
    assert not fleet.restart(VICTIM).is_alive
    day.restart_in_place(VICTIM)
    wait_until(lambda: fleet.restart(VICTIM).is_alive)


def test_a_node_returns_although_another_pod_does_not_answer(
    day: FakeNamespace, fleet: NamespaceFleet
) -> None:
    fleet.kill(VICTIM)
    until(fleet, of(Kind.NODE_EXITED, VICTIM))
    day.restart_in_place(VICTIM)
    day.restart_in_place("learner-0")  # looked into before it, and anew
    day.refusals = [Refused("its machine is gone")]
    wait_until(lambda: fleet.restart(VICTIM).is_alive)
    assert not day.refusals


def test_nodes_of_one_container_cannot_be_told_apart(
    day: FakeNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [["python3", "-m", "chaoslab.diloco.learner", "--name", name] for name in ("a", "b")]
    both = json.dumps({"nodes": [{"pid": 7, "ticks": 1, "words": one} for one in words]})
    monkeypatch.setattr(day, "exec", lambda *_, **__: both)
    with pytest.raises(AbilityError, match=r"syncer-pod .*a, b"):
        PodSearch(cast("Cluster", day)).training()


def test_a_pod_of_which_nobody_makes_another_one_is_not_deleted(
    day: FakeNamespace, tmp_path: Path
) -> None:
    day.pods[VICTIM].owner = ""
    fleet = attached(day, tmp_path)
    with pytest.raises(FleetError, match=f"{VICTIM}-pod"):
        fleet.delete_pod(VICTIM)
    leave(fleet)
    assert not day.life(VICTIM).has_ended


def test_a_paused_node_goes_on_when_the_fleet_is_left(
    day: FakeNamespace, fleet: NamespaceFleet, tmp_path: Path
) -> None:
    fleet.pause(VICTIM)
    assert fleet.probe(VICTIM).data["state"] == "T"
    leave(fleet)
    assert state(day, VICTIM) != "T"
    assert not open_undos(tmp_path / "run")


def test_the_janitor_lets_go_and_gives_the_lease_back(
    day: FakeNamespace, fleet: NamespaceFleet, tmp_path: Path
) -> None:
    fleet.pause(VICTIM)
    fleet.wedge("learner-0")
    wait_until(lambda: any(b"hung" in line for line in day.life("learner-0").lines))
    healed = perform(tmp_path / "run")
    assert healed.remaining == ()
    assert state(day, VICTIM) != "T"
    wait_until(lambda: any(b"released" in line for line in day.life("learner-0").lines))
    assert day.lease is None
    resumed, given_back = (
        next(at for at, one in enumerate(healed.actions) if word in one)
        for word in ("resumed", "given back")
    )
    assert resumed < given_back  # or another run would find a node that is stopped


def test_a_paused_node_goes_on_although_its_pod_is_being_deleted(
    day: FakeNamespace, fleet: NamespaceFleet, tmp_path: Path
) -> None:
    fleet.pause(VICTIM)
    day.pods[VICTIM].deleted = "2026-01-01T00:00:00Z"
    healed = perform(tmp_path / "run")
    assert healed.remaining == ()
    assert any(f"{VICTIM}-pod), resumed" in one for one in healed.actions)
    day.pods[VICTIM].deleted = None
    assert state(day, VICTIM) != "T"


def test_a_node_that_is_stopped_only_after_its_harness_has_died_goes_on(
    day: FakeNamespace, fleet: NamespaceFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.pause(VICTIM)
    day.life(VICTIM).process.send_signal(signal.SIGCONT)
    wait_until(lambda: state(day, VICTIM) != "T")

    def stop_it(_: float) -> None:
        day.life(VICTIM).process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state(day, VICTIM) == "T")

    monkeypatch.setattr(restoring_pods, "time", SimpleNamespace(sleep=stop_it))
    (told,) = restoring_pods.restore(fleet._recipes[VICTIM])
    assert told.endswith("resumed")
    assert state(day, VICTIM) != "T"


def test_a_second_run_is_refused_wherever_it_is(
    day: FakeNamespace, fleet: NamespaceFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "other_machine"))
    with pytest.raises(FleetError, match=str(tmp_path / "run")):
        attached(day, tmp_path, "second")
    leave(fleet)
    assert day.lease is None
    leave(attached(day, tmp_path, "third"))


def test_a_lease_that_nobody_renews_is_taken(
    day: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_WATCHED_S", 0.0)
    attached(day, tmp_path)  # and never left
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "other_machine"))
    assert day.lease is not None
    day.lease["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
    leave(attached(day, tmp_path, "second"))
    assert day.lease is None


def test_a_run_that_lost_its_lease_ends(
    day: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEWALS", 6000)
    fleet = attached(day, tmp_path)
    assert day.lease is not None
    day.lease["spec"]["holderIdentity"] = "other 1@elsewhere /run"
    day.lease["metadata"]["resourceVersion"] = "of the other"
    with pytest.raises(FleetError, match=lease.NAME):
        until(fleet, lambda _: False)
    leave(fleet)
    assert day.lease is not None


def test_a_signal_meets_the_life_that_was_found_and_no_other(
    day: FakeNamespace, fleet: NamespaceFleet
) -> None:
    life = fleet._lives[VICTIM]
    day.life(VICTIM).process.kill()
    day.life(VICTIM).process.wait(30)
    day.restart_in_place(VICTIM)
    life.signal_all("SIGKILL")
    assert not day.life(VICTIM).has_ended


def test_the_state_of_a_node_is_that_of_its_process(
    day: FakeNamespace, fleet: NamespaceFleet
) -> None:
    seen = fleet.probe(VICTIM).data
    assert seen["state"] in ("R", "S", "D")
    assert int(str(seen["rss_bytes"])) > 1_000_000
    day.life(VICTIM).process.send_signal(signal.SIGKILL)
    until(fleet, of(Kind.NODE_EXITED, VICTIM))
    assert fleet.probe(VICTIM).data["state"] == "gone"


# ---------------------------------------------------------------- files


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The only checkpoint of the victim."""
    saved = tmp_path / "saved" / "step-7"
    saved.parent.mkdir()
    saved.write_bytes(bytes(1000))
    return saved


def test_a_checkpoint_is_damaged_while_its_worker_stands_and_then_it_is_killed(
    day: FakeNamespace, tmp_path: Path, saved: Path
) -> None:
    fleet = attached(day, tmp_path, keeps=saved.parent)
    fleet.take_down(VICTIM)
    assert state(day, VICTIM) == "T"
    fleet.damage(VICTIM, Damage.TRUNCATE)
    damaged, exited = until(
        fleet, lambda one: one.kind is Kind.STORAGE_DAMAGED, of(Kind.NODE_EXITED, VICTIM)
    )
    assert (damaged.data["file"], damaged.data["bytes_after"]) == ("step-7", 500)
    assert exited.data["signal"] == "SIGKILL"
    assert saved.stat().st_size == 500
    day.restart_in_place(VICTIM)
    wait_until(lambda: fleet.restart(VICTIM).is_alive)
    assert state(day, VICTIM) != "T"
    leave(fleet)
    assert saved.read_bytes() == bytes(1000)
    assert not open_undos(tmp_path / "run")


def test_a_worker_that_keeps_no_file_goes_on_and_is_not_killed(
    day: FakeNamespace, tmp_path: Path, saved: Path
) -> None:
    fleet = attached(day, tmp_path, keeps=saved.parent)
    saved.unlink()
    fleet.take_down(VICTIM, "learner-0")
    with pytest.raises(FleetError, match="no file"):
        fleet.damage(VICTIM, Damage.LOSE)
    assert "T" not in (state(day, VICTIM), state(day, "learner-0"))
    leave(fleet)
    assert not day.life(VICTIM).has_ended


def test_the_janitor_waits_for_a_pod_to_put_its_files_back(
    day: FakeNamespace, tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = attached(day, tmp_path, keeps=saved.parent)
    fleet.take_down(VICTIM)
    fleet.damage(VICTIM, Damage.LOSE)
    until(fleet, of(Kind.NODE_EXITED, VICTIM))

    def begins_meanwhile(_: float) -> None:
        if day.life(VICTIM).has_ended:
            day.restart_in_place(VICTIM)

    clock = SimpleNamespace(sleep=begins_meanwhile, monotonic=time.monotonic)
    monkeypatch.setattr(restoring_pods, "time", clock)
    healed = perform(tmp_path / "run")
    assert healed.remaining == ()
    assert f"{VICTIM}: step-7, put back" in healed.actions
    assert saved.read_bytes() == bytes(1000)
