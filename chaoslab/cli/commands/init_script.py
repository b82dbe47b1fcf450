"""First gate of a training of the user's own: from a sample of its output to a plan.

command ─► prepare.script_sample ─► Understood ─► ScriptGate ─┬─► plan
                                                              └─► what was understood, assumed
"""

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from chaoslab.cli.commands.options import bundled, duration
from chaoslab.cli.commands.output import paired
from chaoslab.core.clock import WallClock
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.units import plural, show_duration
from chaoslab.plan.model import AFTER_S, ROUNDS_AFTER, Script
from chaoslab.plan.model.script import FOLDER, MOST_WORKERS
from chaoslab.prepare.script_lines import without_saved
from chaoslab.prepare.script_sample import Sample, Understood, take, understand
from chaoslab.trainers.presets import preset
from chaoslab.trainers.reading import TrainerLine

_STARTER = Path(__file__).parent.parent / "starter"
_WARMUP_ROUNDS, _WINDOW_ROUNDS, _MOST_ROUNDS = 4, 16, 400
"""Lengths of the baseline. Its window is as long as what is judged later, and holds two saves,
unless these are very many rounds apart."""
_SPARE_ROUNDS = 3
_DOWN_S = 2.0
_LONG_S = 600.0
"""A longer run is worth a hint."""
_SAFE = re.compile(r"[\w@%+=:,./{}-]+")


