"""A volume is as full as it is asked to be, and leaves what was in it behind."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.fleet.storage import volume
from chaoslab.undo.actions import is_safe_during_run, leftovers, undo
from chaoslab.undo.verbs import UndoEntry

pytestmark = pytest.mark.skipif(not volume.can_mount(), reason="this machine may not mount")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "nodes" / "learner-1" / "with a blank"
    volume.mount(folder)
    yield folder
    volume.release(folder)


def undo_entry(do: str, folder: Path) -> UndoEntry:
    """As the book of RUN says it of the volume at RUN/nodes/learner-1/<folder>."""
    facts = {"node": "learner-1", "folder": str(folder)}
    return UndoEntry(number=0, do=do, facts=facts, directory=folder.parents[2])


@pytest.mark.gate
def test_a_volume_in_which_somebody_writes_is_full_all_the_same(folder: Path) -> None:
    """A file that is cut off and written again, over and over, as state on a disk is."""
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            with suppress(OSError), (folder / "slot").open("wb") as file:
                file.write(bytes(200_000))
            is_over.wait(0.001)

    (folder / "kept").write_bytes(bytes(5_000))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            assert volume.fill(folder).free_bytes == 0
            volume.free(folder)
    finally:
        is_over.set()
        writer.join()


def test_what_was_in_it_stays_when_it_is_gone(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "kept").write_text("state")
    assert volume.is_mounted(folder)
    with (folder / "open").open("wb"):
        volume.release(folder)
    volume.release(folder)
    assert not volume.is_mounted(folder)
    assert (folder / "below" / "kept").read_text() == "state"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_what_was_in_it_comes_back_even_if_whoever_took_it_away_was_killed_meanwhile(
    folder: Path,
) -> None:
    (folder / "kept").write_text("state")
    volume.release(folder)
    (folder / "kept").unlink()
    aside = folder.with_name(f".{folder.name}.kept")
    aside.mkdir()
    (aside / "kept").write_text("state")
    volume.release(folder)
    assert (folder / "kept").read_text() == "state"
    assert not aside.exists()


def test_a_full_disk_beneath_loses_what_was_in_it_and_nothing_else(tmp_path: Path) -> None:
    beneath = tmp_path / "disk"
    volume.mount(beneath)
    folder = beneath / "nodes" / "learner-1" / "volume"
    volume.mount(folder)
    (folder / "kept").write_bytes(bytes(100_000))
    (beneath / "more").write_bytes(bytes(10_000))
    volume.fill(beneath)
    entry = undo_entry("unmount", folder)
    assert not undo(entry).remaining
    assert not volume.is_mounted(folder)
    volume.release(beneath)
    assert not volume.is_mounted(beneath)


def test_a_full_volume_gets_room_again_from_its_obligation_alone(folder: Path) -> None:
    entry = undo_entry("free_volume", folder)
    (folder / "kept").write_bytes(bytes(10_000))
    assert leftovers(entry) == ()
    volume.fill(folder)
    assert is_safe_during_run(entry)
    assert str(folder) in leftovers(entry)[0]
    assert len(undo(entry).actions) == 1
    assert undo(entry).actions == leftovers(entry) == ()
    (folder / "new").write_bytes(bytes(10_000))


def test_what_is_no_volume_cannot_be_filled(tmp_path: Path) -> None:
    with pytest.raises(FleetError):
        volume.fill(tmp_path)
