"""Checkpoints that a trainer has saved, by the files that it writes last.

    checkpoint-*/trainer_state.json ─► checkpoint-500/trainer_state.json ─► saved: step 500
    ep*-ba*-rank0.pt ────────────────► ep0-ba500-rank0.pt, at step 512 ───► saved: step 500

Of a trainer that prints no word of them, or one before they are whole. A file of before is none.
"""

import re
import time
from glob import glob
from pathlib import Path
from typing import Final

from chaoslab.core.payloads import LineKind
from chaoslab.trainers.reading import TrainerLine

_NUMBER: Final = re.compile(r"\d+")
_BEHIND, _AHEAD = 0.1, 2
"""Of a training's step, what a number may be that is the step of its checkpoint: others count
epochs, ranks or seconds."""


class SavedFiles:
    """The checkpoints in one folder that match a pattern."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder, self._pattern = folder, pattern
        self._seen = self._found()

    def read(self, at: int = 0) -> list[TrainerLine]:
        """New files since the last call, the oldest first; `at`: the step that training has
        reported.
        """
        now = self._found()
        new = {path: written for path, written in now.items() if self._seen.get(path) != written}
        self._seen = now
        return [_said(path, new[path], at) for path in sorted(new, key=lambda path: new[path])]

    def _found(self) -> dict[str, int]:
        """Modification time in ns, by path below the folder."""
        found = {}
        # that of pathlib raises if a folder is removed meanwhile, as an older checkpoint is
        for path in glob(self._pattern, root_dir=self._folder, recursive=True, include_hidden=True):
            try:
                found[path] = (self._folder / path).stat().st_mtime_ns
            except FileNotFoundError:
                continue
        return found


def _step(path: str, at: int) -> int | None:
    """The number of a path that is nearest to the reported step; before any report, the largest."""
    numbers = [int(number) for number in _NUMBER.findall(path)]
    if not at:
        return max(numbers, default=None)
    possible = [number for number in numbers if _BEHIND * at <= number <= _AHEAD * at]
    return min(possible, key=lambda number: abs(number - at), default=None)


def _said(path: str, written_ns: int, at: int) -> TrainerLine:
    return TrainerLine(
        what=LineKind.SAVED, step=_step(path, at), line=path,
        age_s=max(0.0, (time.time_ns() - written_ns) / 1e9),
    )  # fmt: skip
