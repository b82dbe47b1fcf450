"""What an undo log waits for before it lets an action be done."""

import os
from pathlib import Path

import pytest

from chaoslab.undo.log import OBLIGATIONS, UndoLogFile


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each wait for the disk, with the number of lines that were written by then."""
    waits: list[int] = []

    def fsync(handle: int) -> None:
        waits.append(Path(f"/proc/self/fd/{handle}").read_text("utf-8").count("\n"))

    monkeypatch.setattr(os, "fsync", fsync)
    return waits


def test_what_ends_with_the_boot_is_written_without_waiting_for_the_disk(
    tmp_path: Path, synced: list[int]
) -> None:
    log = UndoLogFile(tmp_path)
    number = log.open("resume_process", node="learner-1", pid=1)
    log.close(number)
    assert (tmp_path / OBLIGATIONS).read_text("utf-8").count("\n") == 3
    assert synced == []


@pytest.mark.parametrize("do", ["unpause_container", "enable_proxy", "unheard_of"])
def test_what_outlives_the_boot_is_on_disk_before_it_is_done(
    tmp_path: Path, synced: list[int], do: str
) -> None:
    UndoLogFile(tmp_path).open(do, node="learner-1")
    assert synced == [2]
