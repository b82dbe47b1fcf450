"""Detection: the syncer drops dead learners soon, and does not drop living ones.

    gone ──► member.suspected or member.left     within the bound, for every victim
    at work ──► member.left                      never; a suspicion that passes is only counted

A victim that is back before the bound need not have been missed. A learner is at work under a fault
that does not take it away, such as a thin link: dropping it makes it lose more than the fault does.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.disturbances import disturbances
from chaoslab.checks.outages import outages
from chaoslab.checks.stretches import holds, union_by_name
from chaoslab.checks.timeline import before_the_end, fault_windows, members_before
from chaoslab.checks.violations import Doubt, Measured, Violation, conclude
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import LearnerLeft, LeftBecause, MemberLeft, MemberSuspected, NodeExited
from chaoslab.core.protocol import LeaveReason
from chaoslab.core.units import Duration, delay
from chaoslab.record.history import History

_Missed: TypeAlias = Event[MemberSuspected | MemberLeft]
"""The syncer takes a member for gone."""
_EXIT_SLACK_S = 2.0
"""A process may be seen to exit this long before or after its membership ends."""
_SILENT_S, _MOSTLY = 1.0, 0.5
"""A silence this long excuses a drop if the machine was stalled for this share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """Every victim is suspected or dropped in time, and no learner at work is dropped."""

    name: ClassVar[str] = "detection"
    summary: ClassVar[str] = "the syncer misses each victim in time and drops no other learner"

    within_s: Duration = 10.0
    """Longest time from the victim's exit (without one, from the injection) to the suspicion."""
    allow_suspicion: bool = True
    """Whether a learner that no fault took away may be suspected and recover."""

    def judge(self, history: History) -> Finding:
        """Time each victim; one that was away for less than the bound need not be missed."""
        away = absences(history)
        missable = [absence for absence in away if _epoch(absence, history) is not None]
        delays = [(absence, _delay_s(absence, history)) for absence in missable]
        seen = [delay_s for _, delay_s in delays if delay_s is not None]
        violations = [
            _missed(absence, delay_s, self.within_s)
            for absence, delay_s in delays
            if (_gone_for_s(absence, history) if delay_s is None else delay_s) > self.within_s
        ]
        false, disturbed = _sorted_out(list(_unjustified(history, away)), history)
        left = [event for event in false if event.kind is Kind.MEMBER_LEFT]
        violations += [_false(event) for event in (left if self.allow_suspicion else false)]
        slowest_s = max(seen, default=0.0)
        stories = [window.story for window in fault_windows(history)]
        hampering = [one for one in stories if not one.takes_away and not one.brings_in]
        knew = f"knew of every victim {delay(slowest_s, 'within {}')} and " if seen else ""
        return conclude(
            self.name,
            [*violations, *disturbed],
            nothing=Doubt(Code.NO_FAULT, "no learner was away for long enough to be missed"),
            passed=f"the syncer {knew}dropped no {'other learner' if seen else 'learner at work'}",
            samples=len(seen) + len(hampering),
            measured=Measured(slowest_s, self.within_s, Unit.SECONDS) if seen else None,
            numbers={"false_suspicions": len(false) - len(left)},
        )


def _delay_s(absence: Absence, history: History) -> float | None:
    """Seconds until the syncer missed the victim; None if it did not before it was back."""
    epoch = _epoch(absence, history)
    for event in history.between(absence.gone_s, absence.back_s, MemberSuspected, MemberLeft):
        if event.payload.epoch == epoch:
            return max(0.0, event.time_s - _gone_s(absence, history))
    return None


def _epoch(absence: Absence, history: History) -> int | None:
    """The membership that the fault met; None if the victim was no member then."""
    return members_before(history, absence.stories[0].injecting).get(absence.learner)


def _gone_s(absence: Absence, history: History) -> float:
    """Time at which the exit of the process was seen; of the injection if there was none."""
    exits = history.between(absence.gone_s, absence.back_s, NodeExited)
    own = (event.time_s for event in exits if event.payload.node == absence.learner)
    return next(own, absence.gone_s)


def _gone_for_s(absence: Absence, history: History) -> float:
    end_s = absence.since.time_s if absence.since else absence.until_s
    return end_s - _gone_s(absence, history)


