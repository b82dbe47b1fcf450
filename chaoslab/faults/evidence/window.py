"""Windows of the record: what it shows of one target before and during a fault.

    History ── from fault.injecting to fault.healing (or now) ──► window per target ──► Evidence

Everything here is a pure function of the journal. The order of the journal decides, not the clock:
what was written before `fault.injecting` cannot be the fault's doing.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar, cast

from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import (
    EngineReported,
    FaultHealed,
    FaultHealing,
    FaultInjected,
    FaultInjecting,
    FaultStepped,
    NodeExited,
    NodeProbed,
    NodeStarted,
    OfLearner,
    Payload,
    RunStarted,
    kind_of,
)
from chaoslab.faults.evidence.base import Evidence, EvidenceCode
from chaoslab.faults.evidence.codes import Code
from chaoslab.plan.model import Injection
from chaoslab.record.history import History

LONG_ENOUGH = 0.8
"""A fault that lasted for less than this share of the time asked is weak."""
LAG_S = 1.0
"""Delay with which a node's earlier output may arrive on a busy machine."""
CALM_AFTER_S = 3.0
"""Time after a fault's heal in which its traces may still be seen."""
_DEAD = frozenset({"Z", "gone"})
_LIFE_KINDS = (Kind.NODE_STARTED, Kind.NODE_EXITED)
_MEMBER_KINDS = (Kind.MEMBER_JOINED, Kind.MEMBER_LEFT)
_P = TypeVar("_P", bound=Payload)
_L = TypeVar("_L", bound=OfLearner)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceWindow:
    """One target of one injection, with the record before and during the fault."""

    target: str
    injection: Injection
    begin_s: float
    """Beginning of the injection, whichever of its targets came first."""
    injected_s: float
    """Time at which all targets had it; `begin_s` if the record does not show that."""
    end_s: float
    before: tuple[Event, ...]
    during: tuple[Event, ...]
    history: History
    """The whole record, for what happened elsewhere."""
    steps: int
    """Later steps of the injection that were carried out."""
    others: tuple[tuple[float, float], ...]
    """Times in which other faults affected the target, each a little longer."""

    @property
    def calm(self) -> tuple[Event, ...]:
        """Events before the fault, without those during or shortly after other faults on the
        target.
        """
        return tuple(e for e in self.before if not any(a <= e.time_s <= b for a, b in self.others))

    @property
    def incarnation(self) -> int | None:
        """Life that the fault met; None when the target was not running."""
        last = next((e.payload for e in reversed(self.before) if e.kind in _LIFE_KINDS), None)
        return last.incarnation if isinstance(last, NodeStarted) else None

    @property
    def has_syncer(self) -> bool:
        """Whether a syncer keeps a list of members: none does of a script."""
        started = self.history.last(RunStarted)
        return started is None or started.payload.script is None

    @property
    def was_member(self) -> bool:
        """Whether the syncer counted it when the fault began."""
        last = next((e.kind for e in reversed(self.before) if e.kind in _MEMBER_KINDS), None)
        return last is Kind.MEMBER_JOINED

    @property
    def exited(self) -> Event[NodeExited] | None:
        """The end of the life that the fault met."""
        return self.first(NodeExited, lambda e: e.payload.incarnation == self.incarnation)

    @property
    def restarted(self) -> Event[NodeStarted] | None:
        """The next life, if it began before the heal."""
        return self.first(NodeStarted)

    @property
    def probed_states(self) -> list[str]:
        """States of the process by probes, in order."""
        return [e.payload.state for e in self.of(NodeProbed)]

    def own(self, kind: type[_L]) -> Event[_L] | None:
        """The first event during the fault of the life that the fault met."""
        return next(iter(of_life(self.during, kind, self.incarnation)), None)

    def of(self, kind: type[_P]) -> list[Event[_P]]:
        """The events with this payload during the fault."""
        return of(self.during, kind)

    def first(
        self, kind: type[_P], fits: Callable[[Event[_P]], bool] = lambda _: True
    ) -> Event[_P] | None:
        """The first such event during the fault."""
        return next((e for e in self.of(kind) if fits(e)), None)

    def down_s(self, exited: Event[NodeExited]) -> float:
        """Time from the exit, or the first probe of it, to the next start or the window's end."""
        until_s = self.restarted.time_s if self.restarted else self.end_s
        seen_dead = self.first(NodeProbed, lambda e: e.payload.state in _DEAD)
        dead_s = min(exited.time_s, seen_dead.time_s if seen_dead else exited.time_s)
        return max(0.0, until_s - dead_s)

    @property
    def job_restart(self) -> Event[EngineReported] | None:
        """The count by its JobSet, if that one started it again during the fault."""
        if self.restarted is None or self.restarted.payload.started_by != "cluster":
            return None
        return self.first(EngineReported, lambda e: e.payload.action == "job_restart")

    def was_away(self, down_s: float) -> Code:
        """As `lasted`. An outage that its JobSet, its launcher or its supervisor ended is as asked,
        too: its plan leaves the heal to that.
        """
        by = self.restarted.payload.started_by if self.restarted else ""
        is_left = by in ("launcher", "supervisor") or self.job_restart is not None
        return Code.AS_ASKED if is_left else self.lasted(down_s)

    def lasted(self, measured_s: float) -> Code:
        """AS_ASKED if that is long enough for what was asked, else TOO_SHORT."""
        for_s = self.injection.for_s
        is_long = for_s is None or measured_s >= LONG_ENOUGH * for_s
        return Code.AS_ASKED if is_long else Code.TOO_SHORT


