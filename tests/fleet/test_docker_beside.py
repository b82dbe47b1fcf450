"""What is done beside a node in a container: to its files, to their volume, to its machine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.fleet.base import Damage, NodeSpec
from chaoslab.fleet.run_name import run_name
from chaoslab.fleet.stressors import Neighbours, OccupiedMemory, Stressor
from chaoslab.undo.actions import is_safe_during_run, leftovers, undo
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.contracts.fleet_kit import Stage, wait_until
from tests.engine import Engine, engine_or_skip, learner, small_fleet

from chaoslab.fleet.docker.engine import labels as verbs  # isort: skip  # after the engine, which may skip all this


pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.docker]

MIB = 1 << 20
WRITER = """
cd {directory}; mkdir -p state; cat state/older && echo found; echo older >state/older; sleep 0.02
bytes=100000
while sleep 0.02; do
  bytes=$((bytes + 4096))
  if head -c $bytes /dev/zero >state/.part 2>/dev/null; then mv state/.part state/new; echo room
  else rm state/.part; echo full; fi
done
"""
"""A node that keeps two files, and says for each time that it replaces one by a larger one whether
it could."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = engine_or_skip()
    yield engine
    engine.close()


@pytest.fixture
def stage(tmp_path: Path, engine: Engine) -> Iterator[Stage]:
    clock = WallClock()
    with UndoLogFile(tmp_path) as log, small_fleet(tmp_path, clock, engine, log) as fleet:
        yield Stage(fleet=fleet, clock=clock)


@pytest.fixture
def writer() -> NodeSpec:
    return replace(learner("learner-0"), command=("sh", "-c", WRITER), keeps="state")


def says(stage: Stage, tmp_path: Path, word: str, *, life: int = 1) -> None:
    """Wait until the node says this once more."""
    log = tmp_path / "nodes" / "learner-0" / str(life) / "stdout.log"
    before = log.read_text().count(word)

    def has_said() -> bool:
        stage.poll(0.1)
        return log.read_text().count(word) > before

    wait_until(has_said)


def beside(engine: Engine, run_directory: Path) -> set[str]:
    """Containers of the run that are no life of a node."""
    found = engine.names({verbs.LABEL_RUN: run_name(run_directory)})
    return {name for name, labels in found.items() if "chaoslab.node" not in labels}


# ---------------------------------------------------------------- files


def test_the_newest_file_of_a_dead_node_is_damaged_on_its_volume_and_its_next_life_finds_it(
    stage: Stage, writer: NodeSpec, engine: Engine, tmp_path: Path
) -> None:
    stage.fleet.start(writer)
    says(stage, tmp_path, "room")
    stage.fleet.kill(writer.name)
    stage.fleet.damage(writer.name, Damage.CORRUPT)
    told = stage.until(Kind.STORAGE_DAMAGED)
    assert (told.source, told.data["file"], told.data["how"]) == ("learner-0", "new", "corrupt")
    assert told.data["digest_before"] != told.data["digest_after"]
    assert told.data["bytes_before"] == told.data["bytes_after"]
    stage.fleet.damage(writer.name, Damage.TRUNCATE, every=True)
    stage.until(Kind.STORAGE_DAMAGED)
    cut = [one.data for one in stage.seen if one.kind is Kind.STORAGE_DAMAGED][1:]
    assert [(one["file"], one["bytes_after"]) for one in cut[:1]] == [("older", 3)]
    assert not beside(engine, tmp_path)
    stage.fleet.restart(writer.name)
    says(stage, tmp_path, "room", life=2)
    log = tmp_path / "nodes" / "learner-0" / "2" / "stdout.log"
    assert log.read_text().startswith("oldfound")


# ---------------------------------------------------------------- volumes


