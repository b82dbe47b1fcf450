"""Absences: learners that faults took away from training, for how long, and their return.

    gone ──── restart or heal ──► process up ──► first step ──► first accepted ──► merged, merged, …
                     └─────── the three clocks ──────┴──────────────┘

One absence is one learner under one or more overlapping injections that take their victims away.
The clocks count from the beginning of the heal, or from the start of the life that came back if the
fault itself had restarted it. What a former self of the victim sends after the syncer has dropped
it never counts as a return.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from chaoslab.checks.stretches import Stretches
from chaoslab.checks.timeline import (
    fault_windows,
    learners_hit,
    of_learner,
    of_learner_after,
    of_learner_between,
    once,
    parts_after,
    training_end_s,
)
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    EngineReported,
    LearnerStep,
    MemberLeft,
    Membership,
    NodeExited,
    NodeStarted,
    PushAccepted,
    RoundMerged,
)
from chaoslab.record.history import FaultStory, History

_M = TypeVar("_M", bound=Membership)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """One learner's time away. Events are None while the record does not show them."""

    learner: str
    stories: tuple[FaultStory, ...]
    gone_s: float
    until_s: float
    """When the learner was taken away again, or training ended: what comes later is not its own."""
    is_last: bool
    """No later absence of this learner."""
    since: Event | None = None
    """The restart or the beginning of the heal; None if neither came before `until_s`."""
    ended: Event[NodeExited] | None = None
    """The end of the life before the one that came back, if it ended."""
    up: Event | None = None
    """Start of its new process; the heal, if it had never died."""
    incarnation: int | None = None
    """The life that came back."""
    stepped: Event | None = None
    accepted: Event | None = None
    """First accepted push of its new life, or the first round with it."""
    merged: tuple[Event[RoundMerged], ...] = ()
    """The rounds merged with it since."""
    fenced_pushes: tuple[Event, ...] = ()
    """Pushes accepted from it under a membership that the syncer had ended."""
    counted: tuple[Event[EngineReported], ...] = ()
    """Restarts of its Job by its JobSet, by that one's own count."""

    @property
    def was_hit(self) -> bool:
        """Whether a fault had it as its target; else one hit another worker of its launcher."""
        return any(self.learner in story.targets for story in self.stories)

    @property
    def has_run_on(self) -> bool:
        """Whether the process lived on that it had before."""
        return self.up is not None and not isinstance(self.up.payload, NodeStarted)

    @property
    def was_to_be_healed(self) -> bool:
        """Whether the plan meant to give it back: not `for: rest`."""
        return all(story.injecting.payload.for_s is not None for story in self.stories)

    def clock_s(self, event: Event | None) -> float | None:
        """Seconds from the restart or the heal to the event."""
        if event is None or self.since is None:
            return None
        return max(0.0, event.time_s - self.since.time_s)

    @property
    def cluster_start_s(self) -> float | None:
        """From the end of the former life to the start of the next, where it was the cluster that
        started it; None where chaoslab did.
        """
        said = self.up.payload if self.up else None
        if self.ended is None or self.up is None or not isinstance(said, NodeStarted):
            return None
        return self.up.time_s - self.ended.time_s if said.started_by == "cluster" else None

    @property
    def job_restart_s(self) -> float | None:
        """The part of it until its JobSet counted a restart; None where there was none."""
        if self.ended is None or not self.counted or self.cluster_start_s is None:
            return None
        return max(0.0, self.counted[-1].time_s - self.ended.time_s)

    @property
    def back_s(self) -> float:
        """Time at which it contributed again; `until_s` if it never did."""
        return self.accepted.time_s if self.accepted else self.until_s

    @property
    def waited_s(self) -> float:
        """Seconds from the heal (or else the fault) to the first contribution or the end."""
        from_s = self.since.time_s if self.since else self.gone_s
        return max(0.0, self.back_s - from_s)

    @property
    def faults(self) -> str:
        """The faults that took it away, as text."""
        named = dict.fromkeys(f"`{story.spec}` ({story.fault})" for story in self.stories)
        return " and ".join(named)

    def __str__(self) -> str:
        return f"{self.learner} after fault {self.faults}"


@once
def absences(history: History) -> tuple[Absence, ...]:
    """Every absence of every learner that a fault took away, in the order in which they began."""
    end_s = training_end_s(history)
    by_learner: dict[str, list[FaultStory]] = defaultdict(list)
    for story in history.faults:
        if story.takes_away and story.failed is None and story.injecting.time_s < end_s:
            for learner in learners_hit(history)[story.injection]:
                by_learner[learner].append(story)
    found: list[Absence] = []
    for learner, stories in by_learner.items():
        opened = _open_absences(learner, stories, end_s)
        found += [_come_back(absence, history) for absence in opened]
    return tuple(sorted(found, key=lambda absence: (absence.gone_s, absence.learner)))


