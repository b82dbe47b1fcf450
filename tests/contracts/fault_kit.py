"""What every fault promises. A fault's tests subclass the kit and say how to make one.

`carry_out` is the life of one injection in a dozen lines: it does what `run` does, on any fleet,
and leaves a journal. On a fleet in which nothing happens every fault must come out as failed.
"""

import ast
import inspect
import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import pytest

from chaoslab.core.clock import Clock, WallClock
from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault, Layer, ShapesLinks
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.fleet.base import Ability, Fleet, NodeSpec, Role
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.links.effects import Direction, Latency
from chaoslab.plan.model import Injection, Trigger
from chaoslab.record.history import History
from chaoslab.record.journal import Journal
from chaoslab.undo.base import NoUndoLog
from tests.contracts.no_fleet import NoFleet
from tests.payload_reading import observed
from tests.virtual_clock import VirtualClock

VICTIMS = ("learner-1", "learner-3")
LEARNERS = tuple(f"learner-{index}" for index in range(4))


def injection_of(fault: Fault, *, for_s: float | None = 5.0) -> Injection:
    """An injection of the fault on two of four learners."""
    return Injection(
        number=0,
        spec="it-happens",
        fault=fault.name,
        settings=fault,
        targets=VICTIMS,
        trigger=Trigger(time_s=0.0),
        for_s=for_s,
    )


@dataclass(frozen=True, kw_only=True)
class Director:
    """Carries out one injection on a fleet and writes the journal, as a run does."""

    fleet: Fleet
    clock: Clock
    journal: Journal

    def carry_out(self, fault: Fault, injection: Injection) -> tuple[Evidence, ...]:
        """Inject, take each later step, look, heal."""
        self.write(
            Kind.FAULT_INJECTING,
            injection,
            settings={},
            trigger=str(injection.trigger),
            for_s=injection.for_s,
            takes_away=fault.takes_away,
        )
        fault.inject(injection, self.fleet)
        begin_s = self.write(Kind.FAULT_INJECTED, injection)
        self.probe(injection)
        for step_index, offset_s in enumerate(fault.steps()):
            self.wait(begin_s + offset_s)
            fault.step(step_index, injection, self.fleet)
            self.write(Kind.FAULT_STEPPED, injection, step=step_index)
        self.wait(begin_s + (injection.for_s or 0.0))
        self.probe(injection)
        self.wait(self.clock.now_s())
        evidence = fault.evidence(injection, self.journal.history)
        self.write(Kind.FAULT_HEALING, injection)
        fault.heal(injection, self.fleet)
        self.write(Kind.FAULT_HEALED, injection)
        return evidence

    def wait(self, until_s: float) -> None:
        """Let time go by; what is observed goes to the journal."""
        while True:
            for seen in self.fleet.poll(until_s):
                self.journal.write(seen)
            if self.clock.now_s() >= until_s:
                return

    def wait_for_steps(self, names: Collection[str]) -> None:
        """Until each of these learners has stepped from now on."""
        before = len(self.journal.history.of(Kind.LEARNER_STEP))
        stepped: set[str] = set()
        while stepped != set(names):
            self.wait(self.clock.now_s() + 0.05)
            stepped = {e.source for e in self.journal.history.of(Kind.LEARNER_STEP)[before:]}

    def probe(self, injection: Injection) -> None:
        """Look at every target from outside."""
        for name in injection.targets:
            self.journal.write(self.fleet.probe(name))

    def write(self, kind: Kind, injection: Injection, **facts: Json) -> float:
        """One fault event; returns its time."""
        about: dict[str, Json] = {
            "injection": injection.id,
            "fault": injection.fault,
            "spec": injection.spec,
            "targets": list(injection.targets),
        }
        return self.journal.write(observed(kind, {**about, **facts})).time_s


@contextmanager
def on_real_processes(folder: Path, nodes: Sequence[NodeSpec]) -> Iterator[Director]:
    """A local fleet of these nodes, each of which has stepped."""
    clock = WallClock()
    with (
        Journal(folder, clock) as journal,
        LocalFleet(folder, clock, undo_log=NoUndoLog()) as fleet,
    ):
        for node in nodes:
            fleet.start(node)
        director = Director(fleet=fleet, clock=clock, journal=journal)
        director.wait_for_steps({node.name for node in nodes})
        yield director


