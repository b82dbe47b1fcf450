"""Checkpoints by the file that is written last."""

import os
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import LineKind
from chaoslab.fleet.storage import disk
from chaoslab.plan.model import Script
from chaoslab.trainers.saved_files import SavedFiles


def write(path: Path, written_s: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("state")
    os.utime(path, (written_s, written_s))


def test_one_is_saved_once_its_last_file_is_there_and_each_time_that_it_is_written(
    tmp_path: Path,
) -> None:
    write(tmp_path / "out/checkpoint-5/trainer_state.json", 1)
    found = SavedFiles(tmp_path, "**/checkpoint-*/trainer_state.json")
    assert found.read() == []
    write(tmp_path / "out/checkpoint-20/weights.bin", 2)
    assert found.read() == []
    write(tmp_path / "out/checkpoint-20/trainer_state.json", 3)
    write(tmp_path / "out/checkpoint-10/trainer_state.json", 2)
    assert [(one.what, one.step) for one in found.read()] == [
        (LineKind.SAVED, 10),
        (LineKind.SAVED, 20),
    ]
    write(tmp_path / "out/checkpoint-20/trainer_state.json", 4)
    assert [one.step for one in found.read()] == [20]
    assert found.read() == []


def test_a_folder_that_is_removed_while_it_is_looked_for_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def removing(path: Path | str) -> "os.ScandirIterator[str]":
        if Path(path).name == "checkpoint-10":
            (tmp_path / "checkpoint-10").rmdir()
        return scandir(path)

    found = SavedFiles(tmp_path, "**/checkpoint-*/state.json")
    (tmp_path / "checkpoint-10").mkdir()
    write(tmp_path / "checkpoint-20/state.json", 1)
    monkeypatch.setattr(os, "scandir", removing)
    assert [one.step for one in found.read(20)] == [20]


@pytest.mark.parametrize(
    ("path", "at", "step"),
    [
        ("ep0-ba200-rank0.pt", 210, 200),
        ("ep0-ba200-rank0.pt", 0, 200),  # nothing was reported yet
        ("epoch=9-step=200-v1.ckpt", 205, 200),
        ("iter_0000200/mp_rank_00/model.pt", 200, 200),
        ("global_step200/mp_rank_03.pt", 400, 200),
        ("20261130-20/state.json", 20, 20),
        ("epoch_3.pt", 300, None),
        ("last-v1.ckpt", 210, None),
    ],
)
def test_the_step_of_a_checkpoint_is_the_number_that_is_near_that_of_the_worker(
    path: str, at: int, step: int | None, tmp_path: Path
) -> None:
    """And neither a rank, an epoch nor a date."""
    found = SavedFiles(tmp_path, "**/*.*")
    write(tmp_path / path, 1)
    assert [one.step for one in found.read(at)] == [step]


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [
        ("checkpoint-*/trainer_state.json", "checkpoint-*"),
        ("**/step=*.ckpt", "**/step=*.ckpt"),
        ("rank{rank}-*/done", "rank1-*"),
        ("", "*"),
    ],
)
def test_what_is_damaged_is_a_checkpoint_as_a_whole(pattern: str, whole: str) -> None:
    assert Script(command="train", checkpoints=pattern).damageable(1) == whole


@pytest.mark.parametrize("pattern", ["/tmp/*", "../*", "last.pt"])
def test_a_pattern_stays_in_the_folder_of_the_run(pattern: str) -> None:
    with pytest.raises(PlanError, match="checkpoints"):
        Script(command="train", checkpoints=pattern)


def test_the_largest_file_of_the_newest_folder_is_damaged_and_all_of_it_is_lost(
    tmp_path: Path,
) -> None:
    for step in (10, 20):
        write(tmp_path / f"checkpoint-{step}/state.json", step)
        write(tmp_path / f"checkpoint-{step}/weights.bin", step)
        (tmp_path / f"checkpoint-{step}/weights.bin").write_bytes(bytes(100))
        os.utime(tmp_path / f"checkpoint-{step}/weights.bin", (step, step))
    (said,) = disk.damage(tmp_path, "truncate", every=False, names="checkpoint-*")
    assert (said["file"], said["bytes_before"], said["bytes_after"]) == ("checkpoint-20", 105, 55)
    assert (tmp_path / "checkpoint-20/weights.bin").stat().st_size == 50
    (lost, _) = disk.damage(tmp_path, "lose", every=True, names="checkpoint-*")
    assert (lost["file"], lost["bytes_after"]) == ("checkpoint-10", None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["corrupt", "truncate", "lose"])
def test_one_that_is_damaged_was_not_saved_again(tmp_path: Path, how: str) -> None:
    write(tmp_path / "step-10.json", 1)
    found = SavedFiles(tmp_path, "step-*.json")
    (damaged,) = disk.damage(tmp_path, how, every=False)
    assert damaged["digest_before"] != damaged["digest_after"]
    assert found.read() == []
