"""A verdict in words: the same two answers on the screen, in report.md and in a test's failure.

Verdict + History ─► did training continue? did the broken learners rejoin? ─► every window

Nothing is judged here; a number that the verdict does not know is not made up.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.answer_checks import asked
from chaoslab.checks.answers import LaterWork, Return, StopReason
from chaoslab.checks.base import Finding, Outcome, Unit
from chaoslab.checks.cadence import Cadence
from chaoslab.checks.mixed_lines import mixed
from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.checks.outages import outages
from chaoslab.checks.participation import Participation
from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.resume import Resume, began_anew
from chaoslab.checks.timeline import baseline_end_s, is_script, longest_gap, training_end_s
from chaoslab.checks.verdict import Verdict
from chaoslab.checks.work_lost import WorkLost
from chaoslab.core.events import Event, Json, MalformedEvent
from chaoslab.core.payloads import LearnerStep, RunStarted
from chaoslab.core.units import delay, plural
from chaoslab.record.history import History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.hints import Record
from chaoslab.report.sentences import Tone, seconds

_TONES = {True: Tone.GOOD, False: Tone.BAD, None: Tone.FAULT}
_WORDS = {True: "yes", False: "NO", None: "unknown"}

_LEFT = {
    StopReason.DIED: "died at",
    StopReason.DROPPED: "was dropped at",
    StopReason.SILENT: "contributed no more after",
}

OUTCOME_TONES: Mapping[Outcome, Tone] = {
    Outcome.PASS: Tone.GOOD,
    Outcome.FAIL: Tone.BAD,
    Outcome.UNKNOWN: Tone.FAULT,
}
_NONE_DUE = "none due"
_OF_RETURNS = (Participation.name, Rejoin.name, Resume.name)
"""Checks without which learners that are back are not well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question that every report answers first, with its answer."""

    question: str
    word: str
    """yes, NO, unknown, or none due: no learner had to come back."""
    text: str
    tone: Tone


def is_known_script(verdict: Verdict, history: History) -> bool:
    """Whether the training is a script; False where a broken record does not tell."""
    return not verdict.is_of_broken_record and is_script(history)


def answers(verdict: Verdict, history: History) -> tuple[Answer, ...]:
    """Did training continue, did each broken learner rejoin, and what work was lost?"""
    said = (_continued(verdict, history), _rejoined(verdict, history))
    return said if verdict.work_lost is None else (*said, _lost(verdict.work_lost))


def _continued(verdict: Verdict, history: History) -> Answer:
    gap = "nothing was measured" if verdict.longest_gap_s is None else _gap(verdict, history)
    tone = _TONES[verdict.training_continued]
    anew = None if verdict.is_of_broken_record else began_anew(as_it_happened(history))
    if anew is not None:
        gap = f"it began anew at {seconds(anew.time_s)}"
    if tone is Tone.GOOD and _has_failed(verdict, Cadence.name):
        gap, tone = f"{gap}; then rounds came too rarely", Tone.FAULT
    if tone is Tone.GOOD and _has_failed(verdict, Continuity.name):
        tone = Tone.FAULT
    return Answer(
        question="Did training continue?",
        word=_WORDS[verdict.training_continued],
        text=gap,
        tone=tone,
    )


def _has_failed(verdict: Verdict, *checks: str) -> bool:
    return any(one.check in checks and one.outcome is Outcome.FAIL for one in verdict.findings)


def _gap(verdict: Verdict, history: History) -> str:
    timed = as_it_happened(history)
    start_s, length = baseline_end_s(timed), seconds(verdict.longest_gap_s or 0.0)
    if start_s is None:
        return f"longest gap {length}"
    gap = longest_gap(timed, start_s, training_end_s(timed))
    by = [
        str(one) for one in outages(timed) if one.gone_s < gap.end_s and one.served_s > gap.start_s
    ]
    if verdict.training_continued is not False and not by:
        return f"longest gap {length}, at {seconds(gap.start_s)}"
    because = f", while {' and '.join(by)} kept the syncer away" if by else ""
    then = "to the end" if gap.is_tail else "then it went on"
    return f"no round for {length} from {seconds(gap.start_s)} on{because}, {then}"


def _inferred(history: History) -> set[str]:
    """Workers for which another one reports."""
    return {e.payload.learner for e in history.of(LearnerStep) if e.payload.is_inferred}


def _lost(lost: WorkLost) -> Answer:
    """Work lost, and the effective training time ratio."""
    steps = f"{plural(round(lost.steps), 'step')}, {seconds(lost.seconds)}"
    return Answer(
        question="What work was lost?",
        word=f"{lost.share:.1%}" if lost.steps else "none",
        text=f"{steps if lost.steps else 'no step'}; {lost.effective_share:.0%} of the time was "
        "effective training",
        tone=Tone.PLAIN,
    )


def _rejoined(verdict: Verdict, history: History) -> Answer:
    who = "learner" if verdict.is_of_broken_record else history.who
    question = f"Did the broken {who}s rejoin?"
    if verdict.is_of_broken_record:
        text = "a line of the record is broken"
        return Answer(question=question, word=_WORDS[None], text=text, tone=_TONES[None])
    if not verdict.learners_rejoined:
        return Answer(
            question=question, word=_NONE_DUE, text="none was taken away", tone=Tone.PLAIN
        )
    if mixed(history):
        missing = [name for name, back in verdict.learners_rejoined.items()
                   if back.was_asked and back.rejoined is False]  # fmt: skip
        away = f"{', '.join(missing)} did NOT; " if missing else ""
        word, tone = (_WORDS[False], _TONES[False]) if missing else (_WORDS[None], _TONES[None])
        text = f"{away}nothing tells the lines of the {who}s apart"
        return Answer(question=question, word=word, text=text, tone=tone)
    beside = {one.learner: one for one in absences(as_it_happened(history)) if not one.was_hit}
    told: dict[LaterWork | None, dict[str, list[str]]] = {}
    for learner in sorted(verdict.learners_rejoined, key=lambda name: (name in beside, name)):
        alike = told.setdefault(verdict.worked_since.get(learner), {})
        returned = _returned(verdict.learners_rejoined[learner], beside.get(learner))
        alike.setdefault(returned, []).append(learner)
    text = "; ".join(_told(since, alike) for since, alike in told.items())
    if silent := sorted(verdict.learners_rejoined.keys() & _inferred(history)):
        text += (
            f"; {', '.join(silent)} reports nothing itself: only its process and the steps of the "
            "whole are known"
        )
    found = {back.rejoined for back in asked(verdict.learners_rejoined).values()}
    if not found:
        return Answer(question=question, word=_NONE_DUE, text=text, tone=Tone.PLAIN)
    have_all = next(answer for answer in (False, None, True) if answer in found)
    tone = _TONES[have_all]
    is_whole = not any(since.left for since in verdict.worked_since.values())
    if tone is Tone.GOOD and not (is_whole and not _has_failed(verdict, *_OF_RETURNS)):
        tone = Tone.FAULT
    return Answer(question=question, word=_WORDS[have_all], text=text, tone=tone)


def _returned(back: Return, beside: Absence | None) -> str:
    """`beside`: of one that no fault had hit, but another worker of its launcher."""
    if not back.was_asked:
        return ": not asked to return"
    if back.rejoined is None:
        return " had too little time before the run was cut short"
    if not back.rejoined:
        return " did NOT"
    if beside is not None and beside.has_run_on:
        return " not hit, ran on"
    how = "" if beside is None else " not hit, started again,"
    return f"{how} came back" if back.after_s is None else f"{how} {delay(back.after_s)}"


def _told(since: LaterWork | None, alike: Mapping[str, Sequence[str]]) -> str:
    """learner-0 after 1.72 s, and contributed to 143 of 147 rounds since, then died at 29.6 s"""
    text = ", ".join(f"{', '.join(names)}{returned}" for returned, names in alike.items())
    if since is None:
        return text
    each = "each " if sum(map(len, alike.values())) > 1 else ""
    rounds = f"{since.contributed:,} of {plural(since.rounds, 'round')}"
    text = f"{text}, and {each}contributed to {rounds} since"
    if since.left is None or since.left_s is None:
        return text
    return f"{text}, then {_LEFT[since.left]} {seconds(since.left_s)}"


def counted(verdict: Verdict) -> str:
    """Number of injections by status: `27 injections: 26 proved, 1 moot`."""
    counts = ", ".join(f"{n} {status}" for status, n in verdict.injection_counts.items() if n)
    return f"{plural(len(verdict.injections), 'injection')}: {counts}"


def worst_first(verdict: Verdict) -> Sequence[Finding]:
    """FAIL, UNKNOWN, then PASS; within each the order of the verdict."""
    order = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS)
    return sorted(verdict.findings, key=lambda one: order.index(one.outcome))


def margin(finding: Finding) -> str:
    """The margin as a percentage; empty without one."""
    return "" if finding.margin is None else percent(finding.margin)


def percent(share: float) -> str:
    """Whole percents with the sign; tenths where a whole one would read as 0 or 100 % and is not.

    -0.998 ─► -99.8%
    """
    whole = f"{share:+.0%}"
    is_exact = share in (-1.0, 0.0, 1.0) or whole[1:] not in ("0%", "100%")
    return whole if is_exact else f"{share:+.1%}"


def value(found: Json, unit: str) -> str:
    """Observed value or bound with its unit, short enough for a table.

    0.8822 "share" ─► 88.22%    1.5 "s" ─► 1.5 s    1 "violations" ─► 1 violation    true ─► yes
    """
    if found is None:
        return ""
    if isinstance(found, bool):
        return "yes" if found else "no"
    if not isinstance(found, int | float):
        return (
            found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=list)
        )
    if unit == Unit.SHARE:
        return f"{found * 100:.4g}%"
    if unit == Unit.FACTOR:
        return f"{found:.4g}x"
    number = f"{found:,}" if isinstance(found, int) else f"{found:.6g}"
    is_one = found == 1 and unit in _COUNTED
    return f"{number} {unit.removesuffix('s') if is_one else unit}".rstrip()


_COUNTED = frozenset({Unit.ROUNDS, Unit.LINES, Unit.INJECTIONS, Unit.VIOLATIONS})


def record_name(directory: Path) -> str:
    """`runs/kill_half/20261120T050742Z-3f9a1c`: the record, seen from where the run was started."""
    return "/".join(directory.absolute().parts[-3:])


def again(directory: Path) -> str:
    """The command that repeats the schedule of a record, to be pasted into a shell there."""
    name = record_name(directory)
    return Record.of(RunDirectory(path=directory), name, Path(name)).again


def begun(history: History) -> Mapping[str, str]:
    """Summary of a record's first line: plan, seed, fleet, algorithm, version; or `unknown`."""
    started = history.last(RunStarted)
    return {key: _said(started, value) for key, value in _BEGUN.items()}


def began_ns(history: History) -> int | None:
    """The time 0 of the run's clock in nanoseconds since the epoch, by the first line that has
    both; None if no line has.
    """
    for event in history.events:
        try:
            wall = datetime.fromisoformat(event.wall)
        except ValueError:  # it has none
            continue
        wall = wall if wall.tzinfo else wall.replace(tzinfo=UTC)
        since = (wall - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
        return since * 1000 - round(event.time_s * 1e9)
    return None


_BEGUN: Mapping[str, Callable[[RunStarted], str | int]] = {
    "plan": lambda started: started.plan,
    "seed": lambda started: started.seed,
    "fleet": lambda started: started.fleet,
    "algorithm": lambda started: started.algorithm,
    "version": lambda started: started.version,
}


def _said(started: Event[RunStarted] | None, value: Callable[[RunStarted], str | int]) -> str:
    try:
        return str(value(started.payload)) if started else "unknown"
    except MalformedEvent:  # a broken line makes the verdict UNKNOWN; a report is written still
        return "unknown"
