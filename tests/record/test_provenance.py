"""What is noted of the place where a run happens, and what is not."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from chaoslab import __version__
from chaoslab.record.provenance import cores, git_state, host, versions


def test_versions_name_python_chaoslab_and_what_computes() -> None:
    found = versions()
    assert (found["python"], found["chaoslab"]) == (platform.python_version(), __version__)
    assert found["numpy"]
    assert set(found) >= {"jax", "jaxlib", "optax", "grpcio"}


def test_the_host_is_described_but_not_identified() -> None:
    found = host()
    assert found["cores"] == cores() >= 1
    assert found["memory_bytes"] > 1 << 20
    assert set(found) == {"system", "release", "machine", "cores", "memory_bytes"}


def test_outside_of_a_work_tree_there_is_no_git_state(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None


def test_the_git_state_is_the_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed here")

    def run(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        return subprocess.run(
            (git, "-C", str(tmp_path), *identity, *words),
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip

    run("init", "-q")
    (tmp_path / "file").write_text("one")
    run("add", "file")
    run("commit", "-q", "--no-verify", "-m", "one")
    assert git_state(tmp_path) == {"commit": run("rev-parse", "HEAD"), "has_changes": False}
    (tmp_path / "file").write_text("two")
    assert (git_state(tmp_path) or {})["has_changes"] is True
