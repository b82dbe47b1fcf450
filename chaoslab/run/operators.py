"""Operators of a game-day: what they ask for, predict and note is put into an inbox by whichever
window they use, and carried out between two turns of the run loop.

    a terminal, a page ─► Inbox ─► Operators.act ─┬─► injector: go, skip, milder, stronger, repeat,
                                                  │   heal, end
                                                  ├─► abort: the run loop ends the run
                                                  └─► operator.* events, refusals included

While the run is ended, notes still come on record, and all else is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Lock
from typing import ClassVar, Final, TypeAlias

from chaoslab.core.payloads import (
    Action,
    GamedayOpened,
    OperatorActed,
    OperatorNoted,
    OperatorPredicted,
    OperatorRefused,
)
from chaoslab.core.units import plural
from chaoslab.plan.model import FaultPlan, Injection
from chaoslab.prepare.preflight import fault_of
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.injector import Injector
from chaoslab.run.strength import milder, stronger


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Something to be done."""

    by: str
    action: Action
    spec: str = ""
    """Id of the fault in the plan; empty: all that the action can be meant for."""
    reason: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.action.value, self.spec)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict:
    """What a participant expects of a fault. The fields are those of `OperatorPredicted`."""

    by: str
    spec: str
    continues: bool | None = None
    gap_s: float | None = None
    hit: tuple[str, ...] | None = None
    back_s: float | None = None

    def __str__(self) -> str:
        return f"predict {self.spec}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a participant noticed or wants to keep. The fields are those of `OperatorNoted`."""

    by: str
    text: str
    spec: str = ""
    came_s: float | None = None
    """When it was put into the inbox of a run."""

    def __str__(self) -> str:
        return "note"


Order: TypeAlias = Ask | Predict | Note


class Inbox:
    """Orders on their way to the run; any thread may put one in."""

    def __init__(self, *, keep: bool = False, sealed: Sequence[Injection] = ()) -> None:
        """`keep`: training goes on until an operator asks for the end, whether faults wait or not;
        `sealed`: what comes without an order, and is not shown before; their triggers are times
        from the beginning of phase `inject`.
        """
        self.keep, self.sealed = keep, sealed
        self.clock: Callable[[], float] | None = None
        """Seconds since the run began; None before there is a run."""
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._is_closed = False
        self._lock = Lock()

    def put(self, order: Order) -> bool:
        """Whether the run still takes it; returns at once, and events say what became of it."""
        with self._lock:
            if self._is_closed:
                return False
            if isinstance(order, Note) and self.clock is not None:
                order = replace(order, came_s=round(self.clock(), 6))
            self._orders.put(order)
            return True

    def close(self) -> None:
        """Nothing more can be put in; what has come can still be taken."""
        with self._lock:
            self._is_closed = True

    def take(self) -> Iterator[Order]:
        """All that have come."""
        try:
            while True:
                yield self._orders.get_nowait()
        except Empty:
            return


_OF_TRAINING: Final = frozenset(
    {Action.GO, Action.SKIP, Action.MILDER, Action.STRONGER, Action.REPEAT, Action.END}
)
"""What can be asked for while training goes on."""


class _Refused(Exception):
    """The order is not carried out; the message says why."""


