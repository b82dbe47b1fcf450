"""Files that others could have written are refused, and no link is followed below the root."""

import errno
import os
import re
import shlex
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError, PlanError
from chaoslab.core.events import Json
from chaoslab.core.private_files import (
    NotOwned,
    NotPrivate,
    make_folder,
    open_folder,
    read,
    remove,
    replace_file,
    require_folder,
)
from chaoslab.record.run_directory import RunDirectory
from chaoslab.undo.harness import is_in_progress
from chaoslab.undo.log import (
    UNDO_LOG,
    UndoLogFile,
    append,
    may_have_open_undos,
    open_undos,
    undo_logs,
    undos_in_record,
)

STRANGER = 65_534
NOBODY: dict[str, Json] = {
    "pid": 2**22 + 1, "start_ticks": 1, "boot_id": "another", "namespaces": "others",
}  # fmt: skip
"""The uid of `nobody`."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a file in a folder below it."""
    run = tmp_path / "run"
    (run / "twin").mkdir(parents=True)
    (run / "twin" / "file").write_text("mine")
    return run


def test_what_is_one_s_own_is_read_and_what_is_not_there_is_nothing(run: Path) -> None:
    assert read(run, "twin", "file") == b"mine"
    assert read(run, "twin", "absent") is None
    assert read(run / "absent", "file") is None
    (run.parent / "latest").symlink_to("run")
    assert read(run.parent / "latest", "twin", "file") == b"mine", "the way to the root"


@needs_root
@pytest.mark.parametrize("whose", ["", "twin", "twin/file"])
def test_what_belongs_to_another_user_is_refused_with_what_to_do(run: Path, whose: str) -> None:
    os.chown(run / whose, STRANGER, STRANGER)
    with pytest.raises(NotOwned, match=r"sudo -u \S+ "):
        read(run, "twin", "file")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o722])
@pytest.mark.parametrize("whose", ["", "twin", "twin/file"])
def test_what_others_can_write_is_refused(run: Path, whose: str, mode: int) -> None:
    (run / whose).chmod(mode)
    with pytest.raises(NotPrivate, match=f"{mode:04o}"):
        read(run, "twin", "file")


@needs_root
def test_a_group_that_may_write_must_be_one_s_own(run: Path) -> None:
    file = run / "twin" / "file"
    file.chmod(0o660)
    assert read(run, "twin", "file") == b"mine"
    os.chown(file, -1, STRANGER)
    with pytest.raises(NotPrivate, match="0660"):
        read(run, "twin", "file")


def test_a_folder_above_that_everybody_can_write_needs_the_sticky_bit(run: Path) -> None:
    shared = run.parent
    shared.chmod(0o1777)
    assert read(run, "twin", "file") == b"mine"
    shared.chmod(0o777)
    with pytest.raises(NotPrivate, match=re.escape(shlex.join(("chmod", "+t", str(shared))))):
        read(run, "twin", "file")
    with pytest.raises(PlanError, match="--out"):
        RunDirectory.create(shared / "runs", "kill_half", WallClock())


@pytest.mark.parametrize("link", ["twin", "twin/file"])
def test_no_link_is_followed_below_the_root(run: Path, link: str) -> None:
    (run / link).rename(run.parent / "elsewhere")
    (run / link).symlink_to(run.parent / "elsewhere")
    with pytest.raises(NotPrivate):
        read(run, "twin", "file")


@pytest.mark.parametrize("name", ["..", ".", "", "a/b"])
def test_no_name_leads_out_of_the_root(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotPrivate), open_folder(tmp_path, name):
        pytest.fail("it was opened")


def test_a_pipe_in_a_file_s_place_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file", 0o600)
    with pytest.raises(NotPrivate):
        read(tmp_path, "file")


def test_a_file_behind_a_link_is_not_removed(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".x.partial").write_text("precious")
    run.mkdir()
    (run / "nodes").symlink_to(elsewhere)
    with pytest.raises(NotPrivate):
        remove(run, "nodes", ".x.partial")
    assert (elsewhere / ".x.partial").exists()
    (run / "own").write_text("")
    for _ in range(2):
        remove(run, "own")
    assert not (run / "own").exists()


# ---------------------------------------------------------------- run directories and their books


def test_a_run_directory_is_its_owner_s_alone(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "runs", "kill_half", WallClock())
    assert run.path.stat().st_mode & 0o777 == 0o700
    assert run.make_twin().path.stat().st_mode & 0o777 == 0o700
    UndoLogFile(run.path).open("end_process", **NOBODY)
    assert (run.path / UNDO_LOG).stat().st_mode & 0o777 == 0o600


def test_nothing_is_appended_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("half a line")
    run = tmp_path / "run"
    make_folder(run)
    (run / UNDO_LOG).symlink_to(precious)
    with pytest.raises(FleetError):
        append(run / UNDO_LOG, {"close": 0})
    assert precious.read_text() == "half a line"


@needs_root
def test_the_books_of_another_user_are_left_alone(tmp_path: Path) -> None:
    UndoLogFile(tmp_path).open("end_process", **NOBODY)
    assert may_have_open_undos(tmp_path)
    os.chown(tmp_path / UNDO_LOG, STRANGER, STRANGER)
    with pytest.raises(NotOwned):
        undo_logs(tmp_path)
    assert not may_have_open_undos(tmp_path)
    assert is_in_progress(tmp_path)


@needs_root
@pytest.mark.parametrize("do", ["chown", "chmod"])
def test_the_record_of_another_user_is_judged_as_its_owner_judges_it(
    tmp_path: Path, do: str
) -> None:
    """Nothing of it is carried out by that."""
    log = UndoLogFile(tmp_path)
    log.open("end_process", **NOBODY)
    log.close(log.open("end_process", **NOBODY))
    entries = undos_in_record(tmp_path)
    assert [one.number for one in entries] == [0]
    if do == "chown":
        os.chown(tmp_path / UNDO_LOG, STRANGER, STRANGER)
    else:
        os.chown(tmp_path / UNDO_LOG, -1, STRANGER)
        (tmp_path / UNDO_LOG).chmod(0o664)
    assert undos_in_record(tmp_path) == entries
    with pytest.raises(FleetError):
        open_undos(tmp_path)
    (tmp_path / UNDO_LOG).unlink()
    (tmp_path / UNDO_LOG).mkdir()
    with pytest.raises(FleetError):
        undos_in_record(tmp_path)


@pytest.mark.parametrize("link", ["run.json", ".run.json.new"])
def test_a_link_in_the_way_of_a_new_file_is_replaced_and_not_written_through(
    tmp_path: Path, link: str
) -> None:
    (tmp_path / "precious").write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / link).symlink_to(tmp_path / "precious")
    replace_file(run / "run.json", "new")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (run / "run.json").read_text() == "new"
    assert not (run / "run.json").is_symlink()
    assert [path.name for path in run.iterdir()] == ["run.json"]


def test_a_disk_that_is_read_only_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(FleetError, match=r"run\.json"):
        replace_file(tmp_path / "run.json", "new")


def test_a_folder_that_cannot_be_made_or_written_to_is_an_error_with_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_folder(tmp_path / "a" / "b")
    require_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    for way in ("file", "file/below"):
        with pytest.raises(FleetError):
            require_folder(tmp_path / way)
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    with pytest.raises(FleetError):
        require_folder(tmp_path / "a")
