"""Timeline of a record: the moments between which every check measures.

    run.started ── baseline ──► baseline.measured ── faults open and heal ──► training ends ── stop
                                     │◄──────────── judged here ────────────►│

Training ends when the syncer says so, which it does before it tells any learner; a learner's word
does not count. A syncer that never says it leaves the end of the run, or the moment from which an
attached training was not read any more. It ends with an interruption at the latest: what follows is
the doing of the harness. A record that breaks off earlier has no end. Reads only; decides nothing.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise, takewhile
from operator import attrgetter
from typing import TypeVar

from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    BaselineMeasured,
    Contributor,
    LearnerFinal,
    LearnerLeft,
    LearnerStep,
    LeftBecause,
    LinkShaped,
    MemberJoined,
    MemberLeft,
    NodeStarted,
    OfLearner,
    PhaseEntered,
    RoundMerged,
    RunFinished,
    RunLeft,
    RunOutcome,
    RunStarted,
    SyncerFinal,
    SyncerStopped,
)
from chaoslab.record.history import FaultStory, History
from chaoslab.record.time_index import TimeIndex

_E = TypeVar("_E", bound=Event)
_T = TypeVar("_T")
_L = TypeVar("_L", bound=OfLearner)
_HICCUP = 3.0
RESUMED = "resumed"
"""Source of a join whose learner kept its own state."""
CHECKPOINT = "checkpoint"
"""Source of a join whose worker, of a script, goes on from what it had saved, or begins anew."""
ENDING_S = 15.0
"""Longest time in which the harness ends the nodes of a run that was cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """The time for which one injection was open: until its heal began, or to the end."""

    story: FaultStory
    start_s: float
    end_s: float

    def __str__(self) -> str:
        return f"`{self.story.spec}` ({self.story.fault} on {', '.join(self.story.targets)})"


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
        """Time without a merge, rounded to the millisecond: the shown number is judged."""
        return round(self.end_s - self.start_s, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One contributor of one merged round."""

    merged: Event[RoundMerged]
    contributor: Contributor

    @property
    def learner(self) -> str:
        """The learner that contributed."""
        return self.contributor.learner

    @property
    def seq(self) -> int:
        """Sequence number of the round."""
        return self.merged.seq

    @property
    def time_s(self) -> float:
        """Time of the merge."""
        return self.merged.time_s


def once(view: Callable[[History], _T]) -> Callable[[History], _T]:
    """Decorator of a function of a history alone: its result is kept with the history."""
    return wraps(view)(lambda history: history.once(view))


# ---------------------------------------------------------------- the frame


def is_script(history: History) -> bool:
    """Whether the training is not chaoslab's own."""
    started = history.last(RunStarted)
    return started is not None and started.payload.script is not None


@once
def launchers(history: History) -> frozenset[str]:
    """Nodes that start the workers of a script: what befalls one of them befalls all."""
    started = (event.payload for event in history.of(NodeStarted))
    return frozenset(said.node for said in started if said.role == "launcher")


@once
def learners_hit(history: History) -> Mapping[str, Sequence[str]]:
    """Learners among the targets of each injection. All of them if they have a launcher and one of
    its processes is taken away: it ends the others, or they wait for that one.
    """
    has_launcher = bool(launchers(history))
    return {
        story.injection: [
            name
            for name in history.learners
            if name in story.targets or (has_launcher and story.takes_away)
        ]
        for story in history.faults
    }


@once
def delays_script(history: History) -> frozenset[str]:
    """Injections on links of a script, whose workers may wait for what they ask of a service."""
    shaped = history.of(LinkShaped) if is_script(history) else ()
    return frozenset(event.payload.injection for event in shaped)


def baseline_end_s(history: History) -> float | None:
    """Time at which the baseline had been measured; None if it never was."""
    measured = history.last(BaselineMeasured)
    return measured.time_s if measured else None


def baseline_figure(
    history: History, figure: Callable[[BaselineMeasured], float | None]
) -> float | None:
    """A figure of the baseline, such as the longest gap; None if it was not measured."""
    measured = history.last(BaselineMeasured)
    return figure(measured.payload) if measured else None


def usual_gap_s(history: History) -> float | None:
    """The longest gap between two rounds of the baseline, but for a hiccup: at most three times the
    median. None if nothing was measured.
    """
    longest_s = baseline_figure(history, lambda usual: usual.gap_s_max)
    median_s = baseline_figure(history, lambda usual: usual.gap_s_median)
    if longest_s is None or median_s is None:
        return longest_s
    return min(longest_s, _HICCUP * median_s)


def training_end(history: History) -> Event | None:
    """The event that shows that training has ended; None if the record breaks off before."""
    stopped = history.last(SyncerStopped)
    ends: Sequence[Event] = history.of(SyncerFinal, RunLeft, RunFinished)
    found: list[Event] = [stopped] if stopped else [*ends[:1]]
    phases = history.of(PhaseEntered)
    found += [e for e in phases if e.payload.phase == RunOutcome.INTERRUPTED]
    return min(found, key=attrgetter("seq"), default=None)


def leaves_at_end(history: History) -> Iterator[Event[LearnerLeft | LearnerFinal]]:
    """Words of learners by which they end because training did, in order."""
    for event in history.of(LearnerLeft, LearnerFinal):
        said = event.payload
        if isinstance(said, LearnerFinal) or said.reason is LeftBecause.STOPPED:
            yield event


def training_end_s(history: History) -> float:
    """End of training; the time of the last event if the record breaks off before."""
    end = training_end(history)
    return end.time_s if end else history.end_s


def ended_by_its_rule(history: History) -> bool:
    """Whether training came to its own end: the run let it, and the syncer was not asked to.

    A run that was cut short after that, while it was evaluated, has its training whole.
    """
    final, finished = history.last(SyncerFinal), history.last(RunFinished)
    if history.last(RunLeft) is not None or (final is not None and final.payload.was_asked):
        return False
    if finished is not None and finished.payload.outcome is RunOutcome.COMPLETED:
        return True
    stops = [e.seq for e in history.of(PhaseEntered) if e.payload.phase == "stop"]
    return final is not None and bool(stops) and stops[0] < final.seq


@once
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

    The first may begin with a merge before start_s; the last is the tail up to end_s. A round
    without contributors is none.
    """
    times_s = [(start_s, -1)]
    for merged in rounds_with_work(history):
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


@once
def rounds_with_work(history: History) -> Sequence[Event[RoundMerged]]:
    """The rounds to which a contributor gave tokens, in order."""
    return [
        merged
        for merged in history.of(RoundMerged)
        if any(one.c_tokens != 0 for one in merged.payload.contributors)
    ]


def by_fragment(
    rounds: Iterable[Event[RoundMerged]],
) -> Mapping[int, Sequence[Event[RoundMerged]]]:
    """Rounds by their fragment, each in order."""
    found: dict[int, list[Event[RoundMerged]]] = defaultdict(list)
    for event in rounds:
        found[event.payload.fragment].append(event)
    return found


@once
def parts(history: History) -> tuple[Part, ...]:
    """Every contributor of every merged round, in order."""
    return tuple(
        Part(merged=merged, contributor=contributor)
        for merged in history.of(RoundMerged)
        for contributor in merged.payload.contributors
    )


def trained(history: History) -> Iterator[tuple[Event[LearnerStep], float]]:
    """Each step sample, and the tokens trained since the one before of the same life."""
    before: dict[tuple[str, int], float] = {}
    for sample in history.of(LearnerStep):
        life, tokens = sample.payload.life, sample.payload.tokens
        yield sample, tokens - before.get(life, 0.0)
        before[life] = tokens


# ---------------------------------------------------------------- learners


def parts_of(history: History, learner: str) -> Sequence[Part]:
    """Contributions of one learner, in order."""
    found = _parts_by_learner(history).get(learner)
    return found.events if found else ()


def parts_after(history: History, learner: str, since: Event, until_s: float) -> Iterator[Part]:
    """Its contributions to later rounds of the record than an event, with time_s <= until_s."""
    found = _parts_by_learner(history).get(learner)
    return found.after(since, until_s) if found else iter(())


@once
def _parts_by_learner(history: History) -> Mapping[str, TimeIndex[Part]]:
    found: dict[str, list[Part]] = defaultdict(list)
    for part in parts(history):
        found[part.learner].append(part)
    return {learner: TimeIndex(mine) for learner, mine in found.items()}


def of_learner(history: History, kind: type[_L], learner: str) -> Sequence[Event[_L]]:
    """The events of a kind that are about one learner, in order."""
    found = history.once(_by_learner, kind).get(learner)
    return found.events if found else ()


def samples_of(history: History, learner: str, epoch: int) -> Sequence[Event[LearnerStep]]:
    """Reports of steps of one membership, in order."""
    return _samples_by_membership(history).get((learner, epoch), ())


@once
def _samples_by_membership(
    history: History,
) -> Mapping[tuple[str, int], Sequence[Event[LearnerStep]]]:
    found: dict[tuple[str, int], list[Event[LearnerStep]]] = defaultdict(list)
    for event in history.of(LearnerStep):
        found[event.payload.learner, event.payload.epoch].append(event)
    return found


def of_learner_between(
    history: History, kind: type[_L], learner: str, start_s: float, end_s: float
) -> Sequence[Event[_L]]:
    """Events of the learner with start_s <= time_s <= end_s."""
    found = history.once(_by_learner, kind).get(learner)
    return found.between(start_s, end_s) if found else ()


def of_learner_after(
    history: History, kind: type[_L], learner: str, since: Event, until_s: float
) -> Iterator[Event[_L]]:
    """Its later events in the record than another event, with time_s <= until_s."""
    found = history.once(_by_learner, kind).get(learner)
    return found.after(since, until_s) if found else iter(())


def _by_learner(history: History, kind: type[_L]) -> Mapping[str, TimeIndex[Event[_L]]]:
    found: dict[str, list[Event[_L]]] = defaultdict(list)
    for event in history.of(kind):
        found[event.payload.learner].append(event)
    return {learner: TimeIndex(events) for learner, events in found.items()}


def before_the_end(history: History, events: Sequence[_E]) -> Sequence[_E]:
    """The events, which are in order, until training ended.

    A run that was cut short ends its nodes without announcing it, so its last seconds are left
    out, too.
    """
    end, finished = training_end(history), history.last(RunFinished)
    if end is not None:
        events = events[: bisect_right(events, end.seq, key=attrgetter("seq"))]
    if finished is None or finished.payload.outcome is RunOutcome.COMPLETED:
        return events
    until_s = finished.time_s - ENDING_S
    return list(takewhile(lambda event: event.time_s <= until_s, events))


def after(since: Event, events: Sequence[_E]) -> Iterator[_E]:
    """The events, which are in order, after another one in the record."""
    first = bisect_right(events, since.seq, key=attrgetter("seq"))
    return map(events.__getitem__, range(first, len(events)))


def members_before(history: History, event: Event) -> Mapping[str, int]:
    """Members when an event came, each with its epoch."""
    members: dict[str, int] = {}
    for learner, moves in _moves(history).items():
        known = bisect_right(moves, event.seq, key=attrgetter("seq"))
        said = moves[known - 1].payload if known else None
        if isinstance(said, MemberJoined):
            members[learner] = said.epoch
    return members


@once
def _moves(history: History) -> Mapping[str, Sequence[Event[MemberJoined] | Event[MemberLeft]]]:
    """Begin and end of the memberships of each learner, in order."""
    found: dict[str, list[Event[MemberJoined] | Event[MemberLeft]]] = defaultdict(list)
    for event in history.of(MemberJoined, MemberLeft):
        found[event.payload.learner].append(event)
    return found


def by_label(labels: Iterable[str], values: Iterable[float | str | None]) -> Mapping[str, Json]:
    """Figures of a finding by what each is of, seconds to the millisecond."""
    rounded = (round(value, 3) if isinstance(value, float) else value for value in values)
    return dict(zip(labels, rounded, strict=True))
