"""The processes that keep burdens on nodes (`keeper`), as the fleet sees them: begun, asked, ended.

    Keeper(…) ─ start ─► waits ─ obligation written ─ ask(strength) ─► keeps ─ end ─► gone

A keeper lets go by itself when its input ends, so it never outlives the harness; should even that
fail, the janitor knows its pid.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from chaoslab.core import process_tree
from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Json
from chaoslab.core.process_identity import NODE_MARK, Identity, identify
from chaoslab.core.process_tree import Look
from chaoslab.undo.base import UndoLog

_PROGRAM = Path(__file__).with_name("keeper.py")
_END_S = 5.0
_SPARE_S = 2.0
"""How much longer than its fault a keeper lasts, so that healing is the harness's as long as it
lives."""


class Keeper:
    """One keeper process. `ask` begins it, `end` lets go of what it keeps."""

    def __init__(
        self, program: str, *facts: object, for_s: float | None, mark: str, node: str,
        undo_log: UndoLog,
    ) -> None:  # fmt: skip
        """Start it; it does nothing before it is asked. FleetError if it cannot be started."""
        words = [sys.executable, "-I", "-S", str(_PROGRAM), program, until(for_s)]
        words += map(str, facts)
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, NODE_MARK: mark},
                process_group=0,
                bufsize=0,
            )
        except OSError as error:
            raise FleetError(f"what would keep a burden on {node} cannot start: {error}") from error
        self._mark, self._undo_log = mark, undo_log
        found = identify(self._process.pid)
        if found is None:
            raise HarnessBug(f"process {self._process.pid} was reaped by somebody else")
        self.identity: Identity = found
        about: dict[str, Json] = {"node": f"{node} ({program})", "incarnation": 0, "mark": mark}
        self._obligation = undo_log.open("end_process", **found.facts, **about)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, told or not."""
        return self._process.poll() is not None

    def ask(self, strength: float) -> None:
        """Keep it this strong from now on; FleetError if it has ended."""
        if self._process.stdin is None:
            raise HarnessBug("a keeper was started without an ear")
        try:
            self._process.stdin.write(f"{strength!r}\n".encode())
        except OSError as error:
            raise FleetError(f"what kept a burden (process {self.identity.pid}) is gone") from error

    def look(self) -> Look:
        """It as the kernel shows it."""
        return process_tree.look(self.identity)

    def end(self) -> None:
        """Let go, and see that it is gone; by force if it takes long. May be done twice."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        remaining = process_tree.end_tree(self.identity, self._mark, limit_s=_END_S)
        if remaining:
            raise FleetError(f"what kept a burden cannot be ended: {remaining}")
        self._process.wait(_END_S)
        self._undo_log.close(self._obligation)


def until(for_s: float | None) -> str:
    """When a keeper ends by itself, as it reads that."""
    return "inf" if for_s is None else f"{for_s + _SPARE_S:g}"