@pytest.mark.gate
def test_a_full_volume_refuses_writes_until_it_has_room_again_and_survives_its_node(
    stage: Stage, writer: NodeSpec, tmp_path: Path
) -> None:
    stage.fleet.start(replace(writer, has_volume=True))
    says(stage, tmp_path, "room")
    stage.fleet.fill_disk(writer.name)
    assert stage.until(Kind.STORAGE_FILLED).data["free_bytes"] == 0
    stage.fleet.kill(writer.name)
    stage.fleet.restart(writer.name)
    says(stage, tmp_path, "full", life=2)
    log = tmp_path / "nodes" / "learner-0" / "2" / "stdout.log"
    assert "found" in log.read_text()
    stage.fleet.free_disk(writer.name)
    freed = stage.until(Kind.STORAGE_FREED)
    assert int(str(freed.data["free_bytes"])) > MIB
    says(stage, tmp_path, "room", life=2)
    assert {one.do for one in open_undos(tmp_path)} == {verbs.EMPTY_RUN_RESOURCES}


def test_a_full_volume_gets_room_again_from_its_obligation_alone(
    stage: Stage, writer: NodeSpec, engine: Engine, tmp_path: Path
) -> None:
    stage.fleet.start(replace(writer, has_volume=True))
    stage.fleet.fill_disk(writer.name)
    says(stage, tmp_path, "full")
    entry = next(one for one in open_undos(tmp_path) if one.do == verbs.FREE_VOLUME)
    assert is_safe_during_run(entry)
    gone = replace(entry, facts={**entry.facts, "image": "chaoslab-node:removed-meanwhile"})
    assert "removed-meanwhile" in undo(gone).remaining[0]
    assert len(leftovers(entry)) == len(undo(entry).actions) == 1
    says(stage, tmp_path, "room")
    assert beside(engine, tmp_path) == {f"chaoslab-{run_name(tmp_path)}-learner-0.volume"}


# ---------------------------------------------------------------- neighbours


def counted(stage: Stage, name: str) -> dict[str, object]:
    """What its burdens measure now; empty before they do."""
    stage.fleet.probe(name)
    stage.poll(0.2)
    found = [one.data for one in stage.seen if one.kind is Kind.NODE_COUNTED]
    return dict(found[-1]) if found else {}


@pytest.mark.parametrize(
    ("stressor", "shown"),
    [
        (Neighbours(count=2, for_s=60), {"cpu_s": 0.2}),
        (OccupiedMemory(size_bytes=64 * MIB), {"rss_bytes": 64 * MIB, "available_bytes": MIB}),
    ],
)
def test_a_burden_beside_a_node_shows_and_is_taken_away(
    stage: Stage, engine: Engine, tmp_path: Path, stressor: Stressor, shown: dict[str, float]
) -> None:
    stage.fleet.start(learner("learner-0"))
    whole = OccupiedMemory(size_bytes=int(str(engine.facts()["MemTotal"])))
    with pytest.raises(FleetError):
        stage.fleet.stress("learner-0", "injection-0", whole)
    stage.fleet.relieve("learner-0", "injection-0")
    assert not beside(engine, tmp_path)
    stage.fleet.stress("learner-0", "injection-0", stressor)
    stage.until(Kind.NODE_STRESSED)
    for key, least in shown.items():
        wait_until(
            lambda key=key, least=least: (
                float(str(counted(stage, "learner-0").get(key, 0))) >= least
            )
        )
    (name,) = beside(engine, tmp_path)
    assert name.endswith("learner-0.injection-0")
    stage.fleet.relieve("learner-0", "injection-0")
    stage.until(Kind.NODE_RELIEVED)
    assert not beside(engine, tmp_path)


def test_neighbours_that_somebody_else_removes_are_said_to_have_let_go(
    stage: Stage, engine: Engine, tmp_path: Path
) -> None:
    stage.fleet.start(learner("learner-0"))
    stage.fleet.stress("learner-0", "injection-0", Neighbours(count=1))
    (name,) = beside(engine, tmp_path)
    engine.remove(name)
    assert stage.until(Kind.NODE_RELIEVED).data["because"]
