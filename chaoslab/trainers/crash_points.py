"""Crash-point sweep: a training killed before each file operation of a save, then started again.

    traced run ─► SaveWindow: operations of the n-th save ─► for each of them, in a fresh folder:
        run, killed before it ─► started again there ─► Point: ok | lost | stuck | not_reached

No file changes between two operations, so that the points before each and after the last are all
that there are. A kill is no power loss: what the kernel holds in memory survives, and a missing
fsync is not found.
"""

import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import LineKind
from chaoslab.core.units import plural, show_duration
from chaoslab.trainers.file_calls import BLIND, FileCall, Traced
from chaoslab.trainers.reading import Patterns, Reader, TrainerLine, plain
from chaoslab.trainers.saved_files import SavedFiles

MOST_POINTS: Final = 200
"""Most points of a sweep, unless another number is given."""
AFTER_THE_LAST: Final = FileCall(call="(after the last)", file="")
_NAMES_FILES = ("open", "creat", "rename", "unlink", "link", "symlink", "mkdir")
"""Calls that begin so create, replace or remove a file: a log is written to alone."""
_VARYING = re.compile(r"(?<=tmp)[a-z0-9_]{8}(?![a-z0-9_])|[0-9a-f]{8,}|\d+")


class Outcome(StrEnum):
    """Result of a training that was killed at a point of its save."""

    OK = "ok"
    LOST = "lost"
    """It resumed from an older checkpoint than the newest complete one, or began anew."""
    STUCK = "stuck"
    """It did not start, failed, or made no further step before it was beyond the save."""
    NOT_REACHED = "not_reached"
    """It ended before the point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Command that starts a training in a folder, and the patterns of its output."""

    command: Sequence[str]
    environment: Mapping[str, str]
    patterns: Patterns
    max_pause_s: float
    """Longest time without a further step."""
    checkpoints: str = ""
    """Pattern of the file that is written last of a checkpoint, where no line says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A place in the save at which the training was killed, and what it did when started again."""

    number: int
    """Number of the operation before which it was killed, from 1; one more: after the last."""
    call: str
    file: str
    """Path of the file, with `*` for what differs between runs."""
    outcome: Outcome
    complete: int | None = None
    """Step of the newest checkpoint that was complete when it was killed; None: there was none."""
    resumed: int | None = None
    """Step from which it went on; None: it did not."""
    words: str = ""
    """Its end and its last line, if it did not get beyond the save."""
    is_repeated: bool = True
    """Whether the operations up to it were those of the traced run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A save, and the points of it that were tried."""

    save: int
    """Number of the save in the training, from 1."""
    step: int
    """Step of the checkpoint."""
    operations: int
    points: Sequence[Point]
    is_implied: bool
    """Whether no line said that it was complete."""
    blind: Sequence[str]
    """Ways to change files that the training used and that are no points (`file_calls.BLIND`)."""


@dataclass(slots=True, kw_only=True)
class SaveWindow:
    """Where the n-th save of a training lies: from the first progress after the save before it up
    to the first progress after it. Several lines about one save count once.
    """

    number: int
    is_implied: bool = False
    """Whether no line says that a checkpoint is complete: it then is one report of progress after
    files were created, replaced or removed. The first line that says so ends that.
    """
    step: int | None = None
    """Step of the newest progress."""
    stride: int = 0
    """Fewest steps between two reports of progress; 0: there were not two."""
    saves: int = 0
    saved: int | None = None
    """Step of the newest complete checkpoint."""
    _has_moved: bool = False
    """Whether there was progress since the newest save."""
    _is_touched: bool = False
    """Whether files changed since the newest progress."""
    _written: int | None = None
    """Step of a checkpoint whose last file is there: complete once there is progress beyond it."""

    def see(self, said: TrainerLine) -> None:
        """Take in what the training says."""
        if said.what is LineKind.PROGRESS:
            before, self._has_moved = self.step, True
            if self.is_implied and self._is_touched:
                self.saves, self.saved, self._is_touched = self.saves + 1, before, False
            self.step = (before or 0) + 1 if said.step is None else said.step
            if self._written is not None and self.step > self._written:
                self.saves, self.saved, self._written = self.saves + 1, self._written, None
            if before is not None and self.step > before:
                self.stride = min(self.stride or self.step - before, self.step - before)
        elif said.what is LineKind.SAVED:
            self.saves = (0 if self.is_implied else self.saves) + self._has_moved
            self.is_implied = False
            self._has_moved = False
            self.saved = self.step if said.step is None else said.step

    def wrote(self, step: int | None) -> None:
        """Take in the last file of a checkpoint, again while it grows; one without a step is of the
        newest progress.
        """
        own = (self.step or 0) if step is None else step
        if own != self.saved:
            self._written = max(own, self._written or 0)

    def touch(self, call: FileCall) -> None:
        """Take in an operation on a file."""
        if self.step is not None and call.call.startswith(_NAMES_FILES):
            self._is_touched = True

    @property
    def is_open(self) -> bool:
        """Whether an operation now is one of the save, or of what comes with it."""
        return self.saves == (self.number - 1 if self._has_moved else self.number)

    @property
    def is_over(self) -> bool:
        """Whether the training has gone on after the save."""
        return self._has_moved and self.saves >= self.number


