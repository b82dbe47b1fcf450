"""Retries: how often learners connected in vain. A link that is gone must not be flooded.

    stream ends ─ dial ─ pause ─ dial ─── pause ─── dial ──────── pause ──────── dial: answered
                  └── each of them is an attempt; the pauses grow, and no two learners' are alike

The first dial of a life is no retry. Learners report every dial that failed or was answered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import training_end_s
from chaoslab.checks.violations import Doubt, Measured, Violation, conclude, unknown
from chaoslab.core.binding import binding
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LinkClosed, LinkMeasured, LinkOpened
from chaoslab.core.units import plural
from chaoslab.record.history import History

_MINUTE_S = 60.0
_SECOND_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """No learner dials more often than the bound in any minute, however long its link is gone."""

    name: ClassVar[str] = "retries"
    summary: ClassVar[str] = "learners that lost their link reconnect with pauses"

    max_per_minute: int = binding(40, most=600)
    """Dials of one learner in any minute, whether they were answered or not."""

    def judge(self, history: History) -> Finding:
        """Count the busiest minute of each learner until training ended."""
        end_s = training_end_s(history)
        reporting = {
            event.payload.learner
            for event in history.of(LinkMeasured)
            if event.payload.direction == "down"
        }
        if not reporting:
            return unknown(self.name, Code.NOTHING_TO_JUDGE, "no learner reported of its link")
        dials = {learner: _retries(history, learner, end_s) for learner in history.learners}
        busiest = {learner: _busiest(events, _MINUTE_S) for learner, events in dials.items()}
        most = max((len(found) for found in busiest.values()), default=0)
        silent = sorted(set(history.learners) - reporting)
        return conclude(
            self.name,
            [*map(self._violation, busiest, busiest.values()), *_unreported(silent)],
            passed=f"no learner reconnected more than {plural(most, 'time')} in a minute",
            samples=len(history.of(LinkMeasured)),
            measured=Measured(most, self.max_per_minute, Unit.PER_MINUTE),
            numbers=_numbers(dials, busiest),
        )

    def _violation(self, learner: str, found: Sequence[Event]) -> Violation | None:
        if len(found) <= self.max_per_minute:
            return None
        text = (
            f"{learner} reconnected {len(found)} times in the minute from "
            f"{found[0].time_s:.1f} s on; the bound is {self.max_per_minute}"
        )
        return Violation.at(found[self.max_per_minute], Code.RECONNECTS_TOO_OFTEN, text, learner)


def _unreported(silent: Sequence[str]) -> Iterator[Doubt]:
    if silent:
        text = f"nothing was reported of the links of {', '.join(silent)}"
        yield Doubt(Code.RECORD_INCOMPLETE, text)


def _retries(history: History, learner: str, end_s: float) -> Sequence[Event]:
    """All dials of a learner but the first of each life, when their outcome was known."""
    lives: set[int] = set()
    found = []
    for event in history.of(LinkOpened, LinkClosed):
        if event.time_s > end_s or event.payload.learner != learner:
            continue
        if isinstance(event.payload, LinkClosed) and event.payload.was_open:
            continue
        life = event.payload.incarnation
        if life in lives:
            found.append(event)
        lives.add(life)
    return found


def _busiest(events: Sequence[Event], window_s: float) -> Sequence[Event]:
    """The most events that lie within any window of this length."""
    best: Sequence[Event] = ()
    first = 0
    for last, event in enumerate(events):
        while event.time_s - events[first].time_s >= window_s:
            first += 1
        if last + 1 - first > len(best):
            best = events[first : last + 1]
    return best


def _numbers(
    dials: Mapping[str, Sequence[Event]], busiest: Mapping[str, Sequence[Event]]
) -> Mapping[str, Json]:
    together = sorted((e for events in dials.values() for e in events), key=lambda e: e.time_s)
    return {
        "retries": {learner: len(events) for learner, events in dials.items()},
        "busiest_minute": {learner: len(events) for learner, events in busiest.items()},
        "busiest_second_of_all": len(_busiest(together, _SECOND_S)),
    }
