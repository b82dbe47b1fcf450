"""The lock of a learner's chip: one process at a time, and free when it is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoslab.diloco.node.chip import LOCK, ChipInUse, take


def test_a_chip_is_taken_once_and_names_who_has_it(tmp_path: Path) -> None:
    lock = take(tmp_path / "learner-0")
    with pytest.raises(ChipInUse, match=f"{os.getpid()}"):
        take(tmp_path / "learner-0")
    os.close(take(tmp_path / "learner-1"))
    os.close(lock)
    os.close(take(tmp_path / "learner-0"))


def test_a_child_does_not_inherit_the_chip(tmp_path: Path) -> None:
    lock = take(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        os.close(lock)
        os.close(take(tmp_path))
        child.communicate(b"\n")


def test_a_holder_that_wrote_nothing_is_unknown(tmp_path: Path) -> None:
    lock = take(tmp_path)
    (tmp_path / LOCK).write_text("")
    with pytest.raises(ChipInUse, match="unknown"):
        take(tmp_path)
    os.close(lock)