def busy_stretches(history: History, learner: str, but: FaultStory | None = None) -> Stretches:
    """When a learner was under a fault, or on its way back from one; they may overlap.

    `but`: a fault that is left out. One that alone took it away is over with its return, which may
    be long before the heal: some give their victims back themselves.
    """
    away = [one for one in absences(history) if one.learner == learner]
    alone = {one.stories[0].injection for one in away if len(one.stories) == 1}
    under = [
        (window.start_s, window.end_s)
        for window in fault_windows(history)
        if learner in window.story.targets and not window.story.brings_in
        if window.story is not but and window.story.injection not in alone
    ]
    return [*under, *((one.gone_s, one.back_s) for one in away)]


def _open_absences(learner: str, stories: Sequence[FaultStory], end_s: float) -> list[Absence]:
    """Overlapping injections are one absence; each lasts at most until the next begins."""
    groups: list[list[FaultStory]] = []
    for story in stories:
        healed_s = max((_healed_s(s) for s in groups[-1]), default=0.0) if groups else 0.0
        if groups and story.injecting.time_s < healed_s:
            groups[-1].append(story)
        else:
            groups.append([story])
    starts_s = [group[0].injecting.time_s for group in groups] + [end_s]
    return [
        Absence(
            learner=learner,
            stories=tuple(group),
            gone_s=starts_s[index],
            until_s=starts_s[index + 1],
            is_last=index == len(groups) - 1,
        )
        for index, group in enumerate(groups)
    ]


def _healed_s(story: FaultStory) -> float:
    return story.healed.time_s if story.healed else float("inf")


def _come_back(absence: Absence, history: History) -> Absence:
    """Follow the learner from the heal to its contributions."""
    counted = (
        event
        for event in history.of(EngineReported)
        if (event.payload.node, event.payload.action) == (absence.learner, "job_restart")
        and absence.gone_s <= event.time_s <= absence.until_s
    )
    absence = replace(
        absence, fenced_pushes=_fenced_pushes(absence, history), counted=tuple(counted)
    )
    absence = _restarted(absence, history, _healing(absence))
    since, up = absence.since, absence.up
    if since is None or up is None:
        return absence
    false = {event.seq for event in absence.fenced_pushes}

    def is_its(event: Event, said: Membership) -> bool:
        return said.incarnation == absence.incarnation and event.seq not in false

    merged = [
        part.merged
        for part in parts_after(history, absence.learner, since, absence.until_s)
        if is_its(part.merged, part.contributor) and not part.merged.payload.is_restated
    ]

    def first(kind: type[_M]) -> list[Event[_M]]:
        later = of_learner_after(history, kind, absence.learner, since, absence.until_s)
        return list(islice((event for event in later if is_its(event, event.payload)), 1))

    return replace(
        absence,
        stepped=next(iter(first(LearnerStep)), None),
        accepted=min(
            [*first(PushAccepted), *merged[:1]], key=lambda event: event.seq, default=None
        ),
        merged=tuple(merged),
    )


def _healing(absence: Absence) -> Event | None:
    """The moment from which no injection keeps the learner away."""
    heals = [story.healing for story in absence.stories]
    known = [heal for heal in heals if heal and heal.time_s < absence.until_s]
    return max(known, key=lambda event: event.seq) if len(known) == len(heals) else None


def _restarted(absence: Absence, history: History, healing: Event | None) -> Absence:
    """Which life came back and since when: the last one started, or the old one if it lived on."""
    gone_seq = absence.stories[0].injecting.seq
    heal_seq = healing.seq if healing else len(history.events)
    starts = [
        event
        for event in history.of(NodeStarted)
        if event.payload.node == absence.learner and event.time_s <= absence.until_s
    ]
    exits = [
        event
        for event in history.of(NodeExited)
        if event.payload.node == absence.learner
        and gone_seq < event.seq < heal_seq
        and event.time_s <= absence.until_s
    ]
    life = starts[-1] if starts else None
    ended = {event.payload.incarnation for event in exits}
    if life is None or life.payload.incarnation in ended:
        return replace(absence, since=healing)  # it died, and was not started again
    was_started = life.seq > gone_seq
    healed = max(
        (s.healed for s in absence.stories if s.healed), key=lambda e: e.seq, default=healing
    )
    return replace(
        absence,
        since=life if was_started and life.seq < heal_seq else healing,
        ended=exits[-1] if exits and was_started else None,
        up=life if was_started else healed,
        incarnation=life.payload.incarnation,
    )


def _fenced_pushes(absence: Absence, history: History) -> tuple[Event, ...]:
    """Pushes accepted meanwhile under a membership that the syncer had already ended.

    The first end of a membership counts: one that comes to end twice was kept after the first.
    """
    left: dict[int, int] = {}
    for event in of_learner(history, MemberLeft, absence.learner):
        left.setdefault(event.payload.epoch, event.seq)
    return tuple(
        event
        for event in of_learner_between(
            history, PushAccepted, absence.learner, absence.gone_s, absence.until_s
        )
        if left.get(event.payload.epoch, event.seq) < event.seq
    )
