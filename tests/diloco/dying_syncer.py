"""The real syncer, which ends by SIGKILL before one of its file operations.

DIE_AT in the environment says before which one, counted from 0 over everything that it writes.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from chaoslab.diloco.node import files
from chaoslab.diloco.syncer import program

_OPERATIONS = frozenset({"open", "pwrite", "ftruncate", "fsync", "replace", "unlink", "mkdir"})


class MortalOs:
    """Stands in for `os` in `chaoslab.diloco.node.files`."""

    def __init__(self, die_at: int) -> None:
        self._left = die_at

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._counted(real) if name in _OPERATIONS else real

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*words: Any, **more: Any) -> Any:
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1
            return real(*words, **more)

        return operation


if __name__ == "__main__":
    files.os = MortalOs(int(os.environ["DIE_AT"]))  # type: ignore[assignment, attr-defined]
    sys.exit(program.main())
