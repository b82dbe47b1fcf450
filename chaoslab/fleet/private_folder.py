"""Private files of nodes of this machine: a temporary folder of the run's own.

    NodeSpec.private_files ─► /tmp/chaoslab-private-PID-RUN-RANDOM/<node>/   0700, files 0600
                                                     └─ `{private}` in the node's command

Outside the record, which is copied and shown to others. Not in /dev/shm: logind empties that when a
user's last session ends, as when the connection to a host is lost. An undo entry is written before
the folder is made; its name says which run it belongs to, so the undo removes nothing else.
"""

import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.private_files import make_folder, open_folder
from chaoslab.core.process_identity import is_running
from chaoslab.fleet.base import NodeSpec
from chaoslab.undo.base import PendingUndos, UndoLog

UNDO_PRIVATE: Final = "remove_private_folder"
"""Undo verb; its fact is `folder`."""
_NAME: Final = re.compile(r"chaoslab-private-(?P<pid>\d+)-(?P<run>[0-9a-f]{16})-[0-9a-f]{8}")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFolder:
    """Private files of one fleet. Nothing is made before the first of them."""

    def __init__(self, run_directory: Path, undo_log: UndoLog) -> None:
        self._run = run_of(run_directory)
        self._pending_undos = PendingUndos(undo_log)
        self._root: Path | None = None
        self._folders: dict[str, str] = {}

    def put(self, spec: NodeSpec) -> str:
        """Folder with the files of a node, written at the first call; empty if it has none.

        FleetError if they cannot be written, or all users could replace the folder.
        """
        if spec.private_files and spec.name not in self._folders:
            try:
                self._folders[spec.name] = str(self._written(spec))
            except OSError as error:
                raise FleetError(f"private files of {spec.name}: {error}") from error
        return self._folders.get(spec.name, "")

    def close(self) -> None:
        """Remove all of them; FleetError if that is refused. May be repeated."""
        if self._root is not None:
            remove(self._root)
            self._pending_undos.close_all()
            self._root = None
            self._folders.clear()

    def _written(self, spec: NodeSpec) -> Path:
        folder = self.made() / spec.name
        shutil.rmtree(folder, ignore_errors=True)  # of an attempt for which the disk was full
        folder.mkdir(mode=0o700)
        for name, content in spec.private_files.items():
            with open(os.open(folder / name, _NEW, 0o600), "wb") as file:
                file.write(content)
        return folder

    def made(self) -> Path:
        """The folder of all of them, which is made if it is not there. OSError."""
        if self._root is None:
            name = f"chaoslab-private-{os.getpid()}-{self._run}-{secrets.token_hex(4)}"
            root = _place() / name
            self._pending_undos.open(UNDO_PRIVATE, folder=str(root))
            make_folder(root)
            self._root = root
        return self._root


def is_made_for(run_directory: Path, folder: Path) -> bool:
    """Whether `folder` has the name of a private folder of this run."""
    found = _NAME.fullmatch(folder.name)
    is_plain = folder.is_absolute() and ".." not in folder.parts
    return is_plain and found is not None and found["run"] == run_of(run_directory)


def lies_here(folder: Path) -> bool:
    """Whether it is where this process would make one, and no part of a record that was copied."""
    return folder.parent == _place()


def remove(folder: Path) -> bool:
    """Remove a private folder; whether it was there. FleetError if it is not this user's own."""
    try:
        with open_folder(folder):
            shutil.rmtree(folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise FleetError(f"{folder}: cannot be removed: {error}") from error
    return True


def abandoned() -> Iterator[Path]:
    """Private folders of this user whose harness is dead, by the pid in their name."""
    for folder in _place().glob("chaoslab-private-*"):
        found = _NAME.fullmatch(folder.name)
        with suppress(OSError):
            if found and folder.stat().st_uid == os.geteuid() and not is_running(int(found["pid"])):
                yield folder


def _place() -> Path:
    return Path(tempfile.gettempdir()).resolve()


def run_of(run_directory: Path) -> str:
    """Sixteen hex digits for a run directory, in the name of its private folder."""
    return hashlib.sha256(str(run_directory.resolve()).encode()).hexdigest()[:16]
