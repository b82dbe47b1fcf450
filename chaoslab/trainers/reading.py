r"""Reading of a trainer's output: steps, losses, saved and resumed checkpoints.

    bytes ─► Reader.feed ─► lines, split at \r and \n, without colours ─► Patterns ─► [Said, …]
                                                                      └► nearest: none matched

A line that matches as it stands is taken as it stands. Otherwise it is tried without the prefix of
its rank (`[rank0]:`), then with `nan` and `inf` as numbers, then with quotes as spaces, so that a
pattern written for `loss: 2.31` also reads `'loss': '2.31'` and does not lose sight of a loss that
became `nan`. Lines printed for chaoslab (`chaoslab: step=12 loss=3.25`) are read by any Reader.
Where steps and losses stand on lines of their own, a loss is told with the next step.

Lines are cut after 2,000 characters, and a pattern that repeats a repetition, as `(\w+\s*)+`, is
refused: Python's `re` has no time limit, and such a pattern takes exponential time on a line that
it does not match. Alternatives that overlap, as `(\w|\d)+`, are not recognized as that.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import LineKind, TrainerSaid

MAX_CHARACTERS: Final = 2_000
"""Characters of a line that are read."""
MAX_SHOWN: Final = 300
CURSOR_UP: Final = "↑"
_GROUPS: Final = (
    "step", "loss", "second_loss", "lr", "rank", "epoch", "epoch_from_1", "steps_per_epoch",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerLine:
    """Progress, checkpoint or resume in one line of a trainer's output."""

    what: LineKind
    step: int | None
    """Optimizer step, as the trainer counts; None if the line has none."""
    loss: float | None = None
    """May be nan or infinite."""
    learning_rate: float | None = None
    rank: int | None = None
    """Rank by a group `rank`, or by a prefix such as `[rank1]:` or `[GPU1]`."""
    line: str = ""
    """The line without colours, at most 300 characters."""
    age_s: float = 0.0
    """Time since it was said, of a checkpoint that a file tells."""

    def by(self, node: str, incarnation: int) -> TrainerSaid:
        """The event of a node that said it."""
        return TrainerSaid(
            node=node,
            incarnation=incarnation,
            what=self.what,
            step=self.step,
            loss=self.loss,
            learning_rate=self.learning_rate,
            rank=self.rank,
            line=self.line,
            age_s=self.age_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """Regular expressions, searched for in each line, with named groups.

    `step`, `loss`, `lr` and `rank` are numbers. A `step` that counts anew in each epoch becomes
    `epoch * steps_per_epoch + step` where the line has these groups too. Epochs count from 0, or
    from 1 with the group `epoch_from_1`. `second_loss` is that of a bar which is drawn twice for
    each step: first with the loss of the step before, then with its own.
    """

    progress: re.Pattern[str]
    saved: re.Pattern[str] | None = None
    resumed: re.Pattern[str] | None = None

    @classmethod
    def of(
        cls, *, progress: str, saved: str | None = None, resumed: str | None = None
    ) -> "Patterns":
        """Patterns of a plan; PlanError with the key of one that cannot be used."""
        made = _compiled(LineKind.PROGRESS, progress)
        if not {"step", "loss", "steps_per_epoch"} & made.groupindex.keys():
            raise PlanError(
                f"needs a named group for the step or the loss, as in step (?P<step>\\d+), "
                f"got `{progress}`",
                key=LineKind.PROGRESS,
            )
        return cls(
            progress=made,
            saved=None if saved is None else _compiled(LineKind.SAVED, saved),
            resumed=None if resumed is None else _compiled(LineKind.RESUMED, resumed),
        )

    def read(self, line: str) -> list[TrainerLine]:
        """Matches of one line; empty if there are none.

        `resumed from step 50` is no 50th step: a line that says so says nothing else, and one that
        says that a checkpoint was saved is progress too only if it has a loss.
        """
        if self.resumed and (resumed := _said(LineKind.RESUMED, self.resumed, line)):
            return [resumed]
        progress = _said(LineKind.PROGRESS, self.progress, line)
        saved = _said(LineKind.SAVED, self.saved, line) if self.saved else None
        if saved and progress and progress.loss is None:
            progress = None
        return [one for one in (progress, saved) if one]


class Reader:
    """One stream of a trainer's output; `feed` takes bytes as they come."""

    def __init__(self, patterns: Patterns) -> None:
        self.nearest = ""
        """Of the lines that matched nothing, before any was progress: the one that has a number
        and most of the words step, iteration, loss, epoch and batch."""
        self._patterns = patterns
        self._rest = b""
        self._nearness = 0
        self.is_understood = False
        """Whether a line was progress."""
        self._may_have_steps = "step" in patterns.progress.groupindex
        """Reset once lines with a loss alone show that no line has a step."""
        self._step: int | None = None
        self._loss: TrainerLine | None = None
        """Said without a step, and not told yet."""
        self._last: TrainerLine | None = None
        """The last line with a step, and with the loss that belongs to it."""
        self._is_waiting = self._has_lone_losses = False
        """Whether `_last` waits for its loss, and whether any loss had a line of its own."""
        self._is_said_twice = "second_loss" in patterns.progress.groupindex
        self._once: TrainerLine | None = None
        """The first line of a step that is said twice, not told yet."""

    def feed(self, chunk: bytes) -> list[TrainerLine]:
        """Matches of the lines that end in this chunk."""
        *lines, rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[: 4 * MAX_CHARACTERS]
        return [said for line in lines if line for said in self._read(plain(line))]

    def end(self) -> list[TrainerLine]:
        """Matches of an unfinished last line, and of those that wait for another line."""
        found, held = self.feed(b"\n"), self._loss if self._last is None else None
        once = None if self._once is None else replace(self._once, loss=None)
        return [*found, *self._waiting(), *(one for one in (held, once) if one is not None)]

    def _read(self, line: str) -> list[TrainerLine]:
        own = OWN_LINES.read(line) if "chaoslab: " in line else []
        found = own or self._patterns.read(line)
        if any(said.what is LineKind.PROGRESS for said in found):
            self.is_understood = True
        elif not found and not self.is_understood:
            self._remember(line)
        if self._is_said_twice and not own:
            return [told for said in found for told in self._second(said)]
        return [told for said in found for told in self._paired(said)]

    def _second(self, said: TrainerLine) -> list[TrainerLine]:
        """Of a step that is said twice the second time; without a loss, if that never comes. The
        very first line, which has no loss, is that of an empty bar.
        """
        is_progress = said.what is LineKind.PROGRESS
        if is_progress and said.step == self._step:
            return []
        once, self._once = self._once, None
        is_second = once is not None and once.step == said.step
        is_empty_bar = once is None and self._step is None and said.loss is None
        if is_progress and (is_second or is_empty_bar):
            self._step = said.step
            return [said]
        told = [] if once is None else [replace(once, loss=None)]
        if not is_progress:
            return [*told, said]
        self._once = said
        return told

    def _paired(self, said: TrainerLine) -> list[TrainerLine]:
        """A loss on a line without a step belongs to the next step, or to one that is said again
        below it, as a bar is: a step without a loss waits for the line that follows.
        """
        if said.what is not LineKind.PROGRESS:
            return [*self._waiting(), said]
        if said.step is None:
            return self._alone(said)
        last, loss = self._last, self._loss
        is_again = last is not None and (said.step, said.rank) == (last.step, last.rank)
        is_told = is_again and not self._is_waiting
        if said.loss is None and self._has_lone_losses and is_told:
            self._loss = loss if last is not None and last.loss is not None else None
            return []
        if said.loss is None and loss is not None:
            said = replace(said, loss=loss.loss, learning_rate=loss.learning_rate)
            self._loss = None
        found = [] if is_again else self._waiting()
        self._last, self._is_waiting = said, said.loss is None and self._has_lone_losses
        return found if self._is_waiting else [*found, said]

    def _alone(self, said: TrainerLine) -> list[TrainerLine]:
        """A loss without a step. Where two come in a row before any step, there are none: each
        line is one.
        """
        self._has_lone_losses = True
        held, self._loss = self._loss, None
        if self._last is None and (held is not None or not self._may_have_steps):
            self._may_have_steps = False
            return [said] if held is None else [held, said]
        self._loss = said
        return []

    def _waiting(self) -> list[TrainerLine]:
        """The step that waits for its loss, once there is none for it."""
        is_waiting, self._is_waiting = self._is_waiting, False
        return [self._last] if is_waiting and self._last is not None else []

    def _remember(self, line: str) -> None:
        words = line.lower()
        nearness = sum(word in words for word in _WORDS)
        if nearness > self._nearness and _DIGIT.search(line):
            self._nearness, self.nearest = nearness, line[:MAX_SHOWN]


def nearest_lines(lines: Sequence[str], patterns: Patterns, most: int = 3) -> list[str]:
    """Of lines none of which is progress by the patterns: those that come nearest, the best first;
    empty if one is.
    """
    found: list[str] = []
    while len(found) < most:
        reader = Reader(patterns)
        reader.feed("".join(f"{line}\n" for line in lines if line not in found).encode())
        if reader.is_understood:
            return []
        if not reader.nearest:
            break
        found.append(reader.nearest)
    return found


def plain(line: bytes) -> str:
    """A line without its end and without colours and other control sequences, cut if too long.

    A cursor that goes up, as after each bar that tqdm draws below another one, becomes an arrow.
    """
    text = line[: 4 * MAX_CHARACTERS].decode(errors="replace")
    if "\x1b" in text:
        text = _CONTROL.sub("", text.replace("\x1b[A", CURSOR_UP))
    return text.rstrip()[:MAX_CHARACTERS]


def plain_lines(text: bytes) -> list[str]:
    """The same of each line that is not empty, the states of a progress bar included."""
    return [plain(line) for line in text.replace(b"\r", b"\n").split(b"\n") if line.strip()]


# ---------------------------------------------------------------- a line

_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_PREFIX = re.compile(
    r"\s*\[(?:(?:rank|gpu|default|worker)[ :]?(\d+)\]:?|\d+,(\d+)\]<std(?:out|err)>:)\s*",
    re.IGNORECASE,
)
"""Prefix by torchrun (`[rank0]:`, `[default0]:`), a program (`[GPU0]`, `[Rank 0]`) or mpirun."""
_WORDS = ("step", "iter", "loss", "epoch", "batch")
_DIGIT = re.compile(r"\d")
_NOT_FINITE = re.compile(r"(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?![A-Za-z_])")
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf)", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?:,\d{3})+(?!\d|[.,]\d)")
_THOUSANDS_OR_MORE = re.compile(r"(?:,\d{3})+(?:\.\d+)?(?!\d|[.,]\d)")