def of(events: Iterable[Event], kind: type[_P]) -> list[Event[_P]]:
    """Events with this payload."""
    wanted = kind_of(kind)
    return [cast("Event[_P]", event) for event in events if event.kind is wanted]


def of_life(events: Iterable[Event], kind: type[_L], life: int | None) -> list[Event[_L]]:
    """Events with this payload about this life of a learner."""
    return [event for event in of(events, kind) if event.payload.incarnation == life]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Conclusion of a fault from a window. `text` follows the target's name."""

    code: EvidenceCode
    text: str
    measured: Mapping[str, Json]
    proof: tuple[Event | None, ...] = ()


def no_evidence(code: EvidenceCode, text: str, **measured: Json) -> Found:
    """A finding without proof: the fault is not shown, and why."""
    return Found(code=code, text=text, measured=measured)


def evidence_of_each(
    injection: Injection,
    history: History,
    look: Callable[[EvidenceWindow], Found],
    requested: Mapping[str, Json],
) -> tuple[Evidence, ...]:
    """Findings of `look` in the window of each target, in the order of the targets."""
    windows = evidence_windows(injection, history)
    return tuple(
        _evidence(target, look(windows[target]) if windows else _NOT_BEGUN, requested)
        for target in injection.targets
    )


def _evidence(target: str, found: Found, requested: Mapping[str, Json]) -> Evidence:
    return Evidence(
        target=target,
        code=found.code,
        requested=dict(requested),
        measured={
            key: round(value, 3) if isinstance(value, float) else value
            for key, value in found.measured.items()
        },
        text=f"{target} {found.text}",
        proof=tuple(e.seq for e in found.proof if e is not None),
    )


_NOT_BEGUN = no_evidence(
    Code.NOT_BEGUN, "was not touched: the record does not show that the fault began"
)


def evidence_windows(injection: Injection, history: History) -> Mapping[str, EvidenceWindow]:
    """The window of each target; none if the record does not show that the fault began."""
    begun = (e for e in history.of(FaultInjecting) if e.payload.injection == injection.id)
    begin = next(begun, None)
    if begin is None:
        return {}
    return {target: _window(target, injection, begin, history) for target in injection.targets}


def _window(target: str, injection: Injection, begin: Event, history: History) -> EvidenceWindow:
    healing = next(
        (e for e in history.of(FaultHealing) if e.payload.injection == injection.id), None
    )
    injected = (e for e in history.of(FaultInjected) if e.payload.injection == injection.id)
    about = history.about(target)
    starts = bisect_left(about, begin.seq, key=attrgetter("seq"))
    ends = len(about) if healing is None else bisect_left(about, healing.seq, key=attrgetter("seq"))
    stepped = [e for e in history.of(FaultStepped) if e.payload.injection == injection.id]
    return EvidenceWindow(
        target=target,
        injection=injection,
        begin_s=begin.time_s,
        injected_s=next((e.time_s for e in injected), begin.time_s),
        end_s=healing.time_s if healing else history.end_s,
        before=tuple(about[:starts]),
        during=tuple(about[starts:ends]),
        history=history,
        steps=sum(1 for e in stepped if healing is None or e.seq < healing.seq),
        others=tuple(_others(target, injection, history)),
    )


def _others(target: str, injection: Injection, history: History) -> Iterator[tuple[float, float]]:
    """Start and end of each other fault on the target, with `CALM_AFTER_S`; one that brought the
    target in ends when it was injected, because usual work follows.
    """
    brought = {e.payload.injection for e in history.of(FaultInjecting) if e.payload.brings_in}
    begun = (e for e in history.of(FaultInjected) if e.payload.injection in brought)
    over = (*begun, *(e for e in history.of(FaultHealed) if e.payload.injection not in brought))
    healed_s = {e.payload.injection: e.time_s + CALM_AFTER_S for e in over}
    for begin in history.of(FaultInjecting):
        if begin.payload.injection != injection.id and target in begin.payload.targets:
            yield begin.time_s, healed_s.get(begin.payload.injection, math.inf)
