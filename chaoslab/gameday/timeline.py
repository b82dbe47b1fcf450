"""Timeline of a game-day: what a room cares for, short enough to be read aloud.

    events ─► phases, faults, operators ────────┐
          ─► members that join or leave ────────┼─► at most 80 lines, and what was left out
          ─► learners that contribute again ────┤
    rounds ─► stretches without one, too long ──┘

Members are listed between the end of the baseline and the end of training. They go first when there
are too many lines, then the middle.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.checks.timeline import baseline_end_s, gaps, training_end_s
from chaoslab.core.events import Kind
from chaoslab.core.units import elapsed, plural
from chaoslab.gameday.effects import bound_s
from chaoslab.record.history import History
from chaoslab.report.sentences import describe
from chaoslab.report.story import RunStory

LINES = 80
"""This many lines are readable."""
_ALWAYS = (
    Kind.RUN_STARTED,
    Kind.PHASE_ENTERED,
    Kind.BASELINE_MEASURED,
    Kind.FAULT_HELD,
    Kind.FAULT_INJECTED,
    Kind.FAULT_FAILED,
    Kind.FAULT_SKIPPED,
    Kind.FAULT_HEALED,
    Kind.FAULT_HEAL_FAILED,
    Kind.OPERATOR_ACTED,
    Kind.OPERATOR_REFUSED,
    Kind.OPERATOR_PREDICTED,
    Kind.OPERATOR_NOTED,
    Kind.ABORT_FIRED,
    Kind.SYNCER_STOP_RULE_MET,
    Kind.SYNCER_STOPPED,
    Kind.RUN_FINISHED,
)
_MEMBERS = (Kind.MEMBER_JOINED, Kind.MEMBER_LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the timeline."""

    time_s: float
    text: str
    is_of_members: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The lines that are shown, and one sentence for each kind of those that are not."""

    lines: tuple[Line, ...]
    left_out: tuple[str, ...] = ()


def timeline(history: History, *, most: int = LINES) -> Timeline:
    """At most this many lines. MalformedEvent if a line of the record is broken."""
    timed = as_it_happened(history)
    found = sorted(
        [*_events(timed), *_members(timed), *_returns(timed), *_silences(timed)],
        key=lambda line: line.time_s,
    )
    if len(found) <= most:
        return Timeline(lines=tuple(found))
    kept = [line for line in found if not line.is_of_members]
    members = len(found) - len(kept)
    left_out = [f"{plural(members, 'line')} of members that join or leave"] if members else []
    if len(kept) <= most:
        return Timeline(lines=tuple(kept), left_out=tuple(left_out))
    first, last = kept[: most // 2], kept[len(kept) - most // 2 :]
    hidden = plural(len(kept) - len(first) - len(last), "line")
    left_out.append(f"{hidden} between {elapsed(first[-1].time_s)} and {elapsed(last[0].time_s)}")
    return Timeline(lines=(*first, *last), left_out=tuple(left_out))


def _events(history: History) -> Iterator[Line]:
    for event in history.of(*_ALWAYS):
        if sentence := describe(event):
            yield Line(time_s=event.time_s, text=sentence.text)


def _members(history: History) -> Iterator[Line]:
    start_s, end_s = baseline_end_s(history), training_end_s(history)
    if start_s is None:
        return
    for event in history.between(start_s, end_s, *_MEMBERS):
        if sentence := describe(event):
            yield Line(time_s=event.time_s, text=sentence.text, is_of_members=True)


def _returns(history: History) -> Iterator[Line]:
    """What merged rounds say: whose contributions are accepted again, or for the first time."""
    story = RunStory()
    for event in history.events:
        for sentence in story.see(event):
            if event.kind is Kind.ROUND_MERGED:
                yield Line(time_s=event.time_s, text=sentence.text)


def _silences(history: History) -> Iterator[Line]:
    """Gaps between merged rounds that are too long for a training that continues."""
    start_s, limit_s = baseline_end_s(history), bound_s(history)
    if start_s is None or limit_s is None:
        return
    for gap in gaps(history, start_s, training_end_s(history)):
        if gap.length_s > limit_s:
            text = f"no round is merged for {elapsed(gap.length_s)}"
            yield Line(time_s=gap.start_s, text=f"{text}, to the end" if gap.is_tail else text)
