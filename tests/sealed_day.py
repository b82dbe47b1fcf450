"""Game-days with sealed faults: a plan for the simulated fleet, and one on the fake fleet."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import Action
from chaoslab.gameday.sealing import draw, drawn_from
from chaoslab.plan.model import FaultPlan, GameDay, Injection, Limits, SealedFaults, Trigger
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.record.history import FaultStory, History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run.operators import Inbox, Order
from tests.gameday_room import OTHER, SPEC, OperatorConsole, ask, kind, plan_of
from tests.stage import HALF, Stage

PLAN = """
version: 1
name: one_dies
seed: 3
training: {learners: 4, stop: {rounds: 60}}
fleet: {kind: sim}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 50%}
faults:
  - {id: one-dies, fault: process.kill, target: {learners: 1}, at: {round: 30}, for: 3s}
gameday: {sealed: {faults: 2, within: 40s, for: 3s}}
expect:
  - {check: continuity, max_gap: 20s}
  - {check: rejoin, within: 20s}
"""
DAY = """
skip one-dies
wait sealed-1 injected
Bo> note something is gone
wait sealed-1 healed
Bo> note sealed-1: it is back
wait sealed-2 healed
"""

# ---------------------------------------------------------------- on the simulated fleet


def prepared(*settings: str) -> Prepared:
    """The plan, in the folder where one is."""
    Path("one_dies.yaml").write_text(PLAN)
    return prepare(Asked(plan="one_dies.yaml", settings=settings))


def drawn(plan: Prepared) -> tuple[Injection, ...]:
    """What is sealed in a game-day of this plan."""
    return draw(plan, drawn_from(plan))


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ("gameday", *words))


def record() -> RunDirectory:
    return RunDirectory.open("latest", root=Path("runs"))


def history_of(day: Path) -> History:
    """Of the game-day that was carried out in a folder."""
    with within(day):
        return History.read(record().path)


@contextmanager
def within(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# ---------------------------------------------------------------- on the fake fleet

ONE = replace(
    HALF, number=2, spec="sealed-1", targets=("learner-0",), trigger=Trigger(time_s=6.0), for_s=3.0
)
PLANNED = replace(plan_of([SPEC, OTHER], GameDay(sealed=SealedFaults(faults=1))))


def sealed_day(
    folder: Path,
    orders: list[tuple[Callable[[Event], bool], Order]],
    *,
    one: Injection = ONE,
    limits: Limits | None = None,
    keep: bool = False,
) -> History:
    """The record of a game-day whose faults are HALF, which waits, and one that is sealed."""
    inbox = Inbox(keep=keep, sealed=(one,))
    plan: FaultPlan = replace(PLANNED, limits=limits or Limits())

    room = OperatorConsole(inbox, list(orders))
    history = Stage(folder, [HALF], plan=plan, inbox=inbox, observers=[room]).execute()
    assert not room.on, "an order was never given"
    return history


def in_inject(event: Event) -> bool:
    return event.kind is Kind.PHASE_ENTERED and event.data["phase"] == "inject"


SKIP_HALF = (kind(Kind.FAULT_HELD, "half-dies"), ask(Action.SKIP, "half-dies"))


def story_of(history: History, spec: str = "sealed-1") -> FaultStory:
    (story,) = [one for one in history.faults if one.spec == spec]
    return story
