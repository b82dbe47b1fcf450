"""Files that one incarnation of a node leaves, whatever it runs in.

nodes/<name>/<incarnation>/  command.json   what was started, when, as which process
                             stdout.log     what it printed, raw
                             stderr.log     what it complained of
                             exit.json      how it ended
"""

import json
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoslab.core.clock import Clock
from chaoslab.core.events import Json
from chaoslab.core.terminal import last_lines, read_end
from chaoslab.fleet.base import NodeSpec
from chaoslab.undo.base import UndoLog

_ASKED = ("SIGKILL", "SIGTERM")
"""Signals by which the harness ends nodes."""
_SIGNALS = 128
"""Exit codes above it tell a signal."""


class IncarnationFiles:
    """Files of one incarnation; every verb raises OSError when the disk refuses."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        """Make the folder, which must be new, and begin the log."""
        directory.mkdir(parents=True)
        self._directory, self._clock = directory, clock
        self.log = (directory / "stdout.log").open("wb", buffering=0)
        self.errors = directory / "stderr.log"

    def begun(self, spec: NodeSpec, argv: Sequence[str], facts: Mapping[str, Json]) -> None:
        """Write command.json: what was started, and as which process or container."""
        said = {"argv": list(argv), "environment": dict(spec.environment), **facts}
        self._write("command.json", said, "started_s")

    def forget(self) -> None:
        """Remove the folder of one that never began, so that the next try can make it again."""
        self.log.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def ended(self, facts: Mapping[str, Json]) -> None:
        """Write exit.json."""
        self._write("exit.json", facts, "exited_s")

    def last_words(self, ending: Mapping[str, Json]) -> Mapping[str, Json]:
        """The end of what it complained of, if it failed by itself: not asked, and not with 0."""
        if ending.get("exit_code") == 0 or ending.get("signal") in _ASKED:
            return {}
        for file in (self.errors, self._directory / "stdout.log"):  # one that prints both there
            if words := last_lines(read_end(file)):
                return {"last_words": words}
        return {}

    def _write(self, name: str, facts: Mapping[str, Json], when: str) -> None:
        stamped = {**facts, when: self._clock.now_s(), "wall": self._clock.wall()}
        text = json.dumps(stamped, indent=2) + "\n"
        (self._directory / name).write_text(text, encoding="utf-8")


def signal_name(number: int) -> str:
    """Name of a signal that ended something; SIG and its number where it has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def end_by_code(code: int) -> dict[str, Json]:
    """`exit_code` and `signal` of an exit code as shells, engines and clusters have it."""
    by_signal = _SIGNALS < code < _SIGNALS + signal.NSIG
    return {
        "exit_code": None if by_signal else code,
        "signal": signal_name(code - _SIGNALS) if by_signal else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place of the files and undo entries of a run's incarnations."""

    run_directory: Path
    clock: Clock
    undo_log: UndoLog

    def home(self, node: str) -> Path:
        """Folder of a node, shared by its incarnations."""
        return self.run_directory / "nodes" / node
