"""Commits of the user's repository, and a work tree of its own to run them in.

    Repository ─► suspects(goods, bad): the best to try next first
              └─► work_tree ─► checkout(commit) ─► …                   removed at the end

The user's own work tree, index and branches are not touched; no hook of the repository is run.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.core.terminal import last_lines

_PREFIX = "chaoslab-bisect-"
_GIT_S = 120.0
_REFS = ("refs/heads", "refs/tags", "refs/remotes")
_NEWEST = 30
"""Commits that are offered by their short names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTree:
    """A work tree at some commit."""

    path: Path

    def checkout(self, commit: str) -> None:
        """Exactly the files of a commit; nothing of the one before stays, compiled or not."""
        _git(self.path, "checkout", "--quiet", "--force", "--detach", commit)
        _git(self.path, "clean", "--quiet", "-ffdx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A git repository with a work tree."""

    root: Path
    """The top folder of the work tree, absolute and real."""

    @classmethod
    def around(cls, folder: Path) -> "Repository":
        """Repository of a folder; PlanError outside of one, or without git."""
        if shutil.which("git") is None:
            raise PlanError("git is not installed: commits cannot be tried without it")
        top = _tried(folder, "rev-parse", "--show-toplevel")
        if top is None:
            raise PlanError(f"{folder} is in no git repository: call this in yours")
        return cls(root=Path(top).resolve())

    def commit(self, given: str) -> str:
        """Full name of a commit; PlanError if there is none."""
        found = _tried(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options",
                       f"{given}^{{commit}}")  # fmt: skip
        if found is None:
            raise PlanError(f"{given!r} is no commit of {self.root}")
        return found

    def has(self, commit: str, file: Path) -> bool:
        """Whether a commit has a file, named from the top of the work tree."""
        return _tried(self.root, "cat-file", "-e", f"{commit}:{file.as_posix()}") is not None

    def is_before(self, early: str, late: str) -> bool:
        """Whether one is an ancestor of the other."""
        return _tried(self.root, "merge-base", "--is-ancestor", early, late) is not None

    def suspects(self, goods: Iterable[str], bad: str) -> Sequence[str]:
        """Commits that may be the first bad one, `bad` included: those first whose answer tells
        most about the others.
        """
        lines = _git(self.root, "rev-list", "--bisect-all", bad, "--not", *goods).splitlines()
        return [line.split()[0] for line in lines]

    def title(self, commit: str) -> str:
        """Short name, day and subject."""
        return _git(self.root, "show", "--no-patch", "--date=short", "--format=%h %ad %s", commit)

    def names(self) -> Mapping[str, str]:
        """Names of commits, with their subjects: HEAD, branches, tags, remote branches,
        and the short names of the newest commits before HEAD.
        """
        fields = "%(if)%(symref)%(then)%(else)%(refname:short)%00%(contents:subject)%(end)"
        found = [
            *_git(self.root, "log", "--max-count=1", "--format=HEAD%x00%s").splitlines(),
            *_git(self.root, "for-each-ref", "--sort=-creatordate", f"--format={fields}", *_REFS)
            .splitlines(),
            *_git(self.root, "log", f"--max-count={_NEWEST}", "--format=%h%x00%s").splitlines(),
        ]  # fmt: skip
        pairs = (line.partition("\0") for line in found if line)
        return {name: subject for name, _, subject in pairs}

    @contextmanager
    def work_tree(self, commit: str) -> Iterator[WorkTree]:
        """A new one, outside of the repository; removed at the end, whatever comes of it.

        Those of searches that were killed are removed, too.
        """
        self._remove_dead()
        place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
        path = place / self.root.name
        try:
            _git(self.root, "worktree", "add", "--quiet", "--detach", str(path), commit)
            yield WorkTree(path=path)
        finally:
            self._remove(place)

    def _remove(self, place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)
        _git(self.root, "worktree", "prune")
        if place.exists():
            raise FleetError(f"the work tree {place} cannot be removed: remove it by hand")

    def _remove_dead(self) -> None:
        listed = _git(self.root, "worktree", "list", "--porcelain").splitlines()
        paths = (Path(line.removeprefix("worktree ")) for line in listed if " " in line)
        for place in (path.parent for path in paths if path.parent.name.startswith(_PREFIX)):
            pid = place.name.removeprefix(_PREFIX).split("-")[0]
            if pid.isdecimal() and not psutil.pid_exists(int(pid)):
                self._remove(place)


def _git(folder: Path, *words: str) -> str:
    """Output of git; FleetError with git's own words if it fails."""
    try:
        done = _called(folder, *words)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FleetError(f"git {words[0]} failed in {folder}: {error}") from error
    if done.returncode:
        raise FleetError(f"git {words[0]} failed in {folder}: {last_lines(done.stderr)}")
    return done.stdout.strip()


def _tried(folder: Path, *words: str) -> str | None:
    """Output of git; None if it exits with an error."""
    done = _called(folder, *words)
    return None if done.returncode else done.stdout.strip()


def _called(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A git command without hooks, and not in the repository of git's own environment variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ("git", "-c", "core.hooksPath=/dev/null", "-C", str(folder), *words)
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=_GIT_S, env=environment
    )