class FaultKit:
    """Subclasses provide the fixture `fault`, with settings that make it quick."""

    absent: Collection[str] = ()
    """Learners that are known and have not begun yet."""

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def fleet(self, clock: VirtualClock) -> NoFleet:
        fleet = NoFleet(clock)
        for name in LEARNERS:
            spec = NodeSpec(name=name, role=Role.LEARNER, command=("true",))
            (fleet.enlist if name in self.absent else fleet.start)(spec)
            fleet.link(name, "127.0.0.1:1").shape("other", Direction.BOTH, Latency(mean_s=1.0))
        fleet.touched.clear()
        return fleet

    def test_it_explains_itself_and_every_setting(self, fault: Fault) -> None:
        assert all([fault.summary, fault.imitates, fault.proof, type(fault).__doc__])
        assert fault.layer in Layer
        assert documented_fields(type(fault)) >= setting_names(fault)

    def test_its_steps_come_in_order_after_the_injection(self, fault: Fault) -> None:
        steps = fault.steps()
        assert list(steps) == sorted(steps)
        assert all(step_index >= 0 for step_index in steps)

    def test_it_acts_on_its_targets_and_nobody_else(
        self, fault: Fault, fleet: NoFleet, director: Director
    ) -> None:
        director.carry_out(fault, injection_of(fault))
        assert fleet.touched == set(VICTIMS)

    def test_after_healing_those_are_alive_that_were_before_however_often(
        self, fault: Fault, fleet: NoFleet, director: Director
    ) -> None:
        injection = injection_of(fault)
        before = {name for name, node in fleet.nodes.items() if node.is_alive}
        director.carry_out(fault, injection)
        assert not fleet.held
        lives = [node.incarnation for node in fleet.nodes.values()]
        for _ in range(2):
            fault.heal(injection, fleet)
        assert [node.incarnation for node in fleet.nodes.values()] == lives
        assert {name for name, node in fleet.nodes.items() if node.is_alive} == before

    def test_healing_takes_its_own_effects_from_the_links_and_no_others(
        self, fault: Fault, fleet: NoFleet, director: Director
    ) -> None:
        director.carry_out(fault, injection_of(fault))
        for link in fleet.links.values():
            assert {injection for injection, _, _ in link.effects} == {"other"}

    def test_what_it_puts_on_links_is_known_beforehand(self, fault: Fault, fleet: NoFleet) -> None:
        said = fault.shapings() if isinstance(fault, ShapesLinks) else ()
        assert bool(said) == (Ability.LINK in fault.needs)
        fault.inject(injection_of(fault), fleet)
        for link in fleet.links.values():
            for (injection, direction, _), effect in link.effects.items():
                assert injection == "other" or (direction, effect) in said

    def test_healing_before_the_injection_is_safe(self, fault: Fault, fleet: NoFleet) -> None:
        before = fleet.nodes
        fault.heal(injection_of(fault), fleet)
        assert fleet.nodes == before

    def test_where_nothing_happened_the_evidence_is_failed(
        self, fault: Fault, director: Director
    ) -> None:
        assert_all_failed(director.carry_out(fault, injection_of(fault)))

    def test_an_empty_record_proves_nothing(self, fault: Fault) -> None:
        assert_all_failed(fault.evidence(injection_of(fault), History(())))

    def test_evidence_is_a_function_of_the_record(
        self, fault: Fault, director: Director, tmp_path: Path
    ) -> None:
        injection = injection_of(fault)
        live = director.carry_out(fault, injection)
        assert fault.evidence(injection, History.read(tmp_path)) == live

    @pytest.fixture
    def director(self, fleet: NoFleet, clock: VirtualClock, tmp_path: Path) -> Iterator[Director]:
        with Journal(tmp_path, clock) as journal:
            for name in sorted(set(LEARNERS) - set(self.absent)):
                started: dict[str, Json] = {"node": name, "incarnation": 1}
                journal.write(observed(Kind.NODE_STARTED, started, source=name))
            yield Director(fleet=fleet, clock=clock, journal=journal)


def assert_all_failed(pieces: Sequence[Evidence]) -> None:
    """One piece for each target, in order; all failed, all saying why.

    A code that is not chaoslab's own must not be mistaken for one that is.
    """
    assert [piece.target for piece in pieces] == list(VICTIMS)
    assert {piece.status for piece in pieces} == {Status.FAILED}
    assert all(piece.text.startswith(piece.target) for piece in pieces)
    assert all(type(piece.code) is Code or "." in piece.code for piece in pieces)


def setting_names(fault: object) -> set[str]:
    """The fields of a dataclass, which every fault is."""
    assert is_dataclass(fault)
    return {one.name for one in fields(fault)}


def documented_fields(kind: type) -> set[str]:
    """The names in a class body that a docstring follows."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        item.target.id
        for item, doc in pairs
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and isinstance(doc, ast.Expr)
    }
