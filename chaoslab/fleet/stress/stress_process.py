"""Processes that apply stress to nodes (`stress_program`), started, asked and ended by the fleet.

    StressProcess(…) ─ start ─► waits ─ undo entry written ─ ask(strength) ─► applies ─ end ─► gone

A stress process ends by itself when its input ends, so it does not outlive the harness; if that
fails, the janitor ends it by its undo entry.
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
from chaoslab.core.process_tree import ProcessStatus
from chaoslab.undo.base import PendingUndos, UndoLog

_PROGRAM = Path(__file__).with_name("stress_program.py")
_END_S = 5.0
_SPARE_S = 2.0
"""Time by which a stress process outlasts its fault, so that a harness that runs heals first."""


class StressProcess:
    """One process that applies stress. `ask` begins the stress, `end` ends it."""

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
            raise FleetError(f"cannot start the stress process for {node}: {error}") from error
        self._mark, self._pending_undos = mark, PendingUndos(undo_log)
        found = identify(self._process.pid)
        if found is None:
            raise HarnessBug(f"process {self._process.pid} was reaped by other code")
        self.identity: Identity = found
        about: dict[str, Json] = {"node": f"{node} ({program})", "incarnation": 0, "mark": mark}
        self._pending_undos.open("end_process", **found.facts, **about)

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def ask(self, strength: float) -> None:
        """Apply it with this strength from now on; FleetError if the stress process has ended."""
        if self._process.stdin is None:
            raise HarnessBug("a stress process was started without a stdin pipe")
        try:
            self._process.stdin.write(f"{strength!r}\n".encode())
        except OSError as error:
            raise FleetError(f"stress process {self.identity.pid} has ended") from error

    def look(self) -> ProcessStatus:
        """State of the process."""
        return process_tree.look(self.identity)

    def end(self) -> None:
        """End the process, by force if it takes long. May be repeated."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        remaining = process_tree.end_tree(self.identity, self._mark, limit_s=_END_S)
        if remaining:
            raise FleetError(f"cannot end the stress process: {remaining} still run")
        self._process.wait(_END_S)
        self._pending_undos.close_all()


def until(for_s: float | None) -> str:
    """Seconds after which a stress process ends by itself, as its argument."""
    return "inf" if for_s is None else f"{for_s + _SPARE_S:g}"
