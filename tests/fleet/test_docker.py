"""Nodes as containers: the contract, and what only containers can do, or do wrong."""

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import chaoslab
from chaoslab.cli.commands.doctor import examine
from chaoslab.core.clock import WallClock
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.docker.settings import ContainerFleets, Containers
from chaoslab.fleet.docker.undo_facts import RunResourcesFacts
from chaoslab.fleet.nodes.arrivals import Arrival
from chaoslab.fleet.run_name import run_name
from chaoslab.fleet.stressors import Slowness
from chaoslab.undo import leftovers as residue
from chaoslab.undo.actions import leftovers
from chaoslab.undo.base import NoUndoLog
from chaoslab.undo.janitor import heal
from chaoslab.undo.log import UndoLogFile, open_undos
from chaoslab.undo.verbs import State
from tests.contracts.fleet_kit import LivingFleetKit, Stage, wait_until
from tests.engine import LIMITS, Engine, base_here, engine_or_skip, learner, small_fleet
from tests.fleet.local_stage import Remembered
from tests.payload_reading import observed

from chaoslab.fleet.docker import cleanup  # isort: skip  # after the engine
from chaoslab.fleet.docker.engine_events import ENGINE  # isort: skip  # after the engine
from chaoslab.fleet.docker.fleet import DockerFleet  # isort: skip  # after the engine
from chaoslab.fleet.docker.images import images  # isort: skip  # after the engine
from chaoslab.fleet.docker.engine import labels  # isort: skip  # after the engine
from chaoslab.fleet.docker.engine.engine import CPU_PERIOD_US, ContainerSpec  # isort: skip
from chaoslab.fleet.docker.run_resources import RunResources, remains  # isort: skip
from chaoslab.fleet.docker.images.image_check import why_unfit  # isort: skip

pytestmark = [pytest.mark.deep, pytest.mark.docker]


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = engine_or_skip()
    yield engine
    engine.close()


@pytest.fixture
def stage(tmp_path: Path, engine: Engine, undo_log: Remembered) -> Iterator[Stage]:
    clock = WallClock()
    with small_fleet(tmp_path, clock, engine, undo_log) as fleet:
        yield Stage(fleet=fleet, clock=clock)


@pytest.fixture
def spec() -> NodeSpec:
    return learner("learner-0")


@pytest.mark.gate
class TestDockerFleet(LivingFleetKit):
    """The kit."""


# ---------------------------------------------------------------- the engine's own word


def told(stage: Stage, action: str) -> list[dict[str, object]]:
    """What the engine reported of an action so far."""
    seen = [one for one in stage.seen if one.kind is Kind.ENGINE_REPORTED]
    return [dict(one.data) for one in seen if one.data["action"] == action]


def heard(stage: Stage, action: str) -> dict[str, object]:
    """The first report of an action, waited for."""

    def is_told() -> bool:
        stage.poll(0.2)
        return bool(told(stage, action))

    wait_until(is_told)
    return told(stage, action)[0]


def test_want_of_memory_that_the_engine_tells_only_after_the_end_counts(
    stage: Stage, spec: NodeSpec
) -> None:
    fleet = stage.fleet
    assert isinstance(fleet, DockerFleet)
    fleet.start(spec)
    fleet.kill(spec.name)
    died = heard(stage, "die")
    life = fleet._lives[spec.name]
    wait_until(lambda: bool(stage.poll(0.2)) or life.is_over)
    assert not life.was_out_of_memory
    late = observed(Kind.ENGINE_REPORTED, {**died, "action": "oom"}, source=ENGINE)
    fleet._run_context.arrivals.put(Arrival(observe=lambda: (late,)))
    stage.poll(0.2)
    assert life.was_out_of_memory


def _unknown() -> Sequence[Observation]:
    raise FleetError("the engine has ended its report")


@pytest.mark.parametrize("arrival", [
    Arrival(error=FleetError("the engine has ended its report")), Arrival(observe=_unknown),
], ids=["left", "read"])  # fmt: skip
def test_what_breaks_elsewhere_while_a_node_is_restarted_is_told_by_the_next_poll(
    arrival: Arrival, stage: Stage, spec: NodeSpec
) -> None:
    fleet = stage.fleet
    assert isinstance(fleet, DockerFleet)
    fleet.start(spec)
    stage.until(Kind.NODE_STARTED)
    fleet.kill(spec.name)
    fleet._run_context.arrivals.put(arrival)
    assert fleet.restart(spec.name).incarnation == 2
    stage.poll(0.0)  # as in the midst of a heal
    with pytest.raises(FleetError, match="has ended its report"):
        stage.until(Kind.SYNCER_FINAL)  # which nobody says
    stage.until_step_of(2)