def _missed(absence: Absence, delay_s: float | None, within_s: float) -> Violation:
    code = Code.NOT_MISSED if delay_s is None else Code.MISSED_TOO_LATE
    said = "never noticed" if delay_s is None else f"took {delay_s:.1f} s to notice"
    text = f"the syncer {said} the absence of {absence}; the bound is {within_s:g} s"
    return Violation.at(absence.stories[0].injecting, code, text, absence.learner)


def _unjustified(history: History, away: Sequence[Absence]) -> Iterator[_Missed]:
    """Suspicions and drops of learners that no fault had taken away, on no way back and not dead.

    A syncer that was away itself may take learners that are cut off for gone until it hears them
    again.
    """
    reasons = [(a.learner, a.gone_s, a.back_s) for a in away]
    for window in fault_windows(history):
        targets = window.story.targets if window.story.takes_away else ()
        reasons += [(node, window.start_s, window.end_s) for node in targets]
    for exited in before_the_end(history, history.of(NodeExited)):
        seen_s = exited.time_s
        reasons += [(exited.payload.node, seen_s - _EXIT_SLACK_S, seen_s + _EXIT_SLACK_S)]
    for outage in outages(history):
        for name, heard in outage.returns.items():
            reasons += [(name, outage.gone_s, heard.time_s if heard else outage.until_s)]
        reasons += [(name, outage.gone_s, outage.until_s) for name in outage.temporary]
    excused = union_by_name(reasons)
    for event in before_the_end(history, history.of(MemberSuspected, MemberLeft)):
        learner, time_s = event.payload.learner, event.time_s
        said = event.payload
        has_left = isinstance(said, MemberLeft) and said.reason is LeaveReason.SAID_GOODBYE
        if has_left and _stopped_s(history, learner) >= time_s:
            continue  # training has ended: its words and the syncer's may arrive in any order
        if not holds(excused.get(learner, ()), time_s):
            yield event


def _sorted_out(
    false: Sequence[_Missed], history: History
) -> tuple[Sequence[_Missed], Sequence[Doubt]]:
    """Events that the syncer has to account for, and a sentence on the others.

    It may drop a learner after a time without messages between them, if the harness or the
    machine was stalled for most of it.
    """
    disturbed = disturbances(history)
    kept, said = [], []
    for event in false:
        since_s = _silent_since_s(event, history)
        causes = [one for one in disturbed if one.overlap_s(since_s, event.time_s)]
        lost_s = sum(one.overlap_s(since_s, event.time_s) for one in causes)
        silent_s = event.time_s - since_s
        if silent_s >= _SILENT_S and lost_s > _MOSTLY * silent_s:
            text = f"{_false(event).text}, but {' and '.join(one.text for one in causes)}"
            said.append(Doubt(Code.MACHINE_STALLED, text))
        else:
            kept.append(event)
    return kept, said


def _silent_since_s(event: _Missed, history: History) -> float:
    """Time since which the syncer or the learner was silent, before one was taken for gone."""
    learner = event.payload.learner
    own = (Kind.MEMBER_SUSPECTED, Kind.MEMBER_LEFT)
    before = history.events[: event.seq]
    works = (Kind.LEARNER_STEP, Kind.LEARNER_WAITING)
    stepped = (e for e in reversed(before) if e.kind in works and e.source == learner)
    spoken = (e for e in reversed(before) if e.source == event.source and e.kind not in own)
    last = [e.time_s for e in (next(stepped, None), next(spoken, None)) if e is not None]
    return min(last, default=event.time_s)


def _stopped_s(history: History, learner: str) -> float:
    """Until when a learner that left as training ended may be known to have; -inf if it did not."""
    left = (e for e in history.of(LearnerLeft) if e.payload.learner == learner)
    stopped = (e.time_s for e in left if e.payload.reason is LeftBecause.STOPPED)
    return max(stopped, default=-math.inf)


def _false(event: _Missed) -> Violation:
    learner = event.payload.learner
    has_left = event.kind is Kind.MEMBER_LEFT
    verb = "dropped" if has_left else "suspected"
    code = Code.DROPPED_WRONGLY if has_left else Code.SUSPECTED_WRONGLY
    text = f"the syncer {verb} {learner} at {event.time_s:.1f} s, and no fault had taken it away"
    return Violation.at(event, code, text, learner)
