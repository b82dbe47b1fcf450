"""Commits of a repository of git, and the work tree that they are tried in."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.replay.bisect import BisectEnding, bisect
from chaoslab.replay.commits import Repository
from chaoslab.replay.minimise import Answer


def git(folder: Path, *words: str) -> str:
    identity = {f"GIT_{who}_{what}": "t@e.st" for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")}  # fmt: skip
    done = subprocess.run(
        ("git", "-C", str(folder), *words), capture_output=True, text=True, check=True,
        env={**os.environ, **identity},
    )  # fmt: skip
    return done.stdout.strip()


def repository(folder: Path, count: int) -> tuple[Repository, list[str]]:
    """One commit after the other, each with its number in a file."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commits = []
    for number in range(count):
        (folder / "number").write_text(str(number))
        git(folder, "add", "number")
        git(folder, "commit", "--quiet", "-m", f"commit {number}")
        commits.append(git(folder, "rev-parse", "HEAD"))
    return Repository.around(folder), commits


def test_a_bad_commit_is_found_in_a_real_history_in_few_runs(tmp_path: Path) -> None:
    repo, commits = repository(tmp_path / "repo", 8)
    with repo.work_tree(commits[-1]) as tree:

        def run(commit: str) -> Answer:
            tree.checkout(commit)
            is_bad = int((tree.path / "number").read_text()) >= 5
            return Answer.FAILS if is_bad else Answer.PASSES

        found = bisect(repo, commits[0], commits[-1], run)
    assert (found.ending, found.first_bad) == (BisectEnding.FOUND, commits[5])
    assert len(found.answers) <= 5
    assert "commit 5" in repo.title(commits[5])


def test_the_users_work_tree_is_left_alone_and_the_other_one_is_removed(tmp_path: Path) -> None:
    repo, commits = repository(tmp_path / "repo", 2)
    (repo.root / "number").write_text("edited")
    with suppress(KeyboardInterrupt), repo.work_tree(commits[0]) as tree:
        (tree.path / "left.pyc").write_text("old")
        tree.checkout(commits[1])
        assert not (tree.path / "left.pyc").exists()
        assert (tree.path / "number").read_text() == "1"
        raise KeyboardInterrupt
    assert not tree.path.exists()
    assert len(git(repo.root, "worktree", "list").splitlines()) == 1
    assert (repo.root / "number").read_text() == "edited"
    assert git(repo.root, "symbolic-ref", "--short", "HEAD") == "main"


def test_the_work_tree_of_a_search_that_was_killed_is_removed_by_the_next(tmp_path: Path) -> None:
    repo, commits = repository(tmp_path / "repo", 1)
    over = subprocess.Popen(("true",))
    over.wait()
    dead = tmp_path / f"chaoslab-bisect-{over.pid}-x"
    alive = tmp_path / f"chaoslab-bisect-{os.getpid()}-x"
    for place in (dead, alive):
        git(repo.root, "worktree", "add", "--quiet", "--detach", str(place / "repo"), commits[0])
    with repo.work_tree(commits[0]):
        assert not dead.exists()
        assert alive.exists()


def test_no_hook_of_the_repository_is_run(tmp_path: Path) -> None:
    repo, commits = repository(tmp_path / "repo", 1)
    hook = repo.root / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    with repo.work_tree(commits[0]) as tree:
        tree.checkout(commits[0])
    assert not (tmp_path / "hooked").exists()


def test_a_folder_outside_of_a_repository_and_an_unknown_commit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no git repository"):
        Repository.around(tmp_path)
    repo, commits = repository(tmp_path / "repo", 2)
    with pytest.raises(PlanError, match="'nope' is no commit"):
        repo.commit("nope")
    assert repo.commit("HEAD~1") == commits[0]
    assert repo.is_before(commits[0], commits[1])
    assert not repo.is_before(commits[1], commits[0])
