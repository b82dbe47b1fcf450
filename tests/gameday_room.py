"""A game-day on a fake fleet: two faults that wait, and operators who act on what they see."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import Action
from chaoslab.plan.model import FaultPlan, FaultSpec, GameDay, Injection, Outage, Target, Trigger
from chaoslab.record.history import History
from chaoslab.run.operators import Ask, Inbox, Order
from tests.fake_faults import FakeKill
from tests.stage import HALF, PLAN, Stage

SPEC = FaultSpec(
    id="half-dies",
    fault="process.kill",
    settings=FakeKill(),
    target=Target(names=("learner-1", "learner-3")),
    at=Trigger(round=20),
    outage=Outage(seconds=5.0),
)
OTHER = replace(SPEC, id="other", target=Target(names=("learner-2",)), at=Trigger(round=24))
SECOND = replace(
    HALF, number=1, spec="other", targets=("learner-2",), trigger=Trigger(round=24), for_s=3.0
)
GAMEDAY = GameDay(owner="Ann", hypotheses={"half-dies": "training goes on"})


@dataclass
class OperatorConsole:
    """Puts orders into the inbox when the record shows what they wait for."""

    inbox: Inbox
    on: list[tuple[Callable[[Event], bool], Order]] = field(default_factory=list)

    def see(self, event: Event) -> None:
        due = [entry for entry in self.on if entry[0](event)]
        for entry in due:
            self.on.remove(entry)
            self.inbox.put(entry[1])


def kind(wanted: Kind, spec: str = "") -> Callable[[Event], bool]:
    return lambda event: event.kind is wanted and spec in ("", event.data.get("spec"))


def after_round(number: int) -> Callable[[Event], bool]:
    return lambda event: event.kind is Kind.ROUND_MERGED and event.data["round"] >= number


def ask(action: Action, spec: str = "", reason: str = "") -> Ask:
    return Ask(by="Ann", action=action, spec=spec, reason=reason)


def plan_of(specs: Sequence[FaultSpec] = (SPEC, OTHER), gameday: GameDay = GAMEDAY) -> FaultPlan:
    return replace(PLAN, faults=tuple(specs), gameday=gameday)


def staged(
    folder: Path,
    orders: Iterable[tuple[Callable[[Event], bool], Order]],
    *,
    plan: FaultPlan,
    injections: Sequence[Injection],
    keep: bool = False,
) -> tuple[Stage, OperatorConsole]:
    """A game-day that is ready to go, and the room that gives these orders."""
    inbox = Inbox(keep=keep)
    room = OperatorConsole(inbox, list(orders))
    return Stage(folder, injections, plan=plan, inbox=inbox, observers=[room]), room


def played(
    folder: Path,
    orders: Iterable[tuple[Callable[[Event], bool], Order]],
    *,
    gameday: GameDay = GAMEDAY,
    injections: Sequence[Injection] = (HALF, SECOND),
    specs: Sequence[FaultSpec] = (SPEC, OTHER),
    keep: bool = False,
) -> History:
    """The record of a whole game-day."""
    plan = plan_of(specs, gameday)
    stage, room = staged(folder, orders, plan=plan, injections=injections, keep=keep)
    history = stage.execute()
    assert not room.on, "an order was never given"
    return history


GO = (kind(Kind.FAULT_HELD, "half-dies"), ask(Action.GO))
SKIP_OTHER = (kind(Kind.FAULT_HELD, "other"), ask(Action.SKIP, "other", "no time"))
