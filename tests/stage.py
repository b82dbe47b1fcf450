"""A run that is ready to go, on a fake fleet and a virtual clock, and how to read its record."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chaoslab.core.clock import Clock
from chaoslab.core.events import Event, Kind
from chaoslab.fleet.base import Ability
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.plan.model import Baseline, FaultPlan, Injection, Stop, Training, Trigger
from chaoslab.record.history import History
from chaoslab.record.journal import Journal, Observer
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run.interrupts import Interrupts
from chaoslab.run.operators import Inbox
from chaoslab.run.run import Run
from chaoslab.undo.base import UndoLog
from chaoslab.undo.heartbeat import Heartbeat
from tests.fake_faults import FakeKill
from tests.fake_nodes import Troubles
from tests.fakes import FakeFleet
from tests.payload_reading import read_whole
from tests.virtual_clock import VirtualClock

PLAN = FaultPlan(
    name="fake",
    training=Training(learners=4, stop=Stop(rounds=80)),
    baseline=Baseline(warmup=2, window=8),
    settle_s=10.0,
)
HALF = Injection(
    number=0,
    spec="half-dies",
    fault="process.kill",
    settings=FakeKill(),
    targets=("learner-1", "learner-3"),
    trigger=Trigger(round=20),
    for_s=5.0,
)


class Stage:
    """A run that is ready to go, with its parts in reach."""

    def __init__(
        self,
        folder: Path,
        injections: Iterable[Injection] = (),
        *,
        plan: FaultPlan = PLAN,
        troubles: Troubles | None = None,
        heartbeat: Heartbeat | None = None,
        inbox: Inbox | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.clock = VirtualClock()
        self.fleet = FakeFleet(self.clock, troubles)
        self.directory = RunDirectory.create(folder, plan.name, self.clock)
        self.interrupts = Interrupts(inbox=inbox)
        self.journal = Journal(self.directory.path, self.clock, observers=observers)
        self.run = Run(
            plan,
            injections,
            fleet=self.fleet,
            journal=self.journal,
            directory=self.directory,
            interrupts=self.interrupts,
            heartbeat=heartbeat,
        )

    def execute(self) -> History:
        """Carry it out; the history that was written, read back from disk."""
        with self.journal:
            self.run.execute()
        history = History.read(self.directory.path)
        for event in history.events:
            read_whole(event.kind, event.data)
        return history


class FakeFleets:
    """Stands where a kind of fleet stands: makes fake ones, and remembers them."""

    kind = "fake"
    abilities = frozenset(Ability)

    def __init__(self, troubles: Troubles | None = None) -> None:
        self.troubles = troubles
        self.made: list[FakeFleet] = []
        self.prepare: Callable[[FakeFleet], object] = lambda _: None
        """Is done with each fleet before its run."""

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> FakeFleet:
        fleet = FakeFleet(clock, self.troubles, node_links)
        self.made.append(fleet)
        self.prepare(fleet)
        return fleet


@contextmanager
def no_janitor(_run_directory: Path) -> Iterator[Heartbeat]:
    """In the place of `start_janitor`: a fake fleet leaves nothing behind."""
    yield Heartbeat()


def the(history: History, kind: Kind) -> Event:
    """The only event of a kind."""
    (event,) = history.of(kind)
    return event


def ending(history: History) -> tuple[str, str]:
    """How the run says it ended, in its very last event."""
    last = history.events[-1]
    assert last.kind is Kind.RUN_FINISHED
    return last.payload.outcome, last.payload.reason