def sweep(
    start: Callable[[Path], Program], record: Path, *, save: int, points: int,
    on_progress: Callable[[int, int], None],
) -> Sweep:  # fmt: skip
    """Kill a training at `points` places of its `save`-th save, from 1, and start it again.

    Below `record` there is a folder for each point that is not ok: `killed.log`, `resumed.log`
    and, for the first of its kind, `checkpoints`. FleetError if the training does not come to that
    save, or changes no file below its folder in it.
    """
    try:
        traced = _trace(start, record / "traced", save)
    finally:
        shutil.rmtree(record / "traced", ignore_errors=True)
    operations = len(traced.calls) - traced.first
    chosen = spread(operations + 1, points)
    found: list[Point] = []
    on_progress(0, len(chosen))
    for number in chosen:
        place = record / f"point-{number + 1:03}"
        is_kept = False
        try:
            point = _try(start, place, traced, number)
            is_kept = point.outcome is not Outcome.OK
        finally:
            if not is_kept:
                shutil.rmtree(place, ignore_errors=True)
        if kind(point) in map(kind, found):
            shutil.rmtree(place / _FOLDER, ignore_errors=True)
        found.append(point)
        on_progress(len(found), len(chosen))
    return Sweep(
        save=save, step=traced.step, operations=operations, points=found,
        is_implied=traced.is_implied, blind=sorted(traced.blind),
    )  # fmt: skip


def kind(point: Point) -> tuple[str, str, Outcome]:
    """Key of the points that share a line of a table."""
    return point.call, point.file, point.outcome


def spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers below `count`, evenly, with the first and the last."""
    if count <= most:
        return list(range(count))
    return [round(at * (count - 1) / max(1, most - 1)) for at in range(most)]


def constant_name(file: str) -> str:
    """A file's name without numbers and random parts, which differ from save to save."""
    return _VARYING.sub("*", file)


# ---------------------------------------------------------------- runs of the training

_FOLDER = "checkpoints"
_TAIL_BYTES = 8_192


class _Life(Traced):
    """One start of the training in a folder, and its output."""

    def __init__(self, start: Callable[[Path], Program], place: Path, log: str, save: int) -> None:
        folder, self._log = place / _FOLDER, place / log
        folder.mkdir(parents=True, exist_ok=True)
        program = start(folder)
        super().__init__(
            program.command, folder=folder, environment=program.environment, output=self._log
        )
        has_files = bool(program.checkpoints) and program.patterns.saved is None
        self._files = SavedFiles(folder, program.checkpoints) if has_files else None
        is_implied = program.patterns.saved is None and not has_files
        self.window = SaveWindow(number=save, is_implied=is_implied)
        self.resumed: int | None = None
        self.first: int | None = None
        """Step of its first progress."""
        self.is_silent = False
        """Whether it made no further step for too long."""
        self._reader, self._max_pause_s = Reader(program.patterns), program.max_pause_s
        self._furthest, self._since_s = -1, time.monotonic()
        self._read_bytes = 0

    @property
    def nearest(self) -> str:
        """The unmatched line that is most similar to progress."""
        return self._reader.nearest

    @property
    def goes_on(self) -> bool:
        return self.exit_code is None and not self.is_silent

    def turn(self) -> FileCall | None:
        """The next operation on a file, after all that was said before it."""
        call = self.next_call()
        with self._log.open("rb") as output:
            output.seek(self._read_bytes)
            chunk = output.read()
        self._read_bytes += len(chunk)
        if self._files and (chunk or call is not None):
            at = max(0, self._furthest)
            for one in self._files.read(at):  # what was written before it was printed or done
                self.window.wrote(one.step)
        said = self._reader.feed(chunk)
        for one in said if self.exit_code is None else (*said, *self._reader.end()):
            self._hear(one)
        if call is not None:
            self.window.touch(call)
        self.is_silent = time.monotonic() - self._since_s > self._max_pause_s
        return call

    def _hear(self, said: TrainerLine) -> None:
        self.window.see(said)
        if said.what is LineKind.RESUMED:
            self.resumed = said.step
        step = self.window.step
        if said.what is not LineKind.PROGRESS or step is None:
            return
        if self.first is None:
            self.first = step
        if step > self._furthest:
            self._furthest, self._since_s = step, time.monotonic()

    def start_step(self, stride: int) -> int | None:
        """Step from which it went on, as its first progress shows; None before that."""
        if self.first is None:
            return None
        shown = max(0, self.first - stride)
        return shown if self.resumed is None else min(self.resumed, shown + stride)

    def last_words(self) -> str:
        """Its end, and its last line."""
        if self.exit_code is None:
            how = f"made no further step for {show_duration(self._max_pause_s)}"
        elif self.exit_code < 0:
            how = f"ended by {signal.Signals(-self.exit_code).name}"
        else:
            how = f"ended with exit code {self.exit_code}"
        with self._log.open("rb") as output:
            output.seek(max(0, self._read_bytes - _TAIL_BYTES))
            lines = [line for line in map(plain, output.read().splitlines()) if line.strip()]
        return f"{how}: {lines[-1].strip()}" if lines else f"{how}, and printed nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Save:
    """A save as it was traced."""

    number: int
    step: int
    stride: int
    """Steps between two reports of progress."""
    calls: Sequence[FileCall]
    """All since the save before it."""
    first: int
    """Index of the first one that may be of this save: those of earlier steps are of a log."""
    is_implied: bool
    blind: set[str]


