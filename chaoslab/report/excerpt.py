"""Excerpt of a record behind its findings: marked lines and their surroundings.

History + Verdict ─► told ─► every line of the timeline, those of a finding marked
                              └─► excerpt ─► two seconds around each mark, counts between them;
                                             of a PASS what faults did, and who came back
problems ─► journal_lines, nodes_behind
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.events import Event, MalformedEvent
from chaoslab.record.history import History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.sentences import Sentence, Tone, describe, is_notable
from chaoslab.report.story import RunStory

AROUND_S = 2.0
_LINES_SHOWN = 3
"""Journal lines that are shown of each finding, its first violation first."""
_FEW = 2
"""Longest gap that is shown: leaving it out saves nothing."""
_LINE_CHARS = 600
_NODES_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLine:
    """One line of a timeline."""

    seq: int
    """Sequence number of its event; the line of journal.jsonl is one more."""
    sentence: Sentence
    is_marked: bool = False
    """A finding rests on it."""


def problems(verdict: Verdict) -> Sequence[Finding]:
    """The findings that decided: every FAIL, or without one every UNKNOWN; none of a PASS."""
    for outcome in (Outcome.FAIL, Outcome.UNKNOWN):
        if found := [one for one in verdict.findings if one.outcome is outcome]:
            return found
    return ()


def timeline_lines(history: History, verdict: Verdict | None = None) -> list[TimelineLine]:
    """Every notable event in order, and those that a finding rests on, notable or not."""
    view = RunStory()
    marked = {seq for one in (problems(verdict) if verdict else ()) for seq in one.evidence}
    return [
        TimelineLine(seq=event.seq, sentence=sentence, is_marked=event.seq in marked)
        for event in history.events
        for sentence in view.see(event) or _sampled(event, is_wanted=event.seq in marked)
    ]


def excerpt(lines: Sequence[TimelineLine]) -> Iterator[TimelineLine | int]:
    """The lines around each mark, or if none is marked, those with a tone from the first fault on;
    and how many are left out in between.
    """
    marks_s = [line.sentence.time_s for line in lines if line.is_marked]
    faults = (line.seq for line in lines if line.sentence.tone is Tone.FAULT)
    first_fault = next(faults, 0)

    def is_near(line: TimelineLine) -> bool:
        if not marks_s:
            return line.sentence.tone is not Tone.PLAIN and line.seq >= first_fault
        return any(abs(line.sentence.time_s - mark_s) <= AROUND_S for mark_s in marks_s)

    for near, group in groupby(lines, key=is_near):
        found = list(group)
        if near or len(found) <= _FEW:
            yield from found
        else:
            yield len(found)


def journal_lines(finding: Finding, history: History) -> Iterator[tuple[int, str]]:
    """Line number and text of the first journal lines that a finding rests on."""
    for seq in list(dict.fromkeys(finding.evidence))[:_LINES_SHOWN]:
        if 0 <= seq < len(history.events):
            text = history.events[seq].to_line()
            cut = len(text) > _LINE_CHARS
            yield seq + 1, f"{text[:_LINE_CHARS]} …" if cut else text


def nodes_behind(findings: Sequence[Finding], directory: RunDirectory) -> Sequence[str]:
    """The nodes among the culprits, a few of them: those with files of their own in the record."""
    nodes = {path.name for path in directory.nodes.glob("*")}
    named = dict.fromkeys(
        learner for one in findings for learner in one.culprits if learner in nodes
    )
    return list(named)[:_NODES_SHOWN]


def _sampled(event: Event, *, is_wanted: bool) -> tuple[Sentence, ...]:
    """An event that has no sentence otherwise."""
    if not is_wanted:
        return ()
    with suppress(MalformedEvent):
        if not is_notable(event.kind) and (said := describe(event, also_samples=True)):
            return (said,)
    text = f"{event.kind} of {event.source}, whose data is malformed"
    return (Sentence(time_s=event.time_s, text=text, tone=Tone.BAD),)