def _said(what: LineKind, pattern: re.Pattern[str], line: str) -> TrainerLine | None:
    """Match of a line; None if it does not match, or has a word for a number."""
    prefix = _PREFIX.match(line) if "[" in line else None
    for searched, text in _readings(what, line, prefix):
        if match := pattern.search(searched):
            try:
                rank = _whole(match, "rank", text)
                if rank is None and prefix:
                    rank = int(prefix[1] or prefix[2])
                return TrainerLine(
                    what=what,
                    step=_step(match, text),
                    loss=_loss(match, text),
                    learning_rate=_value(match, "lr", text),
                    rank=rank,
                    line=line[:MAX_SHOWN],
                )
            except ValueError:
                continue
    return None


def _readings(what: LineKind, line: str, prefix: re.Match[str] | None) -> Iterator[tuple[str, str]]:
    """Texts in which a pattern is searched, and the text of the same length that has the values."""
    yield line, line
    if prefix:
        line = line[prefix.end() :]
        yield line, line
    if what is LineKind.PROGRESS:
        finite = _NOT_FINITE.sub(lambda found: "9.".ljust(len(found[0]), "9"), line)
        if finite != line:
            yield finite, line
        unquoted = finite.replace("'", " ").replace('"', " ")
        if unquoted != finite:
            yield unquoted, line


