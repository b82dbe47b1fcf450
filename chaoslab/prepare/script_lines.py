"""Lines that a training has printed: who speaks, by which patterns they are read, what they lack.

    lines ─► patterns_of ─► patterns, preset
    lines of each node ─► speech_of ─► one for all, or each; mixed
                     └──► recognized ─► keys of `training.script`, and doubts

Pure. `script_sample` has lines of a script that it runs, `attach` those of one that runs already.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chaoslab.checks.mixed_lines import said_of_mixed
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.payloads import LineKind, Mixing, TrainerMixed
from chaoslab.plan.model import Script
from chaoslab.trainers.presets import Candidate, guess
from chaoslab.trainers.reading import Patterns, Reader, TrainerLine
from chaoslab.trainers.script_progress import mixing_of

_LAST: Final = 3
"""Lines that are shown where none is progress."""
_SAVE_WORDS: Final = ("checkpoint", "ckpt", "snapshot", "sav")


def patterns_of(lines: Sequence[str], script: Script) -> tuple[Patterns | None, str]:
    """Patterns of the script; without them patterns that fit the lines, and their preset."""
    found = guess(lines)
    if not found and not script.progress:
        return None, ""
    best = found[0] if found and not script.progress else None
    if best is not None and best.preset == "chaoslab":
        return best.patterns, best.preset
    saved, resumed = (_first(key, script, found) for key in (LineKind.SAVED, LineKind.RESUMED))
    progress = best.patterns.progress.pattern if best else script.progress
    patterns = Patterns.of(progress=progress, saved=saved, resumed=resumed)
    return patterns, best.preset if best and patterns == best.patterns else ""


def _first(key: LineKind, script: Script, found: Sequence[Candidate]) -> str | None:
    """The pattern of a script's own, or else of the best reading that has one."""
    if own := getattr(script, key):
        return str(own)
    for number, one in enumerate(found):
        pattern: re.Pattern[str] | None = getattr(one.patterns, key)
        if pattern and (not number or any(said.what is key for said in one.said)):
            return pattern.pattern
    return None


def said_in(lines: Iterable[str], patterns: Patterns) -> list[TrainerLine]:
    """Matches of the lines, in order."""
    return Reader(patterns).feed("".join(f"{line}\n" for line in lines).encode())


def nearest(lines: Sequence[str], patterns: Patterns, words: Sequence[str]) -> str:
    """A line with the first of the words that is in any line that was not understood."""
    unread = [line for line in lines if not patterns.read(line)]
    return next((line for word in words for line in unread if word in line.lower()), "")


# ---------------------------------------------------------------- who speaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Who reports the progress of a training."""

    is_one_for_all: bool = False
    """Whether one of several workers does, or all of them say the same."""
    mixed: TrainerMixed | None = None
    """The line that shows that nothing tells the lines of several workers apart."""

    def doubts(self) -> Iterator[str]:
        """What cannot be judged for that, and what to do."""
        if self.mixed is not None:
            then = "it is written so" if self.is_one_for_all else "until then the gate is UNKNOWN"
            yield f"{said_of_mixed(self.mixed)}; {then}"


def speech_of(said: Mapping[str, Sequence[TrainerLine]], workers: int) -> Speech:
    """By the lines of each node that prints, which may be a launcher, or one of those that share a
    file.
    """
    names = Script(workers=workers).names
    lines = [
        line.by(_speaker(node, line, names), 1)
        for node, own in said.items()
        for line in own
        if line.what is LineKind.PROGRESS
    ]
    mixed = mixing_of(lines, names)
    is_together = (
        mixed is not None
        and mixed.how is Mixing.REPEATED
        and mixing_of(lines, names, is_one_for_all=True) is None
    )
    is_one = workers > 1 and len({line.node for line in lines}) == 1
    return Speech(is_one_for_all=is_one and (mixed is None or is_together), mixed=mixed)


def _speaker(node: str, line: TrainerLine, names: Sequence[str]) -> str:
    is_known = line.rank is not None and line.rank < len(names)
    return names[line.rank or 0] if is_known else node


# ---------------------------------------------------------------- a training that runs already


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognized:
    """What a plan says of a training by what it has printed."""

    keys: Mapping[str, Json]
    """Of `training.script`."""
    doubts: Sequence[str]
    """Facts that were not found, and what would show them."""


def recognized(printed: Mapping[str, Sequence[str]], workers: int) -> Recognized:
    """By what the nodes of a training have printed so far. PlanError if none of it is progress."""
    lines = [line for one in printed.values() for line in one]
    patterns, preset = patterns_of(lines, Script())
    if patterns is None:
        last = "\n".join(lines[-_LAST:]) or "nothing"
        raise PlanError(
            f"no line that it has printed looks like progress; the last ones are:\n{last}\nSay "
            "what it prints with `training.script.progress`, or where progress is read with "
            "`training.script.from`"
        )
    keys: dict[str, Json] = {"preset": preset}
    if not preset:
        made = {key: getattr(patterns, key) for key in ("progress", "saved", "resumed")}
        keys = {key: pattern.pattern for key, pattern in made.items() if pattern}
    said = {node: said_in(own, patterns) for node, own in printed.items()}
    speech, doubts = speech_of(said, workers), list[str]()
    if speech.is_one_for_all:
        keys["reports"] = "one"
    if all(line.what is not LineKind.SAVED for own in said.values() for line in own):
        doubts.append(without_saved(nearest_saved(lines, patterns), "`saved` in the plan"))
    return Recognized(keys=keys, doubts=[*doubts, *speech.doubts()])


def nearest_saved(lines: Sequence[str], patterns: Patterns) -> str:
    """A line that may be about a checkpoint, and was not understood; or empty."""
    return nearest(lines, patterns, _SAVE_WORDS)


def without_saved(near: str, named_by: str) -> str:
    """Doubt of a training of which no line says that a checkpoint is complete. `near`: the line
    that comes nearest; `named_by`: where such a line can be named.
    """
    shown = f" (nearest: {near})" if near else ""
    return (
        f"no line says that a checkpoint is complete{shown}: the kill may come before the first, "
        "and which is the newest is not judged; print `chaoslab: saved step=N` when it is on the "
        f"disk, or name the line with {named_by}"
    )