@dataclass(slots=True, kw_only=True)
class Operators:
    """Carries orders out, for one run."""

    inbox: Inbox
    plan: FaultPlan
    recorder: EventRecorder
    injector: Injector
    _is_open: bool = False
    """Whether the charter is on record."""
    _is_over: bool = False
    """Whether nothing but notes is taken any more."""
    _number: int = field(init=False)
    """Of the next injection that is repeated."""

    def __post_init__(self) -> None:
        self.inbox.clock = lambda: self.recorder.now_s
        self.injector.operators_may_act = self.inbox.keep
        self.injector.waiting.put_later(self.inbox.sealed)
        self._number = 1 + max((one.number for one in self.injector.waiting), default=-1)

    def act(self) -> str | None:
        """Carry out what has come; why the run is to end, if an operator asked for that."""
        if not self._is_open:
            self._open()
        for order in self.inbox.take():
            if reason := self._answer(order):
                self.take_late()
                return reason
        return None

    def take_late(self) -> None:
        """The run is being ended: what notes have come is written, and all else is refused."""
        self._is_over = True
        for order in self.inbox.take():
            self._answer(order)

    def close(self) -> None:
        """Take what has come, and let nothing more come: the record is about to end."""
        self.inbox.close()
        self.take_late()

    def _open(self) -> None:
        self._is_open = True
        charter = self.plan.charter
        self.recorder.note(
            GamedayOpened(
                owner=charter.owner,
                facilitator=charter.facilitator,
                scribe=charter.scribe,
                responders=charter.responders,
                hypotheses=charter.hypotheses,
                holds=tuple(one.id for one in self.plan.faults if one.id in self.plan.held),
                sealed=len(self.inbox.sealed),
            )
        )

    def _answer(self, order: Order) -> str | None:
        """Carry one out, or write why not; why the run is to end, if it asks for that."""
        try:
            return self._perform(order)
        except _Refused as refused:
            self.recorder.note(
                OperatorRefused(by=order.by, spec=order.spec, asked=str(order), reason=str(refused))
            )
            return None

    def _perform(self, order: Order) -> str | None:
        if self._is_over and not isinstance(order, Note):
            raise _Refused("the run is over")
        if order.spec and order.spec not in self._specs:
            raise _Refused(
                f"{order.spec} is no fault of the plan: {', '.join(self._specs) or 'it has none'}"
            )
        match order:
            case Predict():
                begun = any(one.spec == order.spec for one in self.injector.begun)
                if begun or not self.injector.waits(order.spec):
                    raise _Refused(f"{order.spec} has begun or was left out: too late to predict")
                predicted = OperatorPredicted(
                    by=order.by, spec=order.spec, continues=order.continues,
                    gap_s=order.gap_s, hit=order.hit, back_s=order.back_s,
                )  # fmt: skip
                self.recorder.note(predicted)
            case Note():
                came_s = order.came_s if self._is_over else None
                said = OperatorNoted(by=order.by, spec=order.spec, text=order.text, came_s=came_s)
                self.recorder.note(said)
            case Ask(action=Action.ABORT):
                self._acted(order)
                return f"{order.by} aborted it" + (f": {order.reason}" if order.reason else "")
            case Ask():
                progress = self.recorder.progress
                if order.action in _OF_TRAINING and (
                    progress.is_stopping or progress.is_training_over
                ):
                    raise _Refused("training has ended")
                self._DO[order.action](self, order)
        return None

    def _let_go(self, order: Ask) -> None:
        if not self.injector.waiting.are_triggers_enabled:
            raise _Refused("the baseline is not known yet: wait for the phase `inject`")
        held = self.injector.waiting.held
        specs = [order.spec] if order.spec else [spec for spec in held if held[spec]]
        if not specs:
            raise _Refused("no fault waits: name one to inject it before its time")
        if order.spec and order.spec not in held:
            raise _Refused(f"{order.spec} does not wait for an operator")
        for spec in specs:
            self._acted(replace(order, spec=spec))
            self.injector.waiting.release(spec)

    def _skip(self, order: Ask) -> None:
        waiting = self.injector.waits(self._named(order))
        if not waiting:
            raise _Refused(f"no injection of {order.spec} is waiting")
        self._acted(order)
        left_out = f"{order.by} left {plural(waiting, 'injection')} out"
        self.injector.leave_out(order.spec, reason=left_out)

    def _heal(self, order: Ask) -> None:
        if not self.injector.opened.of(order.spec):
            raise _Refused(
                f"no injection of {order.spec} is open" if order.spec else "nothing is open"
            )
        self._acted(order)
        self.injector.heal_early(order.spec, because=f"{order.by} asked for it")

    def _change(self, order: Ask) -> None:
        """Make all that waits of a fault milder or stronger."""
        spec = self._named(order)
        waiting = [one for one in self.injector.waiting if one.spec == spec]
        if not waiting:
            raise _Refused(f"no injection of {spec} is waiting")
        changed = [self._changed(one, order.action) for one in waiting]
        if None in changed:
            raise _Refused(
                f"{spec} cannot be {order.action}: its targets and its time are at the limit"
            )
        for before, after in zip(waiting, changed, strict=True):
            self.injector.waiting.replace(before, after or before)
        first = changed[0] or waiting[0]
        for_s = "" if first.for_s is None else f" for {first.for_s:g} s"
        self._acted(replace(order, reason=f"{', '.join(first.targets)}{for_s}"))

    def _changed(self, one: Injection, action: Action) -> Injection | None:
        if action is Action.MILDER:
            return milder(one)
        return stronger(one, self.plan, takes_away=fault_of(one).takes_away)

    def _repeat(self, order: Ask) -> None:
        spec = self._named(order)
        begun = [one for one in self.injector.begun if one.spec == spec]
        if not begun:
            raise _Refused(f"{spec} was not injected yet: write `go {spec}`")
        again = replace(begun[-1], number=self._number)
        if found := self.injector.opened.forbidden(again, fault_of(again)):
            raise _Refused(found.reason)
        self._number += 1
        self._acted(order)
        self.injector.waiting.put(again)

    def _end(self, order: Ask) -> None:
        if held := list(self.injector.waiting.held):
            raise _Refused(f"{', '.join(held)} still waits: inject it by `go`, or `skip` it")
        self._acted(order)
        self.injector.operators_may_act = False
        for one in self._still_sealed:
            self.injector.leave_out(one, reason=f"{order.by} ended the game-day before it came")

    _DO: ClassVar[Mapping[Action, Callable[["Operators", Ask], None]]] = {
        Action.GO: _let_go,
        Action.SKIP: _skip,
        Action.MILDER: _change,
        Action.STRONGER: _change,
        Action.REPEAT: _repeat,
        Action.HEAL: _heal,
        Action.END: _end,
    }

    # ---------------------------------------------------------------- helpers

    def _named(self, order: Ask) -> str:
        if not order.spec:
            example = next(iter(self._specs), "half-dies")
            raise _Refused(f"name the fault: {order.action} {example}")
        return order.spec

    @property
    def _specs(self) -> Sequence[str]:
        """What orders can name: entries of the plan, and sealed faults that have come."""
        planned = [fault.id for fault in self.plan.faults]
        return list(dict.fromkeys([*planned, *(one.spec for one in self.injector.begun)]))

    @property
    def _still_sealed(self) -> Sequence[str]:
        ids = {one.spec for one in self.inbox.sealed}
        return [one.spec for one in self.injector.waiting if one.spec in ids]

    def _acted(self, order: Ask) -> None:
        acted = OperatorActed(
            by=order.by, spec=order.spec, action=order.action, reason=order.reason
        )
        self.recorder.note(acted)
