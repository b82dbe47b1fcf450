"""Start of a new process: its program, its import path, the spawn guard and its gate."""

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SPAWN_GUARD = Path(__file__).with_name("spawn_guard.py")
"""Program that a new process runs before it executes the node's program."""


class Gate:
    """A pipe on which a new process waits, in the spawn guard, before it executes its program."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()

    def guarded(self, command: Sequence[str]) -> list[str]:
        """The command line of the spawn guard that executes the command; it needs `read_end`."""
        guard = (sys.executable, "-I", "-S", str(SPAWN_GUARD))
        return [*guard, str(self.read_end), str(os.getpid()), *command]

    def go(self) -> None:
        """Let the process that waits there execute its program."""
        with suppress(BrokenPipeError):  # it was killed already; its exit will be noticed
            os.write(self._write_end, b"g")

    def close(self) -> None:
        """A process that was not told to go then reads the end of the pipe, and exits."""
        os.close(self.read_end)
        os.close(self._write_end)


def find_program(word: str, folder: str, path: str) -> str | None:
    """The program that a command begins with, which is started in this folder; None without one."""
    return shutil.which(os.path.join(folder, word) if "/" in word else word, path=path)


def import_path() -> str:
    """PYTHONPATH for a new process that is to find this very package, wherever it was found."""
    ours = str(Path(__file__).resolve().parents[2])
    theirs = os.environ.get("PYTHONPATH")
    return f"{ours}{os.pathsep}{theirs}" if theirs else ours
