"""Outages of the syncer by injections, and how every learner came back to it.

    rounds ─┤ injecting ── no round merges ─── healing ├─ ready ── learner-1 ── learner-0 ─► rounds
              the learners go on stepping ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇

The learners live on and are still cut off: each of them that was a member has to be heard again.
One that a fault of its own takes away meanwhile is `absence`'s affair, from then on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.stretches import Stretches, union, without
from chaoslab.checks.timeline import (
    after,
    members_before,
    of_learner_between,
    once,
    parts_after,
    training_end_s,
)
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    LearnerStep,
    MemberJoined,
    Need,
    NodeStarted,
    PushAccepted,
    RoundMerged,
    RunStarted,
    SyncerReady,
)
from chaoslab.record.history import FaultStory, History

_START_S = 5.0
"""A process may need this time until it is ready, also on a busy machine."""
_SLOWER = 2.0
"""A later start may take this many times as long as the first one of the run."""
_UNSEEN_START_S = 30.0
"""The same where the run did not see the first one start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One injection that kept the syncer away. Events are None if the record has none."""

    story: FaultStory
    gone_s: float
    until_s: float
    """Time at which the syncer was away again, or training ended."""
    is_last: bool
    ready: Event | None
    """A new process of the syncer was ready; None as well if it lived on."""
    start_s: float
    """Longest start of a new process until it is ready."""
    returns: Mapping[str, Event | None]
    """Each learner that was cut off, and the first of its work that was accepted again."""
    temporary: frozenset[str]
    """Learners that were brought in, and asked to leave before all was over: not awaited."""
    unheard_s: Mapping[str, float]
    """Learners that were not heard from the heal until a fault of their own took them away, and how
    long that was."""

    @property
    def since(self) -> Event | None:
        """The beginning of the heal."""
        healing = self.story.healing
        return healing if healing and healing.time_s < self.until_s else None

    @property
    def was_to_be_healed(self) -> bool:
        """Whether the plan meant to give the syncer back: not `for: rest`."""
        return self.story.injecting.payload.for_s is not None

    @property
    def healed_s(self) -> float:
        """Beginning of the heal; `until_s` without one."""
        return self.since.time_s if self.since else self.until_s

    @property
    def served_s(self) -> float:
        """Time at which a syncer could merge again: its start is not a stall of training."""
        ready_s = self.ready.time_s if self.ready else self.healed_s
        return min(ready_s, self.healed_s + self.start_s)

    def after_s(self, learner: str) -> float | None:
        """Seconds from the heal until the learner was heard again; None if it never was."""
        event = self.returns.get(learner)
        return None if event is None or self.since is None else event.time_s - self.healed_s

    def __str__(self) -> str:
        return f"`{self.story.spec}` ({self.story.fault})"


@once
def outages(history: History) -> tuple[Outage, ...]:
    """Every injection that took the syncer away, in order."""
    syncers = {e.payload.node for e in history.of(NodeStarted) if e.payload.role == "syncer"}
    end_s = training_end_s(history)
    stories = [
        story
        for story in history.faults
        if syncers & set(story.targets)
        and story.takes_away
        and story.failed is None
        and story.injecting.time_s < end_s
    ]
    nexts_s = [story.injecting.time_s for story in stories] + [end_s]
    return tuple(
        _outage(history, story, nexts_s[number + 1], is_last=number + 1 == len(stories))
        for number, story in enumerate(stories)
    )


@once
def nothing_merged(history: History) -> Stretches:
    """When injections that give back what they take held the syncer, or every learner there was.

    The start of the next process is a part of it: a new one merges or steps, or has had its time.
    """
    syncer = [(o.gone_s, o.served_s) for o in outages(history) if o.was_to_be_healed]
    end_s = training_end_s(history)
    there = {e.payload.learner: e.time_s for e in reversed(history.of(MemberJoined))}
    taken, present = list[tuple[float, float]](), list[tuple[float, float]]()
    for learner, joined_s in there.items():
        own = [(one.gone_s, _steps_s(history, one), one) for one in absences(history)
               if one.learner == learner]  # fmt: skip
        taken += [(start_s, stop_s) for start_s, stop_s, one in own if one.was_to_be_healed]
        away = union((start_s, stop_s) for start_s, stop_s, _ in own)
        present += without([(joined_s, end_s)], away)
    return union([*syncer, *without(union(taken), union(present))])


def _steps_s(history: History, absence: Absence) -> float:
    """When a learner that was away could step again."""
    if absence.since is None:
        return absence.until_s
    stepped_s = absence.stepped.time_s if absence.stepped else absence.until_s
    return min(stepped_s, absence.since.time_s + _start_s(history, "learner", LearnerStep))


def whole_s(history: History, outage: Outage) -> float | None:
    """When every fragment had been merged once more after an outage; None if that never was.

    Twice as many rounds as there are fragments are enough: one that was not merged by then is not
    on its way, and `cadence` and the others have to judge that.
    """
    left = {event.payload.fragment for event in history.of(RoundMerged)}
    if not left:
        return outage.until_s
    rounds_left = 2 * len(left)
    for merged in history.between(outage.healed_s, outage.until_s, RoundMerged):
        if merged.time_s > outage.healed_s:
            left.discard(merged.payload.fragment)
            rounds_left -= 1
            if not left or not rounds_left:
                return merged.time_s
    return None


def _outage(history: History, story: FaultStory, until_s: float, *, is_last: bool) -> Outage:
    since, temporary = story.healing, _temporary(history, until_s)
    members = members_before(history, story.injecting).keys() - temporary
    taken_s = _taken_s(history, story, until_s)
    ready = None
    if since is not None:
        ready = next(after(since, history.between(since.time_s, until_s, SyncerReady)), None)
    return Outage(
        story=story,
        gone_s=story.injecting.time_s,
        until_s=until_s,
        is_last=is_last,
        ready=ready,
        start_s=_start_s(history, "syncer", SyncerReady),
        returns={
            learner: heard(history, learner, since, until_s) if since else None
            for learner in sorted(members - taken_s.keys())
        },
        temporary=temporary,
        unheard_s={
            learner: gone_s - since.time_s
            for learner, gone_s in taken_s.items()
            if since is not None and learner in members and gone_s > since.time_s
            if heard(history, learner, since, gone_s) is None
        },
    )


def _start_s(history: History, role: str, ready: type[SyncerReady | LearnerStep]) -> float:
    """Longest start of a process of this run until it is ready: its imports may be slow."""
    run = history.last(RunStarted)
    if run is not None and Need.WHOLE in run.payload.without:
        return _UNSEEN_START_S
    first = next((e for e in history.of(NodeStarted) if e.payload.role == role), None)
    is_ready = next(iter(history.of(ready)), None)
    if first is None or is_ready is None:
        return _START_S
    return max(_START_S, _SLOWER * (is_ready.time_s - first.time_s))


def _taken_s(history: History, story: FaultStory, until_s: float) -> Mapping[str, float]:
    """Learners that a fault of their own took away before all was over, and when it first did."""
    found: dict[str, float] = {}
    for absence in absences(history):
        if absence.gone_s < until_s and absence.back_s > story.injecting.time_s:
            earlier_s = found.get(absence.learner, absence.gone_s)
            found[absence.learner] = min(earlier_s, absence.gone_s)
    return found


def _temporary(history: History, until_s: float) -> frozenset[str]:
    """Learners that the last injection on them had let go of by then."""
    temporary: set[str] = set()
    for story in history.faults:
        if story.brings_in and story.injecting.time_s < until_s:
            has_ended = story.healing is not None and story.healing.time_s < until_s
            (temporary.update if has_ended else temporary.difference_update)(story.targets)
    return frozenset(temporary)


def heard(history: History, learner: str, since: Event, until_s: float) -> Event | None:
    """The first work of a learner that was accepted after an event, or the first round with it."""
    pushes = of_learner_between(history, PushAccepted, learner, since.time_s, until_s)
    accepted = after(since, pushes)
    later = parts_after(history, learner, since, until_s)
    merged = (part.merged for part in later if not part.merged.payload.is_restated)
    found = [event for event in (next(accepted, None), next(merged, None)) if event]
    return min(found, key=lambda event: event.seq, default=None)
