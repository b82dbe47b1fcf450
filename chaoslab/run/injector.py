"""Injector: each injection from waiting to open to over, with every move in the journal.

    waiting ── trigger ──► injecting, injected ──► open ── steps ──► evidence ──► healing, healed
                                                              something is left ──► heal_failed ┘
       └── its trigger never comes, or the limits forbid it ──► skipped

It branches on no kind of fault: a fault is asked to inject, to step, to show evidence and to heal.
These are verbs of the fleet (`verbs`): a method that awaits one is suspended until it has returned,
and the loop goes on. `act` does what is due, and `next_time_s` says when to call it again. So that
a fault comes on time, `waiting.prepare` does beforehand what is possible, and of one whose time is
known the limits are asked, `fault.injecting` is written and the verb is handed over a moment
before. Then nothing stands between the time and the fault: no report of a node is read, no disk is
waited for. See `waiting` for those that were not begun.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import NamedTuple, cast

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
    InjectionFields,
    NodeProbed,
    Obstacle,
)
from chaoslab.core.realtime import realtime_priority
from chaoslab.faults.base import Fault
from chaoslab.fleet.base import Fleet
from chaoslab.plan.model import Injection
from chaoslab.prepare.preflight import fault_of
from chaoslab.record.run_directory import RunDirectory, plain
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.open_injection import (
    OpenInjection,
    OpenInjections,
    Returns,
    gather,
    targets_of,
)
from chaoslab.run.verbs import Code, GivenUp, Verbs
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
    code: Callable[[], Code]


@dataclass(slots=True, kw_only=True)
class Injector:
    """All injections of one run."""

    recorder: EventRecorder
    verbs: Verbs
    directory: RunDirectory
    waiting: WaitingInjections
    opened: OpenInjections
    operators_may_act: bool = False
    """Whether operators may still ask for something, so that training must not end."""
    begun: list[Injection] = field(default_factory=list)
    due_within: DueWithin = no_undo_log
    """Context in which a fault is carried out: undo entries opened in it are due at its end."""
    returns: Returns = field(init=False)

    def __post_init__(self) -> None:
        self.returns = Returns(opened=self.opened)

    # ---------------------------------------------------------------- what the run asks

    @property
    def is_done(self) -> bool:
        """Whether nothing waits and nothing that is open heals before the end."""
        return not (
            self.opened.will_heal or self.operators_may_act or self.waiting or self._is_acting
        )

    @property
    def is_busy(self) -> bool:
        """Whether something is open that will be healed, or is to come by time or an operator."""
        is_awaited = self.operators_may_act or any(self.waiting.held.values())
        has_steps = any(one.steps for one in self.opened.all)
        is_open = self.opened.will_heal or has_steps or self._is_acting
        return is_open or is_awaited or any(self.waiting.due())

    @property
    def _is_acting(self) -> bool:
        """Whether a verb is under way for a target of an open injection, but for another try to
        heal it: there is no end of these.
        """
        acting = targets_of(one for one in self.opened.all if not one.unhealed)
        return not self.verbs.busy.isdisjoint(acting)

    @property
    def next_time_s(self) -> float:
        """When `act` has something to do even if no news comes; inf if it never has."""
        following = self._next()
        return inf if following is None else following.begins_s

    def act(self) -> bool:
        """Do everything that is due, in the order in which it fell due, and go on where verbs have
        returned; whether there was anything.
        """
        has_acted = self.verbs.turn()
        self.waiting.ask()
        self.waiting.note_held()
        while (due := self._next()) is not None and due.begins_s <= self.recorder.now_s:
            self.verbs.begin(due.code())
            has_acted = True
        return has_acted

    def close(self, because: str, *, wait: Callable[[], object]) -> None:
        """The end: skip what waits, measure what is open, heal it unless it is `for: rest`.

        Every injection is tried, those again that could not be healed before; FleetError at the end
        names those that could not be looked at. Calls `wait` while verbs are under way; those that
        are given up are recorded as not healed, and left to the undo log.
        """
        for injection in tuple(self.waiting):
            reason = f"its trigger ({injection.trigger}) did not come: {because}"
            self._skip(injection, Obstacle.NO_TRIGGER, reason)
        left, broken = deque(self.opened.all), list[str]()
        while left or self.verbs.are_pending:
            if left and self.verbs.busy.isdisjoint(left[0].injection.targets):
                self.verbs.begin(self._close(left.popleft(), because, broken))
                continue
            left.rotate(-1)
            try:
                wait()
                self.verbs.turn()
            except GivenUp:
                continue
            except FleetError as error:
                broken.append(str(error))
        if broken:
            raise FleetError("; ".join(broken))

    async def _close(self, one: OpenInjection, because: str, broken: list[str]) -> None:
        if all(one is not other for other in self.opened.all):
            return  # healed meanwhile
        try:
            if one.heals_s is None and not one.unhealed:
                await self._measure(one)
            else:
                await self._heal(one, because=because)
        except GivenUp:
            return
        except FleetError as error:
            broken.append(f"{one.injection.id}: evidence could not be collected: {error}")

    # ---------------------------------------------------------------- what operators ask

    def waits(self, spec: str) -> int:
        """How many injections of this entry have not begun."""
        return sum(one.spec == spec for one in self.waiting)

    def leave_out(self, spec: str, *, reason: str) -> None:
        """Skip what waits of this entry."""
        for injection in [one for one in self.waiting if one.spec == spec]:
            self._skip(injection, Obstacle.OPERATOR, reason)

    def heal_early(self, spec: str = "", *, because: str) -> None:
        """Heal what is open of this entry, or everything, in the next `act`."""
        for one in self.opened.of(spec):
            one.heals_early = because

    # ---------------------------------------------------------------- what is due when

    def _next(self) -> _Due | None:
        return min(self._agenda(), key=lambda due: due.time_s, default=None)

    def _agenda(self) -> Iterator[_Due]:
        """What is to come, but for nodes for which a verb is under way."""
        now_s, busy = self.recorder.now_s, self.verbs.busy
        for one in self.opened.all:
            if not busy.isdisjoint(one.injection.targets):
                continue
            if one.heals_early:
                yield _Due(now_s, now_s, partial(self._heal, one, one.heals_early))
            elif one.again_s is not None:
                yield _Due(one.again_s, one.again_s, partial(self._undo, one))
            elif one.heals_s is not None:
                yield _Due(one.heals_s, one.heals_s, partial(self._end, one))
            for step_s, _ in one.steps[:1]:
                yield _Due(step_s, step_s, partial(self._step, one))
        for asked_s, injection in self.waiting.due(until_s=now_s):
            if busy.isdisjoint(injection.targets):
                yield _Due(asked_s, asked_s - _LEAD_S, partial(self._open, injection, asked_s))

    # ---------------------------------------------------------------- one injection

    async def _open(self, injection: Injection, asked_s: float) -> None:
        """Write it down and inject it; skip it if that is forbidden as things stand. Afterwards the
        node that announced its phase may go on.
        """
        fault, announced = fault_of(injection), self.waiting.announced(injection)
        injection, why_not = await self.waiting.with_all_hit(injection, fault)
        if found := why_not or self.opened.forbidden(injection, fault):
            self._skip(injection, *found)
        else:
            one = self._note_injecting(injection, fault, asked_s, announced)
            if await self._carry_out(one, fault.inject, at_s=asked_s):
                injected = self.recorder.note(FaultInjected(**_about(injection)))
                one.injected_s = began_s = injected.time_s
                one.steps = [(began_s + at_s, index) for index, at_s in enumerate(fault.steps())]
                await self._probe(injection)
        if announced is not None:
            await self.waiting.let_go()

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

    async def _step(self, one: OpenInjection) -> None:
        """The next step; later, if a target was started and does not run yet, as in a cluster."""
        _, index = one.steps.pop(0)
        if self.recorder.is_starting(one.injection.targets):
            one.steps.insert(0, (self.recorder.now_s + _LATER_S, index))
        elif await self._carry_out(one, partial(one.fault.step, index)):
            self.recorder.note(FaultStepped(**_about(one.injection), step=index))

    async def _carry_out(
        self, one: OpenInjection, act: Callable[[Injection, Fleet], None], *, at_s: float = 0.0
    ) -> bool:
        """Whether the fleet did it, not before `at_s`; if not, what was half done is healed.

        What is done to the fleet is overdue once it should have been healed.
        """
        injection, clock = one.injection, self.recorder.journal.clock

        def verb() -> None:
            with realtime_priority():
                clock.sleep_until(at_s)
                left_s = None if one.heals_s is None else max(0.0, one.heals_s - clock.now_s())
                with self.due_within(left_s) as still_there:
                    one.still_there.append(still_there)
                    act(injection, self.recorder.fleet)

        try:
            await self.verbs.call(injection.targets, verb, what=injection.fault, until_s=at_s)
        except FleetError as error:
            self.recorder.note(FaultFailed(**_about(injection), reason=str(error)))
            await self._heal(one, because="it could not be carried out")
            return False
        return True

    async def _end(self, one: OpenInjection) -> None:
        """Heal it; later, if targets are ending, as pods do after their deletion."""
        if not one.postpones_heal(self.recorder.fleet.nodes, _LATER_S):
            await self._heal(one)

    async def _heal(self, one: OpenInjection, because: str = "") -> None:
        one.heals_early = ""
        try:
            await self._measure(one)
        finally:  # whatever becomes of the evidence, the fault is undone
            if not one.unhealed:
                self.recorder.note(FaultHealing(**_about(one.injection), because=because))
            await self._undo(one, because)

    async def _undo(self, one: OpenInjection, because: str = "") -> None:
        """Heal it on the fleet. If something is left of it, the next try follows in `_AGAIN_S`."""
        one.steps.clear()

        def verb() -> tuple[list[str], list[tuple[str, str]]]:
            refused = list(self._refused(one))
            return refused, [each for still_there in one.still_there for each in still_there()]

        what = f"the heal of {one.injection.fault}"
        try:
            refused, found = await self.verbs.call(one.injection.targets, verb, what=what)
        except FleetError as error:
            reason = str(error)
        else:
            self.recorder.drain()
            left = refused or self._left(one, found, await self._probe(one.injection))
            reason = "; ".join(dict.fromkeys(left)) or self.verbs.late(one.injection.targets)
        if reason:
            one.again_s = self.recorder.now_s + _AGAIN_S
            if reason != one.unhealed:
                self.recorder.note(FaultHealFailed(**_about(one.injection), reason=reason))
            one.unhealed = reason
            return
        self.opened.all.remove(one)
        healed = self.recorder.note(FaultHealed(**_about(one.injection), because=because))
        self.returns.note_healed(one, healed.time_s)

    def _refused(self, one: OpenInjection) -> Iterator[str]:
        """Heal its targets, each by itself if they cannot be healed together, so that one keeps no
        other away; gives the reasons of those that cannot be healed.
        """
        targets = one.injection.targets
        try:
            one.fault.heal(one.injection, self.recorder.fleet)
        except FleetError as error:
            if len(targets) == 1:
                yield str(error)
                return
            for name in targets:
                try:
                    one.fault.heal(replace(one.injection, targets=(name,)), self.recorder.fleet)
                except FleetError as error:
                    yield str(error)

    def _left(
        self, one: OpenInjection, found: Sequence[tuple[str, str]], probes: Iterable[Event]
    ) -> list[str]:
        """Parts of a healed fault that are still there, by node, and targets that the fleet reports
        as alive although a probe finds no process, or a stopped one on which no other fault is
        open, if no part names it.
        """
        left = [what for _, what in found]
        under_others = targets_of(other for other in self.opened.all if other is not one)
        explained = under_others | {node for node, _ in found}
        for said in (probe.payload for probe in probes):
            if not (isinstance(said, NodeProbed) and self.recorder.fleet.nodes[said.node].is_alive):
                continue
            if said.state == "gone":
                left.append(f"{said.node} has no process")
            elif said.state == "T" and said.node not in explained:
                left.append(f"{said.node} is still stopped")
        return left

    async def _measure(self, one: OpenInjection) -> None:
        """Gather the evidence while the fault is still in force, once."""
        if one.is_measured:
            return
        one.is_measured = True
        await self._probe(one.injection)
        self.recorder.drain()
        gather(one, self.recorder, self.directory)

    def _skip(self, injection: Injection, obstacle: Obstacle, reason: str) -> None:
        self.waiting.drop(injection)
        self.recorder.note(FaultSkipped(**_about(injection), obstacle=obstacle, reason=reason))

    async def _probe(self, injection: Injection) -> list[Event]:
        fleet, names = self.recorder.fleet, injection.targets
        seen = await self.verbs.call(
            names, lambda: [fleet.probe(name) for name in names], what="a probe"
        )
        return [self.recorder.take(one) for one in seen]


def _about(injection: Injection) -> InjectionFields:
    return {
        "injection": injection.id,
        "spec": injection.spec,
        "fault": injection.fault,
        "targets": injection.targets,
    }
