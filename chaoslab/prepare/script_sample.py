"""Sample of a script: its command runs for a short time, is killed, and starts again in its folder.

    Script ─► take ─► Sample: what each worker printed, when ─► understand ─► Understood

`understand` is pure; `take` starts processes on this machine and leaves none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import LineKind, NodeExited
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.plan.model import FaultPlan, Script, Training
from chaoslab.prepare.launch import Launch
from chaoslab.prepare.script_lines import (
    Speech,
    nearest,
    nearest_saved,
    patterns_of,
    said_in,
    speech_of,
)
from chaoslab.record.exits import ending
from chaoslab.trainers.presets import CHECKPOINT_FILES
from chaoslab.trainers.reading import Patterns, Reader, TrainerLine, nearest_lines, plain
from chaoslab.trainers.saved_files import SavedFiles
from chaoslab.undo.base import NoUndoLog

_POLL_S = 0.1
_LOOK_EVERY_S = 1.0
_LINES_MOST: Final = 4_000
"""Most lines of one start of a worker that are read."""
_FIRST_SHARE = 2 / 3
"""Share of the time for the first start; the rest is for the second one."""
_ENOUGH_REPORTS = 12
_ENOUGH_SAVES = 2
_NEAREST = 3
_RESUME_WORDS = ("resum", "restor", "load", "continu")


@dataclass(slots=True, kw_only=True)
class Start:
    """One start of one worker, or of the launcher of all."""

    began_s: float
    lines: list[tuple[float, str]] = field(default_factory=list)
    """Time at which each was read, and its text."""
    ended: str = ""
    """How it ended, if it ended by itself; otherwise empty."""
    is_failed: bool = False
    """Whether it ended by itself with anything but exit code 0."""

    @property
    def last_words(self) -> str:
        """The last lines that it printed."""
        return "\n".join(text for _, text in self.lines[-10:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Both starts of each worker, or of the launcher of all."""

    first: Mapping[str, Start]
    second: Mapping[str, Start] = field(default_factory=dict)
    """Empty if all workers had ended by themselves."""
    ran_s: float
    """Time of the first start."""
    has_kept: bool
    """Whether something was in {folder} when they were killed."""
    files: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Steps of the checkpoints that the first start saved, by pattern of a preset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """Findings of a sample about its script."""

    patterns: Patterns
    preset: str
    """The one that reads the lines; empty if the patterns are made from words of the lines."""
    progress: TrainerLine
    """A line that reports progress, as `saved` and `resumed` report theirs; None: no line does."""
    saved: TrainerLine | None
    resumed: TrainerLine | None
    near_saved: str
    """A line that may be about checkpoints but was not understood; `near_resumed`: on a resume."""
    near_resumed: str
    speech: Speech
    """Who reports the progress."""
    last_step: int
    """Last step of the first start."""
    steps_between: int
    """Steps from one report to the next."""
    step_s: float
    start_s: float
    """Longest time from the start of a worker to its first report."""
    checkpoints: str
    """The pattern by which files of checkpoints were found; empty: by none."""
    saves_every: int | None
    """Steps between two checkpoints; None: not known."""
    saved_step: int | None
    """The last one that was saved before the kill."""
    resumed_step: int | None
    """Step reported by the second start, or the step of the report before its first."""


