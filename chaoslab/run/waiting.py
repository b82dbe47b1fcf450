"""Waiting injections of a run: which they are, when each is due, and what is done beforehand.

    by time ─────────────────────────► sorted once ─► due, prepare: known in advance
    put_later ─► `enable_triggers` ─┘
    by round, step, loss, phase … ─► asked again after events that count ─► due
       └── by round: prepare, a few rounds before
    of an entry that is held ─► fault.held when its trigger comes ─► release ─► due at once

Nothing is injected here, see `injector`.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event
from chaoslab.core.payloads import FaultHeld, Obstacle, PhaseReached
from chaoslab.faults.base import Fault, FindsTargets, PreparesTargets
from chaoslab.plan.model import Injection, Trigger
from chaoslab.prepare.preflight import fault_of
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.open_injection import Forbidden
from chaoslab.run.phase_triggers import PhaseTriggers
from chaoslab.run.triggers import due_s, is_near
from chaoslab.run.verbs import Verbs
from chaoslab.undo.heartbeat import DueWithin, StillThere, no_undo_log

_NEAR_ROUND_S = 2.0
"""Time allowed for the rounds between preparation and trigger: added to `for` in the undo entries
of a fault that is prepared, before the janitor counts them as overdue."""


@dataclass(slots=True, kw_only=True)
class WaitingInjections:
    """Injections that were not begun. Triggers count from `enable_triggers` on."""

    recorder: EventRecorder
    verbs: Verbs
    injections: Sequence[Injection]
    holds: frozenset[str] = frozenset()
    """Ids of the plan's entries that an operator decides on."""
    due_within: DueWithin = no_undo_log
    _by_time: list[tuple[float, int, Injection]] = field(default_factory=list)
    """When it is due, once that is settled, and its number; the earliest first."""
    _later: list[Injection] = field(default_factory=list)
    """Their times count from `enable_triggers` on."""
    _others: list[Injection] = field(default_factory=list)
    _prepared: dict[str, StillThere] = field(default_factory=dict)
    """By injection: how much of what was done beforehand is still there."""
    _enabled_s: float | None = None
    _held: list[Injection] = field(default_factory=list)
    _reached: set[str] = field(default_factory=set)
    """Ids of entries that are held, and whose trigger has come."""
    _released_s: dict[str, float] = field(default_factory=dict)
    """By injection: when an operator let it go."""
    _phase_triggers: PhaseTriggers = field(init=False)

    def __post_init__(self) -> None:
        self._phase_triggers = PhaseTriggers(recorder=self.recorder, verbs=self.verbs)
        for one in self.injections:
            if one.spec in self.holds:
                self._held.append(one)
            else:
                self._add(one)

    def __iter__(self) -> Iterator[Injection]:
        yield from (one for _, _, one in self._by_time)
        yield from self._later
        yield from self._others
        yield from self._held

    def __bool__(self) -> bool:
        return bool(self._by_time or self._later or self._others or self._held)

    def enable_triggers(self) -> None:
        """From now on triggers count; those by time that are overdue move later together."""
        self._enabled_s = self.recorder.now_s
        first_s = self._by_time[0][0] if self._by_time else self._enabled_s
        shift_s = max(0.0, self._enabled_s - first_s)
        self._by_time = [(time_s + shift_s, n, one) for time_s, n, one in self._by_time]
        for one in self._later:
            due_s = round(self._enabled_s + (one.trigger.time_s or 0.0), 3)
            self._add(replace(one, trigger=Trigger(time_s=due_s)))
        self._later = []

    def put_later(self, injections: Iterable[Injection]) -> None:
        """More of them, whose triggers by time count from `enable_triggers` on."""
        self._later += injections

    def ask(self) -> None:
        """Ask the nodes for the protocol points that injections wait for."""
        if self._enabled_s is not None:
            self._phase_triggers.ask(self._others)

    def announced(self, injection: Injection) -> Event[PhaseReached] | None:
        """What met its trigger, if that is a phase."""
        return self._phase_triggers.announced(injection)

    async def let_go(self) -> None:
        """Nodes go on, and are watched for the injections that still wait only."""
        await self._phase_triggers.let_go(self._others)

    def due(self, *, until_s: float = -inf) -> Iterator[tuple[float, Injection]]:
        """When injections are due, as far as that is known: of those by time all until `until_s`,
        and the next one.
        """
        if self._enabled_s is None:
            return
        for time_s, _, injection in self._by_time:
            yield time_s, injection
            if time_s > until_s:
                break
        for injection in self._others:
            if (known_s := self._due_s(injection)) is not None:
                yield max(known_s, self._enabled_s), injection

    def _due_s(self, injection: Injection) -> float | None:
        if (released_s := self._released_s.get(injection.id)) is not None:
            return released_s
        if injection.trigger.phase is None:
            return due_s(injection.trigger, self.recorder.progress)
        announced = self._phase_triggers.announced(injection)
        return announced.time_s if announced else None

    # ---------------------------------------------------------------- held for an operator

    @property
    def are_triggers_enabled(self) -> bool:
        """Whether triggers count."""
        return self._enabled_s is not None

    @property
    def held(self) -> Mapping[str, bool]:
        """By id of the entry that is held: whether its trigger has come."""
        return {one.spec: one.spec in self._reached for one in self._held}

    def note_held(self) -> None:
        """Record the held entries whose trigger has come."""
        if self._enabled_s is None:
            return
        for one in self._held:
            known_s = None if one.spec in self._reached else self._due_s(one)
            if known_s is not None and known_s <= self.recorder.now_s:
                self._reached.add(one.spec)
                waiting = sum(other.spec == one.spec for other in self._held)
                self.recorder.note(
                    FaultHeld(
                        spec=one.spec,
                        fault=one.fault,
                        trigger=str(one.trigger),
                        injections=waiting,
                        targets=one.targets,
                    )
                )

    def release(self, spec: str) -> None:
        """The first injection of this entry is due now; those by time keep their distances."""
        mine = [one for one in self._held if one.spec == spec]
        self._held = [one for one in self._held if one.spec != spec]
        self._reached.discard(spec)
        now_s = self.recorder.now_s
        first_s = min(
            (one.trigger.time_s for one in mine if one.trigger.time_s is not None), default=0.0
        )
        for one in mine:
            if one.trigger.time_s is None:
                self._released_s[one.id] = now_s
                self._others.append(one)
            else:
                insort(self._by_time, (now_s + one.trigger.time_s - first_s, one.number, one))

    # ---------------------------------------------------------------- waiting injections

    def take(self, injection: Injection) -> list[StillThere]:
        """It is begun, and waits no longer. Returns what tells of that which was prepared."""
        self._remove(injection)
        still_there = self._prepared.pop(injection.id, None)
        return [] if still_there is None else [still_there]

    def drop(self, injection: Injection) -> None:
        """It is left out; what was prepared for it is undone."""
        self._remove(injection)
        is_prepared = self._prepared.pop(injection.id, None) is not None
        if is_prepared and self.verbs.busy.isdisjoint(injection.targets):  # else `_prepare` does it
            self.verbs.begin(self._unprepare(injection))

    def replace(self, injection: Injection, known: Injection) -> Injection:
        """It is `known` now, which differs in its targets or its time, and is returned."""
        is_held = any(one is injection for one in self._held)
        due_s = next((entry[0] for entry in self._by_time if entry[2] is injection), None)
        self.drop(injection)
        if is_held:
            self._held.append(known)
        elif due_s is not None and known.trigger.time_s is not None:
            insort(self._by_time, (due_s, known.number, known))
        else:
            self._add(known)
        return known

    async def with_all_hit(
        self, injection: Injection, fault: Fault
    ) -> tuple[Injection, Forbidden | None]:
        """The injection with all that it hits now, and why it must not be carried out: the node
        that announced its phase, and what is placed beside its targets.
        """
        if not injection.targets and (announced := self.announced(injection)) is not None:
            injection = self.replace(injection, replace(injection, targets=(announced.source,)))
        if not isinstance(fault, FindsTargets) or not all(
            map(self.recorder.progress.is_alive, injection.targets)
        ):
            return injection, None
        try:
            find = partial(fault.all_hit, injection, self.recorder.fleet)
            hit = await self.verbs.call(injection.targets, find, what="the search for others")
        except FleetError as error:
            return injection, Forbidden(Obstacle.PLACEMENT, str(error))
        if set(hit) == set(injection.targets):
            return injection, None
        return self.replace(injection, replace(injection, targets=hit)), None

    def put(self, injection: Injection) -> None:
        """One more, which is due now, whatever its trigger was."""
        now_s = self.recorder.now_s
        at_once = replace(injection, trigger=Trigger(time_s=now_s), watched=())
        insort(self._by_time, (now_s, at_once.number, at_once))

    def _add(self, injection: Injection) -> None:
        if injection.trigger.time_s is None:
            self._others.append(injection)
        else:
            insort(self._by_time, (injection.trigger.time_s, injection.number, injection))

    def _remove(self, injection: Injection) -> None:
        self._later = [one for one in self._later if one is not injection]
        self._others = [one for one in self._others if one is not injection]
        self._held = [one for one in self._held if one is not injection]
        self._by_time = [entry for entry in self._by_time if entry[2] is not injection]

    # ---------------------------------------------------------------- beforehand

    def prepare(self, *, within_s: float) -> None:
        """Do beforehand what is possible for injections that are due within this long, or after the
        next few rounds.
        """
        if self._enabled_s is None or not self:
            return
        now_s = self.recorder.now_s
        for asked_s, injection in tuple(self.due(until_s=now_s + within_s)):
            if now_s < asked_s <= now_s + within_s:
                self._prepare_once(injection, asked_s - now_s)
        for injection in self._others:
            if is_near(injection.trigger, self.recorder.progress):
                self._prepare_once(injection, _NEAR_ROUND_S)

    def _prepare_once(self, injection: Injection, left_s: float) -> None:
        fault, is_free = fault_of(injection), self.verbs.busy.isdisjoint(injection.targets)
        if is_free and injection.id not in self._prepared and isinstance(fault, PreparesTargets):
            self._prepared[injection.id] = tuple
            self.verbs.begin(self._prepare(injection, fault, left_s))

    async def _prepare(self, injection: Injection, fault: PreparesTargets, left_s: float) -> None:
        for_s = None if injection.for_s is None else left_s + injection.for_s

        def verb() -> StillThere:
            with self.due_within(for_s) as still_there:
                try:
                    fault.prepare(injection, self.recorder.fleet)
                except FleetError:  # `inject` meets it again, and that is recorded
                    fault.unprepare(injection, self.recorder.fleet)
            return still_there

        try:
            still_there = await self.verbs.call(injection.targets, verb, what="preparation")
        except FleetError:  # the same
            return
        if injection.id in self._prepared:
            self._prepared[injection.id] = still_there
        else:  # it was dropped meanwhile
            await self._unprepare(injection)

    async def _unprepare(self, injection: Injection) -> None:
        fault = fault_of(injection)
        if isinstance(fault, PreparesTargets):
            undo = partial(fault.unprepare, injection, self.recorder.fleet)
            await self.verbs.call(injection.targets, undo, what="the end of preparation")
