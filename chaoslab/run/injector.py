"""Injector: each injection from waiting to open to over, with every move in the journal.

    waiting ── trigger ──► injecting, injected ──► open ── steps ──► evidence ──► healing, healed
                                                              something is left ──► heal_failed ┘
       └── its trigger never comes, or the limits forbid it ──► skipped

It branches on no kind of fault: a fault is asked to inject, to step, to show evidence and to heal.
`act` does what is due, and `next_time_s` says when to call it again. So that a fault comes on time,
`waiting.prepare` does beforehand what is possible, and of one whose time is known the limits are
asked and `fault.injecting` is written a moment before it. Then nothing stands between the time and
the fault: no report of a node is read, no disk is waited for. See `waiting` for those that were not
begun.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, NamedTuple, cast

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    FaultFailed,
    FaultHealed,
    FaultHealFailed,
    FaultHealing,
    FaultInjected,
    FaultInjecting,
    FaultSkipped,
    FaultStepped,
    NodeProbed,
    Obstacle,
)
from chaoslab.faults.base import Fault
from chaoslab.fleet.base import Role
from chaoslab.plan.model import SYNCER, Injection
from chaoslab.prepare.preflight import fault_of
from chaoslab.record.run_directory import RunDirectory, plain
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.open_injection import OpenInjection, OpenInjections, gather, targets_of
from chaoslab.run.waiting import WaitingInjections
from chaoslab.undo.heartbeat import DueWithin, no_undo_log

_AGAIN_S = 1.0
"""After this a heal that failed is tried again."""
_LATER_S = 0.1
_LEAD_S = 0.005
"""Time before its injection at which `fault.injecting` is written; then the harness only sleeps."""


class _Due(NamedTuple):
    """Something to do."""

    time_s: float
    """When it is to happen. What is due earlier is done first."""
    begins_s: float
    """When to begin it."""
    action: Callable[[], None]


@dataclass(slots=True, kw_only=True)
class Injector:
    """All injections of one run."""

    recorder: EventRecorder
    directory: RunDirectory
    waiting: WaitingInjections
    opened: OpenInjections
    operators_may_act: bool = False
    """Whether operators may still ask for something, so that training must not end."""
    begun: list[Injection] = field(default_factory=list)
    due_within: DueWithin = no_undo_log
    """Context in which a fault is carried out: undo entries opened in it are due at its end."""
    _healed_s: dict[str, float] = field(default_factory=dict)
    """Learners that a fault took away and gave back: when, the last time."""

    # ---------------------------------------------------------------- what the run asks

    @property
    def is_done(self) -> bool:
        """Whether nothing waits and nothing that is open heals before the end."""
        return not (self.opened.will_heal or self.operators_may_act or self.waiting)

    @property
    def is_busy(self) -> bool:
        """Whether something is open that will be healed, or is to come by time or an operator."""
        is_awaited = self.operators_may_act or any(self.waiting.held.values())
        has_steps = any(one.steps for one in self.opened.all)
        return self.opened.will_heal or is_awaited or has_steps or any(self.waiting.due())

    def pending(self) -> list[str]:
        """Victims that are not back yet from a fault that gives them back, one sentence each."""
        progress = self.recorder.progress
        under = [f"{name} is still under a fault" for name in sorted(self.opened.returning)]
        missed = [
            f"{name} has not contributed since it was healed at {healed_s:.1f} s"
            for name, healed_s in sorted(self._healed_s.items())
            if name not in self.opened.away and not progress.has_contributed_since(name, healed_s)
        ]
        awaited = [
            f"{name} has not contributed since it was brought in at {one.injected_s:.1f} s"
            for one in self.opened.all
            for name in one.injection.targets
            if one.fault.brings_in and not progress.has_contributed_since(name, one.injected_s)
        ]
        lost = (
            [f"{SYNCER} is not given back by the plan"]
            if SYNCER in self.opened.away - self.opened.returning
            else []
        )
        return under + lost + missed + awaited

    @property
    def next_time_s(self) -> float:
        """When `act` has something to do even if no news comes; inf if it never has."""
        following = self._next()
        return inf if following is None else following.begins_s

    def act(self) -> bool:
        """Do everything that is due, in the order in which it fell due; whether anything was."""
        has_acted = False
        self.waiting.ask()
        self.waiting.note_held()
        while (due := self._next()) is not None and due.begins_s <= self.recorder.now_s:
            due.action()
            has_acted = True
        return has_acted

    def close(self, because: str) -> None:
        """The end: skip what waits, measure what is open, heal it unless it is `for: rest`.

        Every injection is tried, those again that could not be healed before; FleetError at the end
        names those that could not be looked at.
        """
        for injection in tuple(self.waiting):
            reason = f"its trigger ({injection.trigger}) did not come: {because}"
            self._skip(injection, Obstacle.NO_TRIGGER, reason)
        broken = []
        for one in tuple(self.opened.all):
            try:
                if one.heals_s is None and not one.unhealed:
                    self._measure(one)
                else:
                    self._heal(one, because=because)
            except FleetError as error:
                broken.append(f"{one.injection.id}: evidence could not be collected: {error}")
        if broken:
            raise FleetError("; ".join(broken))

    # ---------------------------------------------------------------- what operators ask

    def waits(self, spec: str) -> int:
        """How many injections of this entry have not begun."""
        return sum(one.spec == spec for one in self.waiting)

    def leave_out(self, spec: str, *, reason: str) -> None:
        """Skip what waits of this entry."""
        for injection in [one for one in self.waiting if one.spec == spec]:
            self._skip(injection, Obstacle.OPERATOR, reason)

    def heal_early(self, spec: str = "", *, because: str) -> None:
        """Heal what is open of this entry, or everything."""
        for one in self.opened.of(spec):
            self._heal(one, because=because)

    # ---------------------------------------------------------------- what is due when

    def _next(self) -> _Due | None:
        return min(self._agenda(), key=lambda due: due.time_s, default=None)

    def _agenda(self) -> Iterator[_Due]:
        for one in self.opened.all:
            if one.again_s is not None:
                yield _Due(one.again_s, one.again_s, partial(self._undo, one))
            elif one.heals_s is not None:
                yield _Due(one.heals_s, one.heals_s, partial(self._end, one))
            for step_s, _ in one.steps[:1]:
                yield _Due(step_s, step_s, partial(self._step, one))
        for asked_s, injection in self.waiting.due():
            yield _Due(asked_s, asked_s - _LEAD_S, partial(self._open, injection, asked_s))

    # ---------------------------------------------------------------- one injection

    def _open(self, injection: Injection, asked_s: float) -> None:
        """Write it down and inject it; skip it if that is forbidden as things stand. Afterwards the
        node that announced its phase may go on.
        """
        fault, announced = fault_of(injection), self.waiting.announced(injection)
        injection, why_not = self.waiting.with_all_hit(injection, fault)
        if found := why_not or self.opened.forbidden(injection, fault):
            self._skip(injection, *found)
        else:
            one = self._note_injecting(injection, fault, asked_s, announced)
            self.recorder.journal.clock.sleep_until(asked_s)  # nothing is read before the fault
            try:
                with self._undone_when_due(one):
                    fault.inject(injection, self.recorder.fleet)
            except FleetError as error:
                self._break_off(one, error)
            else:
                injected = self.recorder.note(FaultInjected(**_about(injection)))
                one.injected_s = began_s = injected.time_s
                one.steps = [(began_s + at_s, index) for index, at_s in enumerate(fault.steps())]
                self._probe(injection)
        if announced is not None:
            self.waiting.let_go()

    def _note_injecting(
        self, injection: Injection, fault: Fault, asked_s: float, announced: Event | None
    ) -> OpenInjection:
        """Write down that it begins; it is open from now on."""
        prepared = self.waiting.take(injection)
        self.begun.append(injection)
        self.recorder.note(
            FaultInjecting(
                **_about(injection),
                settings=cast("Mapping[str, Json]", plain(injection.settings)),
                trigger=str(injection.trigger),
                for_s=injection.for_s,
                takes_away=fault.takes_away,
                brings_in=fault.brings_in,
                may_silence=getattr(fault, "may_silence", True),
                asked_s=asked_s,
                reached=announced.seq if announced else None,
            )
        )
        one = OpenInjection(
            injection=injection, fault=fault, injected_s=asked_s, still_there=prepared
        )
        self.opened.all.append(one)
        return one

    def _step(self, one: OpenInjection) -> None:
        """The next step; later, if a target was started and does not run yet, as in a cluster."""
        _, index = one.steps.pop(0)
        if self.recorder.is_starting(one.injection.targets):
            one.steps.insert(0, (self.recorder.now_s + _LATER_S, index))
            return
        try:
            with self._undone_when_due(one):
                one.fault.step(index, one.injection, self.recorder.fleet)
        except FleetError as error:
            self._break_off(one, error)
        else:
            self.recorder.note(FaultStepped(**_about(one.injection), step=index))

    @contextmanager
    def _undone_when_due(self, one: OpenInjection) -> Iterator[None]:
        """What is done to the fleet in the block is overdue once it should have been healed."""
        left_s = None if one.heals_s is None else max(0.0, one.heals_s - self.recorder.now_s)
        with self.due_within(left_s) as still_there:
            one.still_there.append(still_there)
            yield

    def _break_off(self, one: OpenInjection, error: FleetError) -> None:
        """The fleet refused it: what was half done is healed."""
        self.recorder.note(FaultFailed(**_about(one.injection), reason=str(error)))
        self._heal(one, because="it could not be carried out")

    def _end(self, one: OpenInjection) -> None:
        """Heal it; later, if targets are ending, as pods do after their deletion."""
        if not one.postpones_heal(self.recorder.fleet.nodes, _LATER_S):
            self._heal(one)

    def _heal(self, one: OpenInjection, because: str = "") -> None:
        try:
            self._measure(one)
        finally:  # whatever becomes of the evidence, the fault is undone
            if not one.unhealed:
                self.recorder.note(FaultHealing(**_about(one.injection), because=because))
            self._undo(one, because)

    def _undo(self, one: OpenInjection, because: str = "") -> None:
        """Heal it on the fleet. If something is left of it, the next try follows in `_AGAIN_S`."""
        one.steps.clear()
        if reason := "; ".join(dict.fromkeys(self._refused(one))) or self._left(one):
            one.again_s = self.recorder.now_s + _AGAIN_S
            if reason != one.unhealed:
                self.recorder.note(FaultHealFailed(**_about(one.injection), reason=reason))
            one.unhealed = reason
            return
        self.opened.all.remove(one)
        healed = self.recorder.note(FaultHealed(**_about(one.injection), because=because))
        if one.fault.takes_away:
            self._healed_s |= dict.fromkeys(self._cut_off(one.injection), healed.time_s)

    def _refused(self, one: OpenInjection) -> Iterator[str]:
        """Heal each target by itself, so that one that cannot be healed keeps no other away; gives
        the reasons of those that cannot.
        """
        for name in one.injection.targets:
            try:
                one.fault.heal(replace(one.injection, targets=(name,)), self.recorder.fleet)
            except FleetError as error:
                yield str(error)

    def _left(self, one: OpenInjection) -> str:
        """Parts of a healed fault that are still there, and targets that the fleet reports as alive
        although a probe finds no process, or a stopped one on which no other fault is open, if no
        part names it; empty: none.
        """
        found = [each for still_there in one.still_there for each in still_there()]
        left = [what for _, what in found]
        self.recorder.drain()
        under_others = targets_of(other for other in self.opened.all if other is not one)
        explained = under_others | {node for node, _ in found}
        for name in one.injection.targets:
            seen, node = self.recorder.fleet.probe(name), self.recorder.fleet.nodes[name]
            said = self.recorder.take(seen).payload
            if not (node.is_alive and isinstance(said, NodeProbed)):
                continue
            if said.state == "gone":
                left.append(f"{name} has no process")
            elif said.state == "T" and name not in explained:
                left.append(f"{name} is still stopped")
        return "; ".join(dict.fromkeys(left))

    def _cut_off(self, injection: Injection) -> frozenset[str]:
        """The learners that must show that they are back: all of them if it was the syncer, or
        their launcher.
        """
        progress, hit = self.recorder.progress, frozenset(injection.targets)
        roles = {progress.roles.get(name) for name in hit}
        if Role.LAUNCHER in roles:
            return progress.learners
        hit = frozenset(progress.alive(Role.LEARNER)) if Role.SYNCER in roles else hit
        return progress.learners & hit

    def _measure(self, one: OpenInjection) -> None:
        """Gather the evidence while the fault is still in force, once."""
        if one.is_measured:
            return
        one.is_measured = True
        self._probe(one.injection)
        self.recorder.drain()
        gather(one, self.recorder, self.directory)

    def _skip(self, injection: Injection, obstacle: Obstacle, reason: str) -> None:
        self.waiting.drop(injection)
        self.recorder.note(FaultSkipped(**_about(injection), obstacle=obstacle, reason=reason))

    def _probe(self, injection: Injection) -> None:
        for name in injection.targets:
            self.recorder.take(self.recorder.fleet.probe(name))


def _about(injection: Injection) -> Mapping[str, Any]:
    """What every event of an injection says."""
    return {
        "injection": injection.id,
        "spec": injection.spec,
        "fault": injection.fault,
        "targets": injection.targets,
    }