def take(script: Script, *, within_s: float, clock: Clock) -> Sample:
    """Run all workers, kill them, run them again; Ctrl-C ends them, too.

    A start is over early when its lines are understood. FleetError if there is no such program.
    """
    with TemporaryDirectory(prefix="chaoslab-sample-") as made:
        root, folder = Path(made), Path(made) / "script"
        folder.mkdir()
        plan = FaultPlan(name="sample", training=Training(script=script))
        launch = Launch(plan=plan, snapshots=root, tokens=root, folder=folder)
        with LocalFleet(root, clock, undo_log=NoUndoLog()) as fleet:
            for spec in launch.workers(script):
                fleet.start(spec)
            began_s = clock.now_s()
            until_s = began_s + _FIRST_SHARE * within_s
            files = {one: SavedFiles(folder, one) for one in CHECKPOINT_FILES}
            names = script.started
            watch = _Watch(fleet=fleet, nodes=root / "nodes", names=names, clock=clock, files=files)
            first = watch.start(1, until_s, lambda lines: _is_enough(lines, script, watch))
            ran_s, has_kept = clock.now_s() - began_s, any(folder.iterdir())
            second: Mapping[str, Start] = {}
            saved = {pattern: tuple(steps) for pattern, steps in watch.saved.items()}
            if not all(start.ended for start in first.values()):
                fleet.kill(*names)
                for name in names:
                    fleet.restart(name)
                second = watch.start(
                    2, began_s + within_s, lambda lines: _is_enough(lines, script, reports=3)
                )
    return Sample(first=first, second=second, ran_s=ran_s, has_kept=has_kept, files=saved)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    fleet: Fleet
    nodes: Path
    names: Sequence[str]
    clock: Clock
    files: Mapping[str, SavedFiles]
    saved: dict[str, list[int]] = field(default_factory=dict)
    """Steps of the checkpoints whose files were seen, by pattern."""

    def start(
        self, life: int, until_s: float, is_enough: Callable[[Sequence[str]], bool]
    ) -> Mapping[str, Start]:
        """Output of the workers in one life, until all have ended or it is enough."""
        starts = {name: Start(began_s=self.clock.now_s()) for name in self.names}
        rests, read = dict.fromkeys(self.names, b""), dict.fromkeys(self.names, 0)
        looked_s, is_over = self.clock.now_s(), False
        while not is_over and (now_s := self.clock.now_s()) < until_s:
            for seen in self.fleet.poll(min(until_s, now_s + _POLL_S)):
                said = seen.payload
                if not isinstance(said, NodeExited) or said.incarnation != life:
                    continue
                if start := starts.get(said.node):  # workers of a launcher have none
                    start.ended, start.is_failed = ending(said), said.exit_code != 0
            is_over = all(start.ended for start in starts.values())
            for name, start in starts.items():
                log = self.nodes / name / str(life) / "stdout.log"
                with log.open("rb") as file:
                    file.seek(read[name])
                    chunk = file.read()
                read[name] += len(chunk)
                *whole, rests[name] = (rests[name] + chunk).replace(b"\r", b"\n").split(b"\n")
                time_s = self.clock.now_s()
                start.lines += [(time_s, plain(line)) for line in whole if line]
                is_over |= len(start.lines) >= _LINES_MOST
                del start.lines[_LINES_MOST:]
            for pattern, files in self.files.items():
                if steps := [said.step for said in files.read() if said.step is not None]:
                    self.saved.setdefault(pattern, []).extend(steps)
            if self.clock.now_s() - looked_s > _LOOK_EVERY_S:
                is_over |= is_enough(_texts(starts))
                looked_s = self.clock.now_s()
        return starts


def _texts(starts: Mapping[str, Start]) -> list[str]:
    return [text for start in starts.values() for _, text in start.lines]


def _is_enough(
    lines: Sequence[str], script: Script, watch: _Watch | None = None,
    *, reports: int = _ENOUGH_REPORTS,
) -> bool:  # fmt: skip
    """Whether as much progress was reported, and, of a `watch`, two checkpoints were saved."""
    patterns, _ = patterns_of(lines, script)
    said = [] if patterns is None else said_in(lines, patterns)
    steps = {one.step for one in said if one.what is LineKind.PROGRESS and one.step is not None}
    by_lines = sum(one.what is LineKind.SAVED for one in said)
    by_files = max(map(len, watch.saved.values()), default=0) if watch else 0
    return len(steps) >= reports and (watch is None or max(by_lines, by_files) >= _ENOUGH_SAVES)


# ---------------------------------------------------------------- what it says


def understand(sample: Sample, script: Script) -> Understood:
    """PlanError if it cannot be judged so: it failed, or no line of it is progress."""
    for name, start in sample.first.items():
        if start.is_failed:
            raise PlanError(f"{name} {start.ended}; it printed last:\n{start.last_words}\n")
    patterns, preset = patterns_of([*_texts(sample.first), *_texts(sample.second)], script)
    if patterns is None:
        raise PlanError(_nothing_found(sample, script))
    heard = {name: _heard(start, patterns) for name, start in sample.first.items()}
    progress = {name: _of(said, LineKind.PROGRESS) for name, said in heard.items()}
    name = max(progress, key=lambda one: len(progress[one]))
    reports = _counted(progress[name])
    if not reports:
        raise PlanError(_nothing_found(sample, script))
    if len(reports) < 2:
        raise PlanError(
            f"only one line reports progress in {sample.ran_s:.0f} s ({reports[0][2].line}): let "
            "it report more often, or give it more time with --sample 2m"
        )
    again = _heard(sample.second[name], patterns) if sample.second else []
    saves: Sequence[int] = _saved_steps(heard[name])
    checkpoints = ""
    if not saves and sample.files:
        checkpoints, saves = max(sample.files.items(), key=lambda one: len(one[1]))
    return Understood(
        patterns=patterns,
        preset=preset,
        progress=_shown(reports),
        saved=_said_first(heard[name], LineKind.SAVED),
        resumed=_said_first(again, LineKind.RESUMED),
        near_saved=nearest_saved(_texts(sample.first), patterns),
        near_resumed=nearest(_texts(sample.second), patterns, _RESUME_WORDS),
        speech=speech_of(
            {name: [one for _, one in said] for name, said in heard.items()}, script.workers
        ),
        last_step=max(step for _, step, _ in reports),
        steps_between=_steps_between(reports),
        step_s=(reports[-1][0] - reports[0][0]) / max(1, reports[-1][1] - reports[0][1]),
        start_s=_start_s(sample, patterns),
        checkpoints=checkpoints,
        saves_every=_every(saves),
        saved_step=max(saves, default=None),
        resumed_step=_resumed_step(again, _steps_between(reports)),
    )