def _trace(start: Callable[[Path], Program], place: Path, save: int) -> _Save:
    """The operations of a save, in a training that is ended after it."""
    calls: list[FileCall] = []
    steps: list[int] = []
    blind: set[str] = set()
    with _Life(start, place, "traced.log", save) as life:
        while life.goes_on and not life.window.is_over:
            call = life.turn()
            if call is not None and call.call in BLIND:
                blind.add(BLIND[call.call])
            elif call is not None and life.window.is_open:
                calls.append(call)
                steps.append(life.window.step or 0)
    window = life.window
    if window.step is None:
        near = f"; the nearest line was `{life.nearest}`" if life.nearest else ""
        raise FleetError(
            f"no line matched training.script.progress{near}. The training {life.last_words()}"
        )
    if not window.is_over or window.saved is None:
        raise FleetError(
            f"the training reported {plural(window.saves, 'save')} up to step {window.step:,}, and "
            f"no progress after save {save}. Check training.script.saved, train longer, or choose "
            f"another save with --save. The training {life.last_words()}"
        )
    of_save = (n for n, step in enumerate(steps) if step >= window.saved - window.stride)
    first = next(of_save, len(calls))
    if first == len(calls):
        raise FleetError(
            f"no file below {{folder}} changed while the checkpoint of step {window.saved:,} was "
            "saved: let training.script.command keep its checkpoints in {folder}, and not buffer "
            "its output"
        )
    return _Save(
        number=save, step=window.saved, stride=window.stride, calls=calls, first=first,
        is_implied=window.is_implied, blind=blind,
    )  # fmt: skip


def _try(start: Callable[[Path], Program], place: Path, traced: _Save, number: int) -> Point:
    """Kill a new training before operation `number` of its save, from 0, and start it again."""
    calls: list[FileCall] = []
    at = traced.first + number
    with _Life(start, place, "killed.log", traced.number) as life:
        while life.goes_on and not life.window.is_over and len(calls) <= at:
            call = life.turn()
            if call is not None and call.call not in BLIND and life.window.is_open:
                calls.append(call)
    complete = life.window.saved
    if len(calls) <= at and not life.window.is_over:
        outcome, resumed, words = Outcome.NOT_REACHED, None, life.last_words()
    else:
        outcome, resumed, words = _started_again(start, place, traced, complete)
    killed = calls[at] if len(calls) > at else AFTER_THE_LAST
    return Point(
        number=number + 1, call=killed.call, file=constant_name(killed.file), outcome=outcome,
        complete=complete, resumed=resumed, words=words,
        is_repeated=_order(calls) == _order(traced.calls[: at + 1]),
    )  # fmt: skip


def _started_again(
    start: Callable[[Path], Program], place: Path, traced: _Save, complete: int | None
) -> tuple[Outcome, int | None, str]:
    """Outcome after a kill and a new start, the step from which it resumed, its last words.

    A resume is off by up to one report: trainers differ in whether a step is counted before it is
    done.
    """
    least = None
    if complete is not None:
        least = complete - min(traced.stride, max(0, traced.step - complete) // 2)
    began = None
    with _Life(start, place, "resumed.log", traced.number) as life:
        while life.goes_on:
            life.turn()
            began = life.start_step(traced.stride)
            if began is not None and least is not None and began < least:
                return Outcome.LOST, began, ""
            if (life.window.step or 0) > traced.step:
                return Outcome.OK, began, ""
    if life.exit_code == 0 and began is not None:
        return Outcome.OK, began, ""
    return Outcome.STUCK, began, life.last_words()


def _order(calls: Sequence[FileCall]) -> list[tuple[str, int]]:
    """Calls in order, and which files are the same: names may differ from run to run."""
    files = list(dict.fromkeys(call.file for call in calls))
    return [(call.call, files.index(call.file)) for call in calls]