def _loss(match: re.Match[str], text: str) -> float | None:
    loss = _value(match, "loss", text)
    return _value(match, "second_loss", text) if loss is None else loss


def _step(match: re.Match[str], text: str) -> int | None:
    step, epoch = _whole(match, "step", text), _whole(match, "epoch", text)
    from_1 = _whole(match, "epoch_from_1", text)
    per_epoch = _whole(match, "steps_per_epoch", text)
    if from_1 is not None:
        epoch = from_1 - 1
    return step if epoch is None or per_epoch is None else epoch * per_epoch + (step or 0)


def _whole(match: re.Match[str], name: str, text: str) -> int | None:
    value = _value(match, name, text, thousands=_THOUSANDS)
    if value is None:
        return None
    if not value.is_integer():
        raise ValueError(value)
    return int(value)


def _value(
    match: re.Match[str], name: str, text: str, thousands: re.Pattern[str] = _THOUSANDS_OR_MORE
) -> float | None:
    """The number of a group, with the thousands that follow it: `1,234` is no 1.

    None if the pattern or the line has no such group; ValueError if it is no number.
    """
    if name not in match.re.groupindex or match.start(name) < 0:
        return None
    start, end = match.span(name)
    value = text[start:end]
    if end - start <= 3 and value.isdigit() and (more := thousands.match(text, end)):
        value += more[0]
    if not (number := _NUMBER.search(value.replace(",", ""))):
        raise ValueError(value)
    return float(number[0])