def command_line(words: Sequence[str]) -> str:
    """The words as one line; of one word, that word is the whole line."""
    if len(words) == 1:
        return words[0]
    return " ".join(word if _SAFE.fullmatch(word) else shlex.quote(word) for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Options of the command line about a script."""

    workers: int
    progress: str
    saved: str
    resumed: str
    sample_s: float

    def gate(self, command: str, *, quiet: bool) -> "ScriptGate":
        """The gate of this command, which is run for a moment; PlanError if it cannot be judged."""
        script = Script(
            command=command,
            workers=self.workers,
            progress=self.progress,
            saved=self.saved,
            resumed=self.resumed,
        )
        if not quiet:
            most = show_duration(self.sample_s)
            click.echo(f"running {command}, then killing it and running it again; {most} at most",
                       err=True)  # fmt: skip
        sample = take(script, within_s=self.sample_s, clock=WallClock())
        gate = ScriptGate(script=script, sample=sample, understood=understand(sample, script))
        gate.refuse_short()
        return gate


sampling_options = bundled(
    "sampling",
    Sampling,
    click.option("--workers", type=click.IntRange(1, MOST_WORKERS), default=1, show_default=True,
                 help="Workers of a script, told apart by {rank} in its command, or started by a "
                      "launcher, which is a command without it."),
    click.option("--progress", metavar="REGEX", default="", help="Of a script: lines that report "
                 "progress, with groups step and loss.  [default: recognized]"),
    click.option("--saved", metavar="REGEX", default="", help="The same of a saved checkpoint."),
    click.option("--resumed", metavar="REGEX", default="", help="The same of a resumed one."),
    click.option("--sample", "sample_s", metavar="DURATION", callback=duration, default="30s",
                 show_default=True, help="Longest time for which a script is run."),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptGate:
    """What is written, and what is said about it."""

    script: Script
    """The script, as it was asked for."""
    sample: Sample
    understood: Understood

    # ---------------------------------------------------------------- numbers

    @property
    def window(self) -> int:
        """Rounds of the baseline."""
        one = self.understood
        two_saves = 2 * (one.saves_every or 0) / one.steps_between
        wanted = max(two_saves, AFTER_S / self._round_s)
        return min(_MOST_ROUNDS, max(_WINDOW_ROUNDS, math.ceil(wanted)))

    @property
    def _round_s(self) -> float:
        return max(1e-3, self.understood.step_s * self.understood.steps_between)

    @property
    def kill_step(self) -> int:
        """After the baseline, in the middle between two checkpoints."""
        one = self.understood
        least = (_WARMUP_ROUNDS + self.window + _SPARE_ROUNDS) * one.steps_between
        if every := one.saves_every:
            return every * max(1, math.ceil((least - every // 2) / every)) + every // 2
        return least

    @property
    def last_step(self) -> int:
        """The first step that a run need not reach."""
        rounds = min(_MOST_ROUNDS, max(ROUNDS_AFTER, math.ceil(AFTER_S / self._round_s)))
        return self.kill_step + (2 + rounds) * self.understood.steps_between

    @property
    def run_s(self) -> float:
        """About as long takes a run; its twin as well."""
        one = self.understood
        return 2 * one.start_s + _DOWN_S + one.step_s * (self.last_step + (one.saves_every or 0))

    def refuse_short(self) -> None:
        """PlanError if it ends before it can be judged."""
        one = self.understood
        if not self.sample.second and one.last_step < self.last_step:
            raise PlanError(
                f"it ended at step {one.last_step:,}, and a run needs {self.last_step:,} steps "
                f"({plural(_WARMUP_ROUNDS + self.window, 'report')} before the kill and "
                f"{plural(self.last_step - self.kill_step, 'step')} after "
                "it): let it make more steps, as chaoslab ends it, or report more often"
            )

    # ---------------------------------------------------------------- the plan

    @property
    def written(self) -> Script:
        """The script of the plan: with a preset, or with patterns."""
        one, found = self.understood, self.understood.patterns
        of_preset = preset(one.preset).checkpoints if one.preset else ""
        return replace(
            self.script,
            progress="" if one.preset else found.progress.pattern,
            saved="" if one.preset or found.saved is None else found.saved.pattern,
            resumed="" if one.preset or found.resumed is None else found.resumed.pattern,
            preset=one.preset,
            checkpoints="" if one.checkpoints == of_preset else one.checkpoints,
            reports="one" if one.speech.is_one_for_all else "each",
            max_pause_s=max(self.script.max_pause_s, _seconds(4 * self._start_s)),
        )

    def plan(self) -> str:
        """The text of the plan."""
        one, has_loss = self.understood, self.understood.progress.loss is not None
        is_single = self.script.workers == 1
        divergence = "  - {check: divergence}               # its losses are those of the twin"
        if not has_loss:
            divergence = "# no loss is printed: a twin would have nothing to be compared with"
        settle_s = 2 * self._start_s + one.step_s * (one.saves_every or 0) + 48 * self._round_s
        return filled(
            "script_gate.yaml",
            {
                "SCRIPT": "\n".join(f"    {line}" for line in self._settings()),
                "ALIVE": "0" if is_single else str(self.script.workers - 1),
                "WINDOW": str(self.window),
                "STEP": str(self.kill_step),
                "WHY": self._why_then,
                "SETTLE": _shown(max(30.0, settle_s)),
                "TIMEOUT": _shown(max(300.0, 3 * self.run_s)),
                "NO_ROUND": _shown(2 * self.written.max_pause_s),
                "WITHIN": _shown(max(30.0, 4 * self._start_s)),
                "DIVERGENCE": divergence,
            },
            without=() if has_loss else ("twin:",),
        )

    @property
    def _start_s(self) -> float:
        one = self.understood
        return one.start_s + self._round_s

    @property
    def _why_then(self) -> str:
        every = self.understood.saves_every
        if every is None:
            return "after the baseline; nothing is known of checkpoints"
        return f"between two checkpoints: it saves {_each(every)}"

    def _settings(self) -> Iterator[str]:
        script = self.written
        yield f"command: {quoted(script.command)}"
        yield f"workers: {script.workers}"
        for key in ("progress", "saved", "resumed"):
            if pattern := getattr(script, key):
                if said := getattr(self.understood, key):
                    yield f"# {_shown_line(said)}"
                yield f"{key}: {quoted(pattern)}"
        if script.preset:
            yield f"preset: {script.preset}"
        if script.checkpoints:
            yield f"checkpoints: {quoted(script.checkpoints)}"
        if script.reports == "one":
            yield "reports: one"
        if script.max_pause_s != self.script.max_pause_s:
            yield f"max_pause: {show_duration(script.max_pause_s)}"

    # ---------------------------------------------------------------- what is said

    def said(self) -> Iterator[tuple[str, str]]:
        """Summary of what was understood of the output: labels and texts."""
        one = self.understood
        by = f", as of {one.preset}" if one.preset else ""
        what = "step and loss" if one.progress.loss is not None else "step"
        if one.progress.step is None:
            what = "loss; lines are counted as steps"
        times = f"a step takes {one.step_s:.3g} s, a start {one.start_s:.1f} s"
        line = f"{_shown_line(one.progress)}: {what}, {_each(one.steps_between)}{by}"
        yield "progress", f"{line}; {times}"
        if one.saved is not None and one.saves_every is not None:
            yield "saved", f"{_shown_line(one.saved)}: {_each(one.saves_every)}"
        elif one.checkpoints and one.saves_every is not None:
            yield "saved", f"files {one.checkpoints}: {_each(one.saves_every)}"
        if one.resumed is not None:
            yield "resumed", f"{_shown_line(one.resumed)}: after a kill and another start"
        elif one.resumed_step is not None:
            yield (
                "resumed",
                f"no line; after a kill and another start from step {one.resumed_step:,}",
            )
        run = show_duration(_seconds(self.run_s))
        yield "kill", f"at step {self.kill_step:,}, {self._why_then}"
        yield "takes", f"about {run}, and its fault-free twin as long"

    def page(self) -> Table:
        """Page of what was understood, and what was not."""
        doubts = (("note", doubt) for doubt in self.doubts())
        return paired([(Text(word), text) for word, text in (*self.said(), *doubts, ("", ""))])

    def doubts(self) -> Iterator[str]:
        """Facts that were not found or were assumed, and what would show them."""
        one = self.understood
        if self._goes_back:
            yield (
                f"step {one.saved_step:,} was saved, and the second start went on from step "
                f"{one.resumed_step:,}: the gate will fail until it resumes"
            )
        elif one.resumed is None:
            near = f" (nearest: {one.near_resumed})" if one.near_resumed else ""
            yield (
                f"no line says from which step it goes on{near}: the first report after a start "
                "tells it; print `chaoslab: resumed step=N`, or name the line with --resumed"
            )
        if one.saved is None and not one.checkpoints:
            yield without_saved(one.near_saved, "--saved")
        if one.progress.loss is None:
            yield (
                "no loss is printed: a resume with other data, moments or learning rate is not "
                "found; print `chaoslab: step=N loss=X`"
            )
        if one.speech.is_one_for_all and one.speech.mixed is None:
            yield "one worker reports for all: of the others only their processes are known"
        yield from one.speech.doubts()
        yield from self._of_second_start()
        yield from self._of_folder()
        if self.run_s > _LONG_S:
            run = show_duration(_seconds(self.run_s))
            yield f"a run takes about {run}: let it report and save more often in this gate"

    @property
    def _goes_back(self) -> bool:
        one = self.understood
        if one.resumed_step is None or one.saved_step is None:
            return False
        return one.resumed_step < one.saved_step - one.steps_between

    def _of_second_start(self) -> Iterator[str]:
        for name, start in self.sample.second.items():
            if start.is_failed:
                how = f"started again after the kill, {name} ended ({start.ended})"
                yield f"{how}:\n{start.last_words}"
                return
        if self.sample.second and self.understood.resumed_step is None:
            yield "started again after the kill, it reported nothing in time: use --sample 2m"

    def _of_folder(self) -> Iterator[str]:
        if self.sample.has_kept:
            return
        if FOLDER not in self.script.command:
            yield (
                f"the command names no {FOLDER}: a run goes on from the checkpoints of an earlier "
                "one, as this sample may have done, and its own are left there; let it keep them "
                f"in a folder that the command line names, and write {FOLDER} for it"
            )
        elif self.understood.saved is not None:
            yield (
                f"the command is given {FOLDER}, and wrote nothing there although it says that it "
                "saved: its checkpoints outlive a run, and the next one goes on from them"
            )

    def to_json(self) -> Mapping[str, Json]:
        """The result as data."""
        one = self.understood
        return {
            "preset": one.preset,
            "progress": _line_json(one.progress, one.patterns.progress),
            "saved": _line_json(one.saved, one.patterns.saved),
            "resumed": _line_json(one.resumed, one.patterns.resumed),
            "steps_between_reports": one.steps_between,
            "step_s": one.step_s,
            "start_s": one.start_s,
            "checkpoints": one.checkpoints,
            "saves_every": one.saves_every,
            "saved_step": one.saved_step,
            "resumed_step": one.resumed_step,
            "reports": self.written.reports,
            "keeps_files_in_folder": self.sample.has_kept,
            "kill_step": self.kill_step,
            "run_s": self.run_s,
            "doubts": list(self.doubts()),
        }


def filled(template: str, values: Mapping[str, str], without: Sequence[str] = ()) -> str:
    """A file of `starter` with `@KEY@` filled in, without the lines that begin so."""
    lines = (_STARTER / template).read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(tuple(without) or ("\0",)))
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _line_json(said: TrainerLine | None, pattern: "re.Pattern[str] | None") -> Json:
    if said is None:
        return None
    return {
        "line": said.line,
        "pattern": pattern.pattern if pattern else "",
        "step": said.step,
        "loss": said.loss,
    }


def _shown_line(said: TrainerLine) -> str:
    return "".join(filter(str.isprintable, said.line.strip()))[:80]


def _each(steps: int) -> str:
    return "every step" if steps == 1 else f"every {steps:,} steps"


def quoted(text: str) -> str:
    """As a YAML scalar, in which backslashes stand for themselves."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _seconds(value: float) -> float:
    """Rounded up to a number that people would write."""
    unit = 5.0 if value <= 60 else 60.0
    return math.ceil(value / unit) * unit


def _shown(value: float) -> str:
    return show_duration(_seconds(value))
