"""What the record says happened when: the frame that every check measures in.

    run.started ── baseline ──► baseline.measured ── faults open and heal ──► training ends ── stop
                                     │◄──────────── judged here ────────────►│

Training ends when the syncer says so, which it does before it tells any learner; a learner's word
does not count. A syncer that never says it leaves the end of the run. A record that breaks off
earlier has no end. Reads only; decides nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.record.journal import FaultStory, History

ENDING_S = 15.0
"""How long the harness may take to end the nodes of a run that was cut short."""
_SAYS_STOPPED = 2
"""The first format of the record in which the syncer says that training has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """The time for which one injection was open: until its heal began, or to the end."""

    story: FaultStory
    start_s: float
    end_s: float

    def holds(self, time_s: float) -> bool:
        """Whether the injection was open at that time."""
        return self.start_s <= time_s <= self.end_s

    def __str__(self) -> str:
        return f"{self.story.spec} ({self.story.fault} on {', '.join(self.story.targets)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch without a merged round. `evidence`: the events on both sides of it."""

    start_s: float
    end_s: float
    evidence: tuple[int, ...]
    is_tail: bool
    """Nothing was merged after it."""

    @property
    def length_s(self) -> float:
        """How long nothing was merged."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One contributor of one merged round. `event` has its entry's keys as data."""

    merged: Event
    event: Event
    learner: str
    incarnation: int
    epoch: int


# ---------------------------------------------------------------- the frame


def baseline_end_s(history: History) -> float | None:
    """When the baseline had been measured; None if it never was."""
    measured = history.last(Kind.BASELINE_MEASURED)
    return measured.time_s if measured else None


def baseline_figure(history: History, key: str) -> float | None:
    """A figure of the baseline, such as gap_s_max; None if it could not be measured."""
    measured = history.last(Kind.BASELINE_MEASURED)
    if measured is None or measured.data.get(key) is None:
        return None
    return measured.number(key)


def training_end(history: History) -> Event | None:
    """The event that shows that training has ended; None if the record breaks off before."""
    stopped = history.last(Kind.SYNCER_STOPPED)
    if stopped is not None:
        return stopped
    ends = history.of(Kind.SYNCER_FINAL, Kind.RUN_FINISHED)
    if not says_stopped(history):
        ends = sorted([*ends, *_farewells_after_merging(history)], key=lambda event: event.seq)
    return ends[0] if ends else None


def says_stopped(history: History) -> bool:
    """Whether the syncer of such a record says that training has ended."""
    return history.format >= _SAYS_STOPPED


def farewells(history: History) -> Iterator[Event]:
    """Words of learners by which they end because training did, in order."""
    for event in history.of(Kind.LEARNER_LEFT, Kind.LEARNER_FINAL):
        if event.kind is Kind.LEARNER_FINAL or event.text("reason").startswith("stopped"):
            yield event


def _farewells_after_merging(history: History) -> Iterator[Event]:
    """In a record in which the syncer did not say it yet: the first sign that it told learners."""
    merged = history.last(Kind.ROUND_MERGED)
    return (e for e in farewells(history) if merged is None or e.seq > merged.seq)


def training_end_s(history: History) -> float:
    """When training ended; the time of the last event if the record breaks off before."""
    end = training_end(history)
    return end.time_s if end else history.end_s


def ended_by_its_rule(history: History) -> bool:
    """Whether training came to its own end: the run let it, and nobody asked the syncer to.

    A run that was cut short after that, while it was evaluated, has its training whole.
    """
    final, finished = history.last(Kind.SYNCER_FINAL), history.last(Kind.RUN_FINISHED)
    if final is not None and final.data.get("was_asked") is True:
        return False
    if finished is not None and finished.text("outcome") == "completed":
        return True
    stops = [e.seq for e in history.of(Kind.PHASE_ENTERED) if e.text("phase") == "stop"]
    return final is not None and bool(stops) and stops[0] < final.seq


def fault_windows(history: History) -> tuple[FaultWindow, ...]:
    """The windows of all injections that did not fail, within training, in order."""
    end_s = training_end_s(history)
    return tuple(
        FaultWindow(
            story=story,
            start_s=story.injecting.time_s,
            end_s=min(end_s, story.healing.time_s) if story.healing else end_s,
        )
        for story in history.faults
        if story.failed is None and story.injecting.time_s <= end_s
    )


# ---------------------------------------------------------------- rounds


def longest_gap(history: History, start_s: float, end_s: float) -> Gap:
    """The longest of the `gaps`."""
    return max(gaps(history, start_s, end_s), key=lambda gap: gap.length_s)


def gaps(history: History, start_s: float, end_s: float) -> Iterator[Gap]:
    """Every stretch without a merged round that reaches into [start_s, end_s]; at least one.

    The first may begin with a merge before start_s; the last is the tail up to end_s. A round to
    which nobody contributed is none.
    """
    times_s = [(start_s, -1)]
    for merged in filter(_has_work, history.of(Kind.ROUND_MERGED)):
        if merged.time_s <= start_s:
            times_s = [(merged.time_s, merged.seq)]
        elif merged.time_s <= end_s:
            times_s.append((merged.time_s, merged.seq))
    times_s.append((max(end_s, times_s[-1][0]), -1))
    for (from_s, before), (to_s, after) in pairwise(times_s):
        yield Gap(
            start_s=from_s,
            end_s=to_s,
            evidence=tuple(seq for seq in (before, after) if seq >= 0),
            is_tail=after < 0,
        )


def _has_work(merged: Event) -> bool:
    """Whether a contributor gave tokens; one that says no number is believed."""
    given = (one for one in merged.items("contributors") if isinstance(one, Mapping))
    return any(one.get("c_tokens") != 0 for one in given)


def parts(history: History) -> Iterator[Part]:
    """Every contributor of every merged round, in order."""
    for merged in history.of(Kind.ROUND_MERGED):
        for item in merged.items("contributors"):
            if not isinstance(item, Mapping):
                raise MalformedEvent(f"event {merged.seq}: a contributor is {item!r}")
            event = replace(merged, data=item)
            yield Part(
                merged=merged,
                event=event,
                learner=event.text("learner"),
                incarnation=event.integer("incarnation"),
                epoch=event.integer("epoch"),
            )


# ---------------------------------------------------------------- nodes


def before_the_end(history: History, *kinds: Kind) -> Iterator[Event]:
    """The events of these kinds until training ended.

    A run that was cut short ends its nodes without a word of its own before, so its last seconds
    are left out, too.
    """
    end, finished = training_end(history), history.last(Kind.RUN_FINISHED)
    until_s = float("inf")
    if finished is not None and finished.text("outcome") != "completed":
        until_s = finished.time_s - ENDING_S
    for event in history.of(*kinds):
        if (end is not None and event.seq > end.seq) or event.time_s > until_s:
            return
        yield event
