"""What an undo log waits for before it lets an action be done."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaoslab.core.process_identity import Identity, boot_id, identify
from chaoslab.undo import harness
from chaoslab.undo.harness import is_of_others
from chaoslab.undo.log import UNDO_LOG, UndoLogFile, open_undos
from chaoslab.undo.verbs import UndoEntry


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
    assert (tmp_path / UNDO_LOG).read_text("utf-8").count("\n") == 3
    assert synced == []


@pytest.mark.parametrize("do", ["unpause_container", "enable_proxy", "unheard_of"])
def test_what_outlives_the_boot_is_on_disk_before_it_is_done(
    tmp_path: Path, synced: list[int], do: str
) -> None:
    UndoLogFile(tmp_path).open(do, node="learner-1")
    assert synced == [2]


def test_an_entry_is_due_by_the_block_of_the_thread_that_opens_it(tmp_path: Path) -> None:
    log = UndoLogFile(tmp_path)
    with log.due_within(100.0), ThreadPoolExecutor(1) as beside:
        beside.submit(log.open, "unpause_container", node="learner-1").result()
        assert beside.submit(lambda: log.due_in_s).result() is None
        log.open("unpause_container", node="learner-2")
    other, own = open_undos(tmp_path)
    assert (other.facts["node"], other.until_s) == ("learner-1", None)
    assert own.until_s is not None


@pytest.mark.parametrize(("facts", "until_s"), [({}, 5.0), ({"boot_id": "another"}, None)])
def test_a_time_counts_on_the_boot_whose_clock_it_is_of(
    tmp_path: Path, facts: dict[str, str], until_s: float | None
) -> None:
    said = {"boot_id": boot_id(), "until_s": 5.0, **facts}
    entry = UndoEntry(number=0, do="unpause_container", facts=said, directory=tmp_path)
    assert entry.until_s == until_s


@pytest.mark.parametrize("is_reaped", [False, True])
def test_what_ends_while_it_is_looked_at_is_not_taken_for_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reaped: bool
) -> None:
    """Its environment is gone before it is."""
    with subprocess.Popen(("sleep", "600")) as sleeper:
        who = identify(sleeper.pid)
        assert who is not None
        assert is_of_others(who, tmp_path)

        def ends(_: Identity, directory: Path) -> bool:
            sleeper.kill()
            if is_reaped:
                sleeper.wait()
            else:
                os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
            return False

        monkeypatch.setattr(harness, "is_of_run", ends)
        assert not is_of_others(who, tmp_path)
