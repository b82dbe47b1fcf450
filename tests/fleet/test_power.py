"""A disk whose power is cut loses what was not flushed, and nothing else."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.core.payloads import LostFile
from chaoslab.fleet.base import Ability, NodeSpec, Role
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.local import fleet
from chaoslab.fleet.storage import power, volume
from chaoslab.fleet.storage.files import UNDO_VOLUME, FilesHere, Storage
from chaoslab.undo.actions import leftovers, undo
from chaoslab.undo.log import UndoLogFile, open_undos

can_lose_power = pytest.mark.skipif(
    not volume.can_lose_power(), reason="this machine has no disk whose power can be cut"
)


def needs_power(test: Callable[..., None]) -> Callable[..., None]:
    """For a test that mounts loop devices, of which this machine has one set for all."""
    marked: Callable[..., None] = pytest.mark.gate(can_lose_power(test))
    return marked


def kept(run: Path) -> Path:
    return run / "nodes" / "learner-1" / "kept"


def mounted_under(folder: Path) -> list[str]:
    """Of the volumes on this machine; other tests may have theirs."""
    return [place for place in volume.mounted() if Path(place).is_relative_to(folder)]


def made(run: Path, *, loses_power: bool = True) -> Storage:
    spec = NodeSpec(
        name="learner-1",
        role=Role.LEARNER,
        command=("true",),
        keeps="kept",
        loses_power=loses_power,
    )
    place = Place(run_directory=run, clock=WallClock(), undo_log=UndoLogFile(run))
    return Storage(spec, FilesHere(spec, place))


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = made(tmp_path)
    yield storage
    storage.close()
    assert not mounted_under(tmp_path)
    assert open_undos(tmp_path) == ()


def write(path: Path, content: bytes, *, is_flushed: bool) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        if is_flushed:
            os.fsync(file.fileno())


@needs_power
def test_what_was_flushed_is_there_and_what_was_not_is_lost(
    storage: Storage, tmp_path: Path
) -> None:
    home = kept(tmp_path)
    write(home / "flushed", b"a" * 5000, is_flushed=True)
    write(home / "partial", b"c" * 100, is_flushed=True)
    assert storage.cut_power().payload.lost == ()
    (home / "partial").rename(home / "whole")
    write(home / "not-flushed", b"b" * 5000, is_flushed=False)
    told = storage.cut_power()
    assert (told.source, told.kind) == ("learner-1", Kind.STORAGE_POWER_LOST)
    assert (told.data["refused"], told.data["files"]) == ("Input/output error", 3)
    assert told.payload.lost == (
        LostFile(file="not-flushed", bytes_before=5000),
        LostFile(file="partial", bytes_after=100),
        LostFile(file="whole", bytes_before=100),
    )
    assert {path.name for path in home.iterdir()} == {"flushed", "partial"}
    assert (home / "flushed").read_bytes() == b"a" * 5000


@needs_power
def test_a_container_that_has_a_copy_of_the_mounts_as_it_starts_is_waited_for(
    storage: Storage, tmp_path: Path
) -> None:
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo in; read -r _"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as container:
        assert container.stdin is not None
        assert container.stdout is not None
        assert container.stdout.readline() == b"in\n"
        threading.Timer(0.2, container.stdin.close).start()
        power.cut(kept(tmp_path))
    (kept(tmp_path) / "later").write_text("it takes writes again")


@needs_power
def test_what_is_on_it_stays_behind_when_it_goes(storage: Storage, tmp_path: Path) -> None:
    write(kept(tmp_path) / "flushed", b"e" * 100, is_flushed=False)
    storage.close()
    assert (kept(tmp_path) / "flushed").read_bytes() == b"e" * 100
    assert [path.name for path in kept(tmp_path).parent.iterdir()] == ["kept"]


@needs_power
def test_a_disk_whose_harness_died_is_taken_away_from_its_books(
    storage: Storage, tmp_path: Path
) -> None:
    write(kept(tmp_path) / "flushed", b"f" * 100, is_flushed=False)
    (entry,) = open_undos(tmp_path)
    assert entry.do == UNDO_VOLUME
    assert leftovers(entry) == (f"the volume at {kept(tmp_path)}",)
    undo(entry)
    assert leftovers(entry) == ()
    assert (kept(tmp_path) / "flushed").read_bytes() == b"f" * 100


@needs_power
def test_a_file_that_somebody_has_open_keeps_the_disk_from_being_cut_off(
    storage: Storage, tmp_path: Path
) -> None:
    with (kept(tmp_path) / "open").open("wb"), pytest.raises(FleetError):
        storage.cut_power()


def test_a_node_that_was_not_started_for_it_cannot_lose_its_power(tmp_path: Path) -> None:
    with pytest.raises(FleetError):
        made(tmp_path, loses_power=False).cut_power()


def test_where_something_is_missing_the_fleet_does_not_claim_power_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(power.shutil, "which", lambda _name: None)
    assert power.why_not()
    assert Ability.CUT_POWER not in fleet.LocalFleet.abilities