def test_containers_that_others_kill_or_remove_are_seen_to_end(
    stage: Stage, spec: NodeSpec, engine: Engine
) -> None:
    stage.fleet.start(spec)
    engine.kill(str(stage.until(Kind.NODE_STARTED).data["container"]), "SIGKILL")
    exited = stage.until(Kind.NODE_EXITED)
    assert (exited.data["signal"], exited.data["out_of_memory"]) == ("SIGKILL", False)
    died = heard(stage, "die")
    assert (died["node"], died["incarnation"], died["exit_code"]) == ("learner-0", 1, 137)
    assert stage.fleet.restart(spec.name).incarnation == 2
    engine.remove(str(stage.until(Kind.NODE_STARTED).data["container"]))
    stage.until(Kind.NODE_EXITED)
    assert stage.fleet.restart(spec.name).incarnation == 3


@pytest.mark.gate
def test_a_node_that_is_unplugged_lives_on_and_is_plugged_in_again(
    stage: Stage, spec: NodeSpec, engine: Engine, undo_log: Remembered
) -> None:
    stage.fleet.start(spec)
    name = str(stage.until(Kind.NODE_STARTED).data["container"])
    for _ in range(2):
        stage.fleet.disconnect(spec.name)
        assert not engine.inspect(name).address
    assert heard(stage, "disconnect")["node"] == spec.name
    stage.until(Kind.LEARNER_STEP)
    for _ in range(2):
        stage.fleet.reconnect(spec.name)
        assert engine.inspect(name).address
    numbers = [number for number, one in enumerate(undo_log.opened) if one["do"] == labels.PLUG]
    assert numbers == undo_log.closed


def test_the_next_life_runs_the_release_that_was_asked_for(
    stage: Stage, spec: NodeSpec, engine: Engine
) -> None:
    image = base_here(engine)
    engine._client.api.tag(image, *f"{image}-other".rsplit(":", 1))
    stage.fleet.start(spec)
    with pytest.raises(FleetError, match="no-such-thing"):
        stage.fleet.upgrade(spec.name, "chaoslab-node:no-such-thing")
    stage.fleet.upgrade(spec.name, "other")
    stage.fleet.kill(spec.name)
    stage.fleet.restart(spec.name)
    stage.until(Kind.LEARNER_STEP)
    started = [one.data["image"] for one in stage.seen if one.kind is Kind.NODE_STARTED]
    assert started == [image, f"{image}-other"]


def test_a_life_that_could_not_begin_keeps_no_later_one_from_beginning(
    stage: Stage, spec: NodeSpec, engine: Engine
) -> None:
    engine._client.api.tag(base_here(engine), "chaoslab-fleeting", "1")
    stage.fleet.start(spec)
    stage.fleet.upgrade(spec.name, "chaoslab-fleeting:1")
    engine._client.api.remove_image("chaoslab-fleeting:1")
    stage.fleet.kill(spec.name)
    for _ in range(2):
        with pytest.raises(FleetError, match="o such image"):
            stage.fleet.restart(spec.name)
    engine._client.api.tag(base_here(engine), "chaoslab-fleeting", "1")
    assert stage.fleet.restart(spec.name).incarnation == 2
    stage.until(Kind.LEARNER_STEP)
    engine._client.api.remove_image("chaoslab-fleeting:1", force=True)


def quota_us(engine: Engine, container: str) -> int:
    """Of every period, by the engine's word."""
    return int(engine._client.api.inspect_container(container)["HostConfig"]["CpuQuota"])


def test_a_slow_node_has_its_limits_back_when_it_is_relieved(
    stage: Stage, engine: Engine, undo_log: Remembered
) -> None:
    stage.fleet.start(learner("learner-0", "--spew"))

    def is_slowed() -> bool:
        stage.poll(0.2)
        try:
            stage.fleet.stress("learner-0", "injection-0", Slowness(factor=2))
        except FleetError:  # nobody knows yet what it uses
            return False
        return True

    wait_until(is_slowed)
    stage.until(Kind.NODE_STRESSED)
    started = next(one for one in stage.seen if one.kind is Kind.NODE_STARTED)
    container = str(started.data["container"])
    before_us = quota_us(engine, container)
    stage.fleet.relieve("learner-0", "injection-0")
    stage.until(Kind.NODE_RELIEVED)
    assert before_us < quota_us(engine, container) == round(LIMITS.cpus * CPU_PERIOD_US)
    numbers = [number for number, one in enumerate(undo_log.opened) if one["do"] == labels.UNLIMIT]
    assert set(numbers) <= set(undo_log.closed)


# ---------------------------------------------------------------- output and files


def test_each_life_leaves_its_files_and_finds_what_the_last_one_kept(
    stage: Stage, tmp_path: Path
) -> None:
    words = ("sh", "-c", "cat {directory}/kept; echo {incarnation} >{directory}/kept; echo so >&2")
    stage.fleet.start(replace(learner("learner-0"), command=words))
    stage.until(Kind.NODE_EXITED)
    stage.fleet.restart("learner-0")
    stage.until(Kind.NODE_EXITED)
    home = tmp_path / "nodes" / "learner-0"
    assert (home / "2" / "stdout.log").read_text() == "1\n"
    for incarnation in ("1", "2"):
        files = {path.name for path in (home / incarnation).iterdir()}
        assert files == {"stdout.log", "stderr.log", "command.json", "exit.json"}
        assert "so" in (home / incarnation / "stderr.log").read_text()


