"""Folders of chaoslab on a host: one for each run, below ~/.chaoslab.

~/.chaoslab/runs/RUN/  agent.json         which process the agent is, and where it listens
                       agent.lock         locked while the agent is started or ended
                       machine            whose folder it is, where hosts share a home
                       agent.sock         there, unless the kernel finds this path too long
                       host_agent.log     what it complained of
                       spool.jsonl        what it has seen
                       undo_log.jsonl  its undo log
                       nodes/…            as in a run directory
                       script/            files of a script, `{folder}` in its command
~/.chaoslab/code, environments, cache     kept for later runs
"""

import fcntl
import json
import os
import platform
import re
import shutil
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.private_files import make_folder
from chaoslab.core.process_identity import Identity, identity_of, is_running, is_same
from chaoslab.undo.log import may_have_open_undos

RUN: Final = re.compile(r"[0-9a-f]{10}")
_DAY_S: Final = 86400.0
_RUN_S: Final = 7 * _DAY_S
"""Age of a run's folder that was not fetched: its harness died."""
_USED_S: Final = 30 * _DAY_S
"""Time without use of code or an environment; `bootstrap.run` touches them."""
_OF_AGENT: Final = ("host_agent.log", "spool.jsonl", "janitor.log")
_OF_INCARNATION: Final = ("command.json", "stdout.log", "stderr.log", "exit.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFolder:
    """Folder of one run on this host."""

    run: str
    """Name of the run: see `fleet.run_name`."""

    def __post_init__(self) -> None:
        if not RUN.fullmatch(self.run):
            raise FleetError(f"{self.run!r} is no name of a run: ten hex digits are")

    @property
    def path(self) -> Path:
        """The folder itself."""
        return runs() / self.run

    @property
    def words(self) -> Mapping[str, str]:
        """Values of placeholders in command lines on this host."""
        return {
            "python": sys.executable, "run": str(self.path), "cache": str(home() / "cache"),
            "folder": str(self.path / "script"),
        }  # fmt: skip

    @property
    def agent(self) -> Identity | None:
        """The agent, if it lives."""
        if not (facts := self._facts):
            return None
        process = identity_of(facts)
        return process if is_same(process) and is_running(process.pid) else None

    @property
    def socket(self) -> str:
        """Socket of the agent; empty without one."""
        return str(self._facts.get("socket", ""))

    @property
    def _facts(self) -> dict[str, Json]:
        """Facts that the last agent wrote; empty if it did not, or is about to."""
        try:
            facts: dict[str, Json] = json.loads(self._of_agent.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return facts

    @property
    def _of_agent(self) -> Path:
        return self.path / "agent.json"

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is the folder of another machine, which has the same home."""
        return self._machine not in ("", platform.node())

    @property
    def _machine(self) -> str:
        """Name of the machine of the folder; empty if it was not written."""
        try:
            return self._of_machine.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    @property
    def _of_machine(self) -> Path:
        return self.path / "machine"

    def make(self) -> None:
        """Make the folder, for this user only, unless it is there."""
        with suppress(FileExistsError):
            make_folder(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time starts or ends the agent: a start whose connection broke may still
        be under way when the next one comes.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(self.path / "agent.lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def take(self) -> None:
        """Say that it is this machine's. FleetError if it is another one's."""
        if self.is_elsewhere:
            raise FleetError(
                f"{self.path} is used by {self._machine} in this run: hosts that share a home "
                "cannot run together; give each a home of its own, or name one of them"
            )
        self._of_machine.write_text(platform.node(), encoding="utf-8")

    def write_agent(self, process: Identity, socket: Path) -> None:
        """Say which process the agent is and where it listens: from now on it can be found."""
        facts = {**process.facts, "socket": str(socket)}
        self._of_agent.write_text(json.dumps(facts), encoding="utf-8")

    def remove(self) -> bool:
        """Remove all of it; whether it was there. FleetError if something is still to be undone."""
        if not self.path.is_dir() or self.is_elsewhere:
            return False
        if may_have_open_undos(self.path):
            raise FleetError(f"{self.path} has open undo entries: run `chaoslab heal` there")
        shutil.rmtree(self.path)
        return True


def prune(now_s: float) -> tuple[Path, ...]:
    """Remove what is not needed any more: runs that ended long ago without open entries, code and
    environments that were not used for long. What was removed; OSError if that is refused.
    """
    gone = []
    for path in sorted(runs().glob("*")):
        if RUN.fullmatch(path.name) and _age_s(path, now_s) > _RUN_S:
            folder = HostFolder(run=path.name)
            if folder.agent is None and not may_have_open_undos(path):
                folder.remove()
                gone.append(path)
    for path in (*home().glob("code/*"), *home().glob("environments/*")):
        if path.is_dir() and _age_s(path, now_s) > _USED_S:
            shutil.rmtree(path)
            gone.append(path)
    return tuple(gone)


def _age_s(path: Path, now_s: float) -> float:
    return now_s - path.stat().st_mtime


def home() -> Path:
    """The folder of chaoslab on this host."""
    return Path(os.environ.get("HOME") or Path.home()).resolve() / ".chaoslab"


def runs() -> Path:
    """The folder of all runs."""
    return home() / "runs"


def write_record(folder: Path, out: IO[bytes]) -> None:
    """Write what people want to read of a run as a tar file: no checkpoints, no volumes."""
    patterns = (*_OF_AGENT, *(f"nodes/*/*/{name}" for name in _OF_INCARNATION))
    with tarfile.open(fileobj=out, mode="w|") as archive:
        for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
            if path.is_file() and not path.is_symlink():
                archive.add(path, str(path.relative_to(folder)), recursive=False)
