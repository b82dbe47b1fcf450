"""A sign of life for whoever watches a node from beside it: a file that is touched while it works.

    a learner's reports of its steps ─┐
    each turn of the syncer ──────────┴─► HealthFile.touch ─► its time ◄── docker: HEALTHCHECK

A learner that is alive and does not step touches nothing, which is what counts here. Off without
`--health-file`. Nobody is told if the file cannot be touched: it grows old, which is the message.
"""

import argparse
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.node.events import Emit

_EVERY_S = 1.0
_SIGNS = frozenset({Kind.LEARNER_STARTED, Kind.LEARNER_JOINED, Kind.LEARNER_STEP})


class HealthFile:
    """Touches one file, at most once a second; none, if there is none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._due_s = 0.0

    def touch(self) -> None:
        """It works."""
        if self._file is not None and time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _EVERY_S
            with suppress(OSError):
                self._file.touch()

    def heard(self, emit: Emit) -> Emit:
        """`emit`, and a touch whenever a learner says that it begins, joins or steps."""

        def say(kind: Kind, data: Mapping[str, Json]) -> None:
            emit(kind, data)
            if kind in _SIGNS:
                self.touch()

        return say


def add_health_option(flags: argparse.ArgumentParser) -> None:
    """`--health-file`, of learner and syncer."""
    flags.add_argument(
        "--health-file", type=Path, metavar="FILE", help="touched every second while it works"
    )
