"""Health file of a node: a file that is touched while the node makes progress.

    a learner's reports of its steps ─┐
    each turn of the syncer ──────────┴─► HealthFile.touch ─► mtime ◄── docker: HEALTHCHECK

A learner that is alive but makes no steps does not touch it, unless it waits for a round. Off
without `--health-file`. A failure to touch is not reported: the file's age shows it.
"""

import argparse
import time
from contextlib import suppress
from pathlib import Path

from chaoslab.core.events import Payload
from chaoslab.core.payloads import LearnerJoined, LearnerStarted, LearnerStep, LearnerWaiting
from chaoslab.diloco.node.events import Emit

_EVERY_S = 1.0
_SIGNS = (LearnerStarted, LearnerJoined, LearnerStep, LearnerWaiting)


class HealthFile:
    """Touches a file at most once a second; does nothing if `file` is None."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._due_s = 0.0

    def touch(self) -> None:
        """Record progress, unless that was done within the last second."""
        if self._file is not None and time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _EVERY_S
            with suppress(OSError):
                self._file.touch()

    def touched_by(self, emit: Emit) -> Emit:
        """`emit`, extended to touch the file when a learner starts, joins, steps or waits."""

        def say(said: Payload) -> None:
            emit(said)
            if isinstance(said, _SIGNS):
                self.touch()

        return say


def add_health_option(flags: argparse.ArgumentParser) -> None:
    """Add `--health-file`, an option of learner and syncer."""
    flags.add_argument(
        "--health-file", type=Path, metavar="FILE", help="touched every second while the node works"
    )