def _start_s(sample: Sample, patterns: Patterns) -> float:
    """From a start to its first progress, at most."""
    return max(
        said[0][0] - start.began_s
        for start in (*sample.first.values(), *sample.second.values())
        if (said := _of(_heard(start, patterns), LineKind.PROGRESS))
    )


def _resumed_step(again: Sequence[tuple[float, TrainerLine]], steps_between: int) -> int | None:
    """Where the second start went on: as it said, or a report before its first one."""
    resumed, after = _said_first(again, LineKind.RESUMED), _counted(_of(again, LineKind.PROGRESS))
    if resumed is not None and resumed.step is not None:
        return resumed.step
    return max(0, after[0][1] - steps_between) if after else None


def _nothing_found(sample: Sample, script: Script) -> str:
    texts = _texts(sample.first)
    if not texts:
        return (
            f"it printed nothing in {sample.ran_s:.0f} s: give it more time with --sample 2m, or "
            "let it print `chaoslab: step=12 loss=3.25`"
        )
    own = script.progress
    what = f"`{own}` matches no line" if own else "no line looks like progress"
    near = nearest_lines(texts, script.patterns)
    shown = "\n".join(near or texts[-_NEAREST:])
    which = "nearest" if near else "last"
    return (
        f"{what} in {sample.ran_s:.0f} s; the {which} lines are:\n{shown}\nName it with "
        "--progress 'step (?P<step>\\d+)', or print `chaoslab: step=12 loss=3.25`"
    )


def _heard(start: Start, patterns: Patterns) -> list[tuple[float, TrainerLine]]:
    reader = Reader(patterns)
    return [
        (time_s, said) for time_s, line in start.lines for said in reader.feed(f"{line}\n".encode())
    ]


def _of(
    said: Sequence[tuple[float, TrainerLine]], what: LineKind
) -> list[tuple[float, TrainerLine]]:
    return [(time_s, one) for time_s, one in said if one.what is what]


def _said_first(said: Sequence[tuple[float, TrainerLine]], what: LineKind) -> TrainerLine | None:
    return next((one for _, one in _of(said, what)), None)


def _shown(reports: Sequence[tuple[float, int, TrainerLine]]) -> TrainerLine:
    """The last one, with a loss if any has one."""
    with_loss = [said for _, _, said in reports if said.loss is not None]
    return (with_loss or [said for _, _, said in reports])[-1]


def _counted(progress: Sequence[tuple[float, TrainerLine]]) -> list[tuple[float, int, TrainerLine]]:
    """Lines with a step each, counted where there is none, without repeated steps."""
    found: list[tuple[float, int, TrainerLine]] = []
    for time_s, said in progress:
        before = found[-1][1] if found else 0
        step = before + 1 if said.step is None else said.step
        if not found or step > before:
            found.append((time_s, step, said))
    return found


def _steps_between(reports: Sequence[tuple[float, int, TrainerLine]]) -> int:
    return round(median(b - a for (_, a, _), (_, b, _) in pairwise(reports)))


def _saved_steps(heard: Sequence[tuple[float, TrainerLine]]) -> list[int]:
    """Step of each saved checkpoint; without one in the line, that of the progress before it."""
    found, step = [], 0
    for _, said in heard:
        if said.what is LineKind.PROGRESS:
            step = step + 1 if said.step is None else said.step
        elif said.what is LineKind.SAVED:
            found.append(step if said.step is None else said.step)
    return found


def _every(saves: Sequence[int]) -> int | None:
    """Steps between checkpoints: between the last two, or up to the only one."""
    steps = sorted(set(saves))
    return None if not steps else steps[-1] - (steps[-2] if len(steps) > 1 else 0)