# ---------------------------------------------------------------- patterns of a plan

_PARTS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\(\?>|\(|\)|(?P<repeat>(?:[*+]|\{\d*,\})(?P<possessive>\+?))",
    re.DOTALL,
)


def _compiled(key: str, pattern: str) -> re.Pattern[str]:
    try:
        made = re.compile(pattern)
    except re.error as wrong:
        raise PlanError(
            f"is no regular expression: {wrong.msg} at character {(wrong.pos or 0) + 1} of "
            f"`{pattern}`; put a backslash before a character that is meant as it is",
            key=key,
        ) from None
    for name in made.groupindex:
        if name not in _GROUPS:
            near = get_close_matches(name, _GROUPS, n=1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise PlanError(
                f"unknown group {name!r}: {meant}Groups are {', '.join(_GROUPS)}", key=key
            )
    if repeated := _repeats_a_repetition(pattern):
        raise PlanError(
            f"`{repeated}` repeats what is repeated in it, which takes exponential time on a line "
            f"that does not match: write .*? for any text, or a limit such as {{1,9}}",
            key=key,
        )
    return made


def _repeats_a_repetition(pattern: str) -> str:
    """The first group without limit in which something is repeated without limit; or empty."""
    groups: list[int] = []
    repeats = [False]
    for part in _PARTS.finditer(pattern):
        if part["repeat"]:
            repeats[-1] |= not part["possessive"]
        elif part[0] in {"(", "(?>"}:
            groups.append(part.start())
            repeats.append(False)
        elif part[0] == ")":
            start = groups.pop()
            is_repeating = repeats.pop() and not pattern.startswith("(?>", start)
            after = _PARTS.match(pattern, part.end())
            if is_repeating and after and after["repeat"] and not after["possessive"]:
                return pattern[start : after.end()]
            repeats[-1] |= is_repeating
    return ""


OWN_LINES: Final = Patterns.of(
    progress=r"chaoslab: step=(?P<step>\d+)(?: loss=(?P<loss>\S+))?(?: lr=(?P<lr>\S+))?",
    saved=r"chaoslab: saved step=(?P<step>\d+)",
    resumed=r"chaoslab: resumed step=(?P<step>\d+)",
)
"""The lines that a program prints itself, for chaoslab."""