def test_an_end_that_cannot_be_written_down_is_told_all_the_same(
    stage: Stage, spec: NodeSpec, tmp_path: Path
) -> None:
    stage.fleet.start(spec)
    stage.until(Kind.LEARNER_STEP)
    shutil.rmtree(tmp_path / "nodes" / spec.name)
    stage.fleet.kill(spec.name)
    assert stage.until(Kind.NODE_EXITED).data["signal"] == "SIGKILL"


# ---------------------------------------------------------------- cleanup


@pytest.mark.gate
def test_a_harness_that_is_killed_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-m", "tests.fleet.docker_harness", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert harness.stdout is not None
    assert harness.stdout.readline() == "ready\n"
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    harness.stdout.close()
    wait_until(lambda: not remains(engine, run_name(tmp_path)))
    wait_until(lambda: not open_undos(tmp_path))


@pytest.mark.gate
def test_what_is_left_is_healed_from_the_run_directory_alone(
    engine: Engine, tmp_path: Path, spec: NodeSpec
) -> None:
    with UndoLogFile(tmp_path) as undo_log:
        fleet = small_fleet(tmp_path, WallClock(), Engine.connect(), undo_log)
        fleet.__enter__()
        fleet.start(spec)
        fleet.pause(spec.name)
    entries = open_undos(tmp_path)
    assert {one.do for one in entries} == {labels.EMPTY_RUN_RESOURCES, labels.UNPAUSE}
    assert any(spec.name in text for one in entries for text in leftovers(one))
    done = heal(tmp_path)
    assert not done.remaining
    assert done.actions
    assert not heal(tmp_path).actions
    assert not remains(engine, run_name(tmp_path))
    fleet.__exit__(None, None, None)  # whoever comes back to life finds nothing, and says nothing


def test_what_an_engine_still_makes_when_nobody_waits_for_it_goes_too(
    engine: Engine, tmp_path: Path
) -> None:
    run_resources = RunResources(engine=engine, run_directory=tmp_path, undo_log=NoUndoLog())
    unlabelled = f"{run_resources.network}-learner-0"  # as an engine makes one that it finds gone
    created = ContainerSpec(
        name=run_resources.container("learner-0", 1), image=base_here(engine), command=("true",),
        limits=LIMITS, network="none", labels=run_resources.labels, volumes={unlabelled: "/state"},
    )  # fmt: skip
    late = threading.Timer(0.6, engine.create, [created])
    late.start()
    facts = RunResourcesFacts(directory=tmp_path, engine=engine.url, run=run_resources.run)
    done = cleanup.undo(labels.EMPTY_RUN_RESOURCES, facts)
    late.join()
    assert set(done) == {f"container {created.name}, removed", f"volume {unlabelled}, removed"}
    assert not remains(engine, run_resources.run)
    assert unlabelled not in engine.volumes({})


def test_what_no_harness_answers_for_is_named_with_its_remedy(
    engine: Engine, tmp_path: Path
) -> None:
    run_resources = RunResources(
        engine=engine, run_directory=tmp_path / "gone", undo_log=NoUndoLog()
    )
    run_resources.open()
    (found,) = (one for one in residue.find(tmp_path) if run_resources.run in one.what)
    assert run_resources.network in found.remedy
    run_resources.close()
    assert not [one for one in residue.find(tmp_path) if run_resources.run in one.what]


def test_an_engine_that_is_gone_leaves_its_entries_open(tmp_path: Path) -> None:
    with UndoLogFile(tmp_path) as undo_log:
        undo_log.open(
            labels.EMPTY_RUN_RESOURCES,
            engine=f"unix://{tmp_path}/nobody.sock",
            run=run_name(tmp_path),
        )
    assert len(heal(tmp_path).remaining) == 1
    assert open_undos(tmp_path)


def test_an_engine_without_our_images_is_told_how_to_come_by_them(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaoslab, "__version__", "0.0.0")  # of which nobody built any
    (found,) = (one for one in examine(tmp_path).abilities if one.name == "docker")
    assert found.state is State.LIMITED
    assert images.source().image in found.detail
    assert found.remedy == "chaoslab doctor images build"


def test_an_image_is_asked_whether_it_has_what_nodes_run(engine: Engine) -> None:
    assert why_unfit(engine, base_here(engine), ("json", "unittest.mock")) == ""
    assert "no.such" in why_unfit(engine, base_here(engine), ("no.such", "json"))
    assert "python3" in why_unfit(engine, images.proxy_image(), ("json",))
    wait_until(lambda: not [name for name in engine.names({}) if name.startswith("chaoslab-trial")])


@pytest.mark.parametrize("image", ["nobody/has-this:1", "No:Such:Name"])
def test_an_image_of_ones_own_that_is_not_there_is_refused(engine: Engine, image: str) -> None:
    fleets = ContainerFleets(containers=Containers(image=image), data="")
    with pytest.raises(AbilityError, match=image):
        _ = fleets.abilities
    fleets = ContainerFleets(
        containers=Containers(image=base_here(engine)), data="", modules=("no.such",)
    )
    with pytest.raises(AbilityError, match=r"no\.such"):
        _ = fleets.abilities
