"""What is done to a node's files is done on the disk, and told as it was measured there."""

import errno
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Kind
from chaoslab.fleet.base import Ability, Damage, NodeSpec, Role
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.local import fleet
from chaoslab.fleet.storage import disk, power, volume
from chaoslab.fleet.storage.files import FilesBeside, FilesHere, FilesOfOthers, Reach, Storage
from chaoslab.undo.base import NoUndoLog
from chaoslab.undo.log import UndoLogFile, open_undos

SPEC = NodeSpec(name="learner-1", role=Role.LEARNER, command=("true",), keeps="kept")


def storage(run_directory: Path, *, has_volume: bool = False) -> Storage:
    spec = replace(SPEC, has_volume=has_volume)
    place = Place(run_directory=run_directory, clock=WallClock(), undo_log=NoUndoLog())
    return Storage(spec, FilesHere(spec, place))


def kept(run_directory: Path) -> Path:
    return run_directory / "nodes" / "learner-1" / "kept"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files, oldest first, whose names do not tell their age; and one that is not whole."""
    made = [kept(tmp_path) / name for name in ("b", "c", "a", ".partial")]
    made[0].parent.mkdir(parents=True)
    for age, path in enumerate(made):
        path.write_bytes(bytes(1000))
        os.utime(path, (1000.0 + age, 1000.0 + age))
    return made[:3]


@pytest.mark.parametrize(
    ("how", "left"),
    [(Damage.CORRUPT, [1000]), (Damage.TRUNCATE, [500]), (Damage.LOSE, [])],
)
def test_the_newest_file_is_damaged_and_no_other(
    tmp_path: Path, files: list[Path], how: Damage, left: list[int]
) -> None:
    (told,) = storage(tmp_path).damage(how, every=False)
    *older, newest = files
    assert [path.read_bytes() for path in older] == [bytes(1000)] * 2
    assert [path.stat().st_size for path in [newest] if path.exists()] == left
    assert not left or newest.read_bytes() != bytes(1000)
    assert (told.source, told.kind) == ("learner-1", Kind.STORAGE_DAMAGED)
    assert (told.data["file"], told.data["how"]) == ("a", how.value)
    assert told.data["digest_before"] != told.data["digest_after"]
    assert told.payload.untouched == ("b", "c")
    assert (told.data["bytes_before"], told.data["bytes_after"]) == (
        1000,
        left[0] if left else None,
    )


def test_every_file_is_damaged_if_that_is_asked(tmp_path: Path, files: list[Path]) -> None:
    told = storage(tmp_path).damage(Damage.LOSE, every=True)
    assert [one.data["file"] for one in told] == ["b", "c", "a"]
    assert [one.payload.untouched for one in told] == [(), (), ()]
    assert not any(path.exists() for path in files)


def test_an_empty_file_is_corrupted_too(tmp_path: Path) -> None:
    kept(tmp_path).mkdir(parents=True)
    (kept(tmp_path) / "empty").touch()
    (told,) = storage(tmp_path).damage(Damage.CORRUPT, every=False)
    assert told.data["digest_before"] != told.data["digest_after"]


def test_a_node_without_files_and_volume_cannot_lose_them_or_run_out_of_room(
    tmp_path: Path,
) -> None:
    plain = storage(tmp_path)
    with pytest.raises(FleetError):
        plain.damage(Damage.LOSE, every=False)
    with pytest.raises(FleetError):
        plain.fill()
    assert plain.free() == []


@pytest.mark.skipif(not volume.can_mount(), reason="this machine may not mount")
def test_a_full_disk_is_told_as_the_kernel_sees_it(tmp_path: Path) -> None:
    full = storage(tmp_path, has_volume=True)
    try:
        (kept(tmp_path) / "a").write_bytes(bytes(50_000))
        filled = full.fill()
        assert (filled.kind, filled.data["free_bytes"]) == (Kind.STORAGE_FILLED, 0)
        with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
            (kept(tmp_path) / "b").write_bytes(bytes(5_000))
        (freed,) = full.free()
        assert freed.kind is Kind.STORAGE_FREED
        assert int(str(freed.data["free_bytes"])) > 50_000
    finally:
        full.close()
    assert (kept(tmp_path) / "a").stat().st_size == 50_000
    assert str(kept(tmp_path)) not in volume.mounted()


def test_where_nothing_may_be_mounted_the_fleet_does_not_claim_volumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet, "can_mount", lambda: True)
    with_volumes = fleet.LocalFleet.abilities
    monkeypatch.setattr(fleet, "can_mount", lambda: False)
    assert with_volumes - fleet.LocalFleet.abilities == {Ability.VOLUME}


# ---------------------------------------------------------------- by a program beside the node


def test_a_program_beside_the_node_damages_files_and_says_what_it_measured(
    tmp_path: Path, files: list[Path]
) -> None:
    def run(command: tuple[str, ...]) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    beside = Storage(SPEC, FilesBeside(SPEC, str(kept(tmp_path).parent), run))
    (told,) = beside.damage(Damage.TRUNCATE, every=False)
    assert (told.data["file"], told.data["bytes_after"]) == ("a", 500)
    assert [path.stat().st_size for path in files] == [1000, 1000, 500]


@pytest.mark.parametrize("said", ['{"refused": "no such folder"}', "Killed", ""])
def test_a_program_that_measured_nothing_is_an_error(said: str) -> None:
    beside = FilesBeside(SPEC, "/node", lambda _: said)
    with pytest.raises(FleetError, match=r"cannot damage .*learner-1"):
        beside.damage(Damage.LOSE, every=True)


def test_a_disk_that_only_a_program_reaches_has_no_volume_and_no_power_to_lose() -> None:
    beside = FilesBeside(SPEC, "/node", lambda _: "")
    for verb in (beside.give_volume, beside.fill, beside.free, beside.cut_power):
        with pytest.raises(FleetError, match=r"learner-1 cannot .*--fleet local"):
            verb()


# ---------------------------------------------------------------- what is found again as it was


@pytest.mark.parametrize("how", ["corrupt", "truncate", "lose"])
def test_what_was_damaged_is_put_back_as_it_was(
    tmp_path: Path, files: list[Path], how: str
) -> None:
    folder, newest = kept(tmp_path), files[-1]
    before = newest.stat()
    (told,) = disk.damage(folder, how, every=False, is_kept=True)
    assert told["digest_after"] != told["digest_before"]
    assert newest.exists() == (how != "lose")
    assert disk.kept(folder) == ["a"]
    assert disk.put_back(folder) == ["a"]
    after = newest.stat()
    assert newest.read_bytes() == bytes(1000)
    assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)
    assert sorted(one.name for one in folder.iterdir()) == [".partial", "a", "b", "c"]
    assert disk.put_back(folder) == []


@pytest.mark.parametrize("how", ["corrupt", "lose"])
def test_what_was_written_anew_since_stays(tmp_path: Path, files: list[Path], how: str) -> None:
    disk.damage(kept(tmp_path), how, every=False, is_kept=True)
    files[-1].write_bytes(b"newer")
    assert disk.put_back(kept(tmp_path)) == []
    assert files[-1].read_bytes() == b"newer"
    assert not (kept(tmp_path) / disk.KEPT).exists()


def test_a_damage_that_broke_off_is_undone(tmp_path: Path, files: list[Path]) -> None:
    folder = kept(tmp_path)
    disk.damage(folder, "truncate", every=False, is_kept=True)
    files[-1].unlink()  # as between the two renames
    half = folder / disk.KEPT / "2"
    half.mkdir()
    (half / "copy").write_bytes(b"x")  # as in the midst of a copy
    assert disk.put_back(folder) == ["a"]
    assert files[-1].read_bytes() == bytes(1000)


def test_a_checkpoint_that_is_a_folder_is_damaged_twice_and_put_back(tmp_path: Path) -> None:
    whole = tmp_path / "step-7" / "shards" / "0.bin"
    whole.parent.mkdir(parents=True)
    whole.write_bytes(bytes(100))
    for _ in range(2):
        disk.damage(tmp_path, "truncate", every=False, names="step-*", is_kept=True)
    assert whole.stat().st_size == 25
    told = disk.damage(tmp_path, "lose", every=True, names="**/*.bin", is_kept=True)
    assert [one["file"] for one in told] == ["step-7/shards/0.bin"]
    assert disk.put_back(tmp_path) == ["step-7/shards/0.bin", "step-7", "step-7"]
    assert whole.stat().st_size == 100


def alone(command: tuple[str, ...]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def of_others(folder: Path, run_directory: Path, *, has_volume: bool = False) -> FilesOfOthers:
    spec = replace(SPEC, keeps=str(folder), has_volume=has_volume)
    reach = Reach(
        run=alone, put_back=lambda: disk.put_back(folder), undo_facts=lambda: {"node": spec.name}
    )
    return FilesOfOthers(spec, reach, UndoLogFile(run_directory))


def test_files_of_others_are_damaged_after_their_undo_is_written_down(
    tmp_path: Path, files: list[Path]
) -> None:
    others = of_others(kept(tmp_path), tmp_path)
    assert not others.is_touched
    (told,) = others.damage(Damage.LOSE, every=False)
    assert told["file"] == "a"
    assert [one.do for one in open_undos(tmp_path)] == ["put_files_back"]
    others.put_back()
    assert files[-1].exists()
    assert not open_undos(tmp_path)


def test_files_that_cannot_be_reached_and_volumes_that_others_use_are_refused_before_a_fault(
    tmp_path: Path,
) -> None:
    with pytest.raises(AbilityError, match="nowhere"):
        of_others(tmp_path / "nowhere", tmp_path)
    with pytest.raises(AbilityError, match="part of a volume"):
        of_others(Path("/proc/self"), tmp_path, has_volume=True)


@pytest.mark.skipif(not volume.can_mount(), reason="this machine may not mount")
def test_a_volume_of_others_is_full_of_a_file_and_keeps_its_size(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    disk.mount(folder, disk.NO_SUID | disk.NO_DEVICES, "size=1m,mode=0700")
    try:
        (folder / "a").write_bytes(bytes(50_000))
        before = disk.measure(folder)
        full = of_others(folder, tmp_path, has_volume=True)
        assert full.fill().free_bytes == 0
        with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
            (folder / "b").write_bytes(bytes(5_000))
        (folder / "b").unlink(missing_ok=True)
        assert full.free() == before
        full.fill()
        full.put_back()
        assert disk.measure(folder) == before
        assert [one.name for one in folder.iterdir()] == ["a"]
    finally:
        power.unmount(folder, 2)
