"""Private files of local nodes: who may read them, and that nothing is left of them."""

import os
import shlex
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.private_folder import UNDO_PRIVATE, PrivateFolder
from chaoslab.undo import leftovers
from chaoslab.undo.base import NoUndoLog
from chaoslab.undo.janitor import heal
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.fleet.local_stage import Remembered

NOBODY = 2**22 + 1
"""A pid that no kernel gives."""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of the machine's own folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def learner(name: str = "learner-0") -> NodeSpec:
    return NodeSpec(
        name=name, role=Role.LEARNER, command=("true",), private_files={"key.pem": b"secret"}
    )


def test_only_this_user_may_read_them_and_the_undo_is_written_before(
    tmp_path: Path, temporary: Path
) -> None:
    class Looking(Remembered):
        def open(self, do: str, **facts: object) -> int:
            assert not list(temporary.iterdir())
            return super().open(do, **facts)

    log = Looking()
    private = PrivateFolder(tmp_path / "run", log)
    assert not private.put(NodeSpec(name="syncer", role=Role.SYNCER, command=("true",)))
    assert not list(temporary.iterdir()), "a node without private files has no folder"
    folder = Path(private.put(learner()))
    assert private.put(learner()) == str(folder) != private.put(learner("learner-1"))
    assert {stat.S_IMODE(one.stat().st_mode) for one in (folder, folder.parent)} == {0o700}
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
    assert (folder / "key.pem").read_bytes() == b"secret"
    assert log.opened == [{"do": UNDO_PRIVATE, "folder": str(folder.parent)}]
    assert not log.closed
    private.close()
    private.close()
    assert log.closed == [0]
    assert not list(temporary.iterdir())


def test_what_cannot_be_written_is_said_and_may_be_tried_again(tmp_path: Path) -> None:
    private = PrivateFolder(tmp_path / "run", NoUndoLog())
    unwritable = replace(learner(), private_files={"key.pem": b"secret", "x" * 300: b""})
    with pytest.raises(FleetError, match="learner-0"):
        private.put(unwritable)
    folder = Path(private.put(learner()))
    assert [one.read_bytes() for one in folder.iterdir()] == [b"secret"]


def test_no_key_is_put_where_all_users_could_replace_the_folder(
    tmp_path: Path, temporary: Path
) -> None:
    temporary.chmod(0o777)
    with pytest.raises(FleetError):
        PrivateFolder(tmp_path / "run", NoUndoLog()).put(learner())
    assert not list(temporary.rglob("*.pem"))


def test_keys_of_a_harness_that_died_are_removed_and_no_link_is_followed(
    tmp_path: Path, temporary: Path
) -> None:
    run, target, aside = tmp_path / "run", tmp_path / "target", tmp_path / "aside"
    run.mkdir(mode=0o700)
    target.mkdir()
    (target / "kept").write_text("kept")
    with UndoLogFile(run) as undo_log:
        PrivateFolder(run, undo_log).put(learner())
    assert [one.do for one in open_undos(run)] == [UNDO_PRIVATE]
    (root,) = temporary.iterdir()
    root.rename(aside)
    root.symlink_to(target)
    assert heal(run).remaining
    assert (target / "kept").read_text() == "kept"
    root.unlink()
    aside.rename(root)
    assert not heal(run).remaining
    assert not list(temporary.iterdir())
    assert not heal(run).actions


def test_keys_that_no_harness_answers_for_are_named_with_their_remedy(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PrivateFolder(tmp_path / "living", NoUndoLog()).put(learner())
    monkeypatch.setattr(os, "getpid", lambda: NOBODY)
    dead = Path(PrivateFolder(tmp_path / "dead", NoUndoLog()).put(learner())).parent
    (temporary / "chaoslab-private-notes").mkdir()
    found = [one for one in leftovers.find(tmp_path) if "keys" in one.what]
    assert [(one.where, one.remedy) for one in found] == [
        (str(dead), shlex.join(("rm", "-r", str(dead))))
    ]
