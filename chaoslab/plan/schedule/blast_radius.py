"""Limits of a schedule, checked before the start as far as times are known.

    planned injections ── objection ──► PlanError: which one breaks which limit
    drawn injections   ── objection ──► dropped, with the reason

Times are comparable along one line only: seconds since the start, or seconds after round 48. What
overlaps between two lines is known only in the run, where the same limits are checked again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from chaoslab.core.errors import PlanError
from chaoslab.core.units import plural
from chaoslab.plan.model import FaultPlan, FaultSpec, Injection, Limits
from chaoslab.plan.schedule.lines import Dropped

Line: TypeAlias = tuple[str, ...]
"""Origin of times: () is the start of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Learners under one injection, with start and end along a line."""

    spec: str
    targets: frozenset[str]
    is_away: bool
    is_sharing: bool
    """Allowed on one learner together with others that share."""
    start_s: float
    end_s: float

    def covers(self, moment_s: float) -> bool:
        return self.start_s <= moment_s < self.end_s or moment_s == self.start_s


def apply_limits(
    plan: FaultPlan,
    drafts: Sequence[Injection],
    learners: frozenset[str],
    reserve: frozenset[str] = frozenset(),
) -> tuple[list[Injection], list[Dropped]]:
    """The injections that keep the limits, in order, and the drawn ones that break them.

    `learners` are there from the start, `reserve` are not. PlanError for a planned injection that
    breaks a limit, or that is impossible for a learner that is (or is not) there.
    """
    specs = {spec.id: spec for spec in plan.faults}
    blast = _Blast(limits=plan.limits, learners=learners)
    _refuse_who_is_not_where(specs, drafts, learners, reserve)
    for draft in drafts:
        if specs[draft.spec].at is not None:
            blast.add_planned(draft, where=specs[draft.spec].where)
    drawn = [draft for draft in drafts if specs[draft.spec].at is None]
    reasons = {id(draft): blast.add_drawn(draft) for draft in sorted(drawn, key=_time_s)}
    kept = [draft for draft in drafts if not reasons.get(id(draft))]
    return kept, [
        Dropped(
            spec=draft.spec,
            fault=draft.fault,
            targets=draft.targets,
            time_s=_time_s(draft),
            reason=reasons[id(draft)],
        )
        for draft in drawn
        if reasons[id(draft)]
    ]


@dataclass(slots=True, kw_only=True)
class _Blast:
    """Spans up to now, by line."""

    limits: Limits
    learners: frozenset[str]
    spans: dict[Line, list[_Span]] = field(default_factory=dict)
    lines: dict[str, tuple[Line, float]] = field(default_factory=dict)
    """End of each planned fault: its line, and the seconds along it."""

    def add_planned(self, draft: Injection, *, where: str) -> None:
        line, start_s = self._begin(draft, where)
        end_s = _end_s(start_s, draft.for_s)
        reason = self._add(line, _span(draft, start_s, end_s))
        if reason:
            raise PlanError(
                f"fault {draft.spec!r} on {_hit(draft)} {draft.trigger}: {reason}", where=where
            )
        self.lines[draft.spec] = (line, end_s)

    def add_drawn(self, draft: Injection) -> str:
        """Add a draft, in the order of time; the reason if it is impossible, "" if it was added."""
        start_s = _time_s(draft)
        on_line = self.spans.get((), [])
        self.spans[()] = [span for span in on_line if max(span.start_s, span.end_s) >= start_s]
        end_s = _end_s(start_s, draft.for_s)
        return self._add((), _span(draft, start_s, end_s))

    def _begin(self, draft: Injection, where: str) -> tuple[Line, float]:
        """Line on which a planned fault begins, and the seconds along it."""
        trigger = draft.trigger
        if trigger.time_s is not None:
            return (), trigger.time_s
        if trigger.after is not None:
            line, end_s = self.lines.get(trigger.after, (("after", trigger.after), 0.0))
            if end_s == math.inf:
                text = f"fault {draft.spec!r} waits for {trigger.after!r}, which is never healed"
                raise PlanError(text, where=where)
            return line, end_s + trigger.offset_s
        return (str(trigger),), 0.0

    def _add(self, line: Line, span: _Span) -> str:
        near = [other for other in self.spans.get(line, []) if _overlap(span, other)]
        moments = [span.start_s, *(other.start_s for other in near if span.covers(other.start_s))]
        for moment_s in moments:
            reason = self._objection(span, [other for other in near if other.covers(moment_s)])
            if reason:
                return reason
        self.spans.setdefault(line, []).append(span)
        return ""

    def _objection(self, span: _Span, others: Sequence[_Span]) -> str:
        for other in others:
            both = sorted(span.targets & other.targets)
            if both and not (span.is_sharing and other.is_sharing):
                return f"{', '.join(both)} would still be under {other.spec!r}"
        spans = [span, *others]
        hit = self.learners & frozenset().union(*(each.targets for each in spans))
        away = self.learners & frozenset().union(*(each.targets for each in spans if each.is_away))
        total, left = len(self.learners), len(self.learners - away)
        if len(hit) > self.limits.max_affected * total + 1e-9:
            return (
                f"{len(hit)} of {total} learners would be under a fault at once, and "
                f"`limits.max_affected` is {self.limits.max_affected:.0%}"
            )
        if away and left < self.limits.min_alive:
            return (
                f"{plural(left, 'learner')} would be left, and `limits.min_alive` is "
                f"{self.limits.min_alive}"
            )
        return ""


def _refuse_who_is_not_where(
    specs: Mapping[str, FaultSpec],
    drafts: Sequence[Injection],
    learners: frozenset[str],
    reserve: frozenset[str],
) -> None:
    """Refuse to add learners that are there, and to hit a reserve that is never added."""
    coming = {name for draft in drafts if _brings_in(draft) for name in draft.targets}
    for draft in drafts:
        there = sorted(learners & set(draft.targets)) if _brings_in(draft) else []
        if there:
            raise PlanError(
                f"fault {draft.spec!r} brings learners in, and {', '.join(there)} are there "
                "from the start: target the reserve, as in `target: {reserve: all}`",
                where=specs[draft.spec].where,
            )
        if never := sorted((reserve & set(draft.targets)) - coming):
            raise PlanError(
                f"fault {draft.spec!r} is on {', '.join(never)} of the reserve, and no fault "
                "brings it in: add one of `fault: control.scale_up`",
                where=specs[draft.spec].where,
            )


def _hit(draft: Injection) -> str:
    return ", ".join(draft.targets) or "the node that announces it"


def _brings_in(draft: Injection) -> bool:
    return getattr(draft.settings, "brings_in", False)


def _span(draft: Injection, start_s: float, end_s: float) -> _Span:
    """Span of a draft; a learner that was added for good is not under a fault."""
    settings = draft.settings
    end_s = start_s if _brings_in(draft) and math.isinf(end_s) else end_s
    return _Span(
        spec=draft.spec,
        targets=frozenset(draft.targets),
        is_away=getattr(settings, "takes_away", True),
        is_sharing=getattr(settings, "shares_targets", False),
        start_s=start_s,
        end_s=end_s,
    )


def _overlap(one: _Span, other: _Span) -> bool:
    return one.covers(other.start_s) or other.covers(one.start_s)


def _end_s(start_s: float, for_s: float | None) -> float:
    """Rounded, so that one outage may begin at the instant in which another ends."""
    return math.inf if for_s is None else round(start_s + for_s, 6)


def _time_s(draft: Injection) -> float:
    return draft.trigger.time_s or 0.0
