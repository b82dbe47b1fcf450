"""Verbs and chores that take long: the loop goes on, and what is due is done at its time."""

from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import judge
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.core.payloads import PhaseEntered
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.chores import Chores, Workers
from chaoslab.plan.model import FaultPlan, Stop, Trigger
from chaoslab.record.history import History
from chaoslab.run.verbs import LEAVE_S, Verbs, _Pending
from chaoslab.undo.heartbeat import STALL_S, Heartbeat, Silence
from tests.contracts.no_fleet import NoFleet
from tests.stage import HALF, PLAN, Stage, ending, the
from tests.virtual_clock import VirtualClock

SLOW = replace(HALF, targets=("learner-1",), trigger=Trigger(time_s=9.0))
OTHER = replace(
    SLOW, number=1, spec="other", targets=("learner-3",), trigger=Trigger(time_s=12.0), for_s=3.0
)
FOREVER = 1e6
WHAT = {"kill": "process.kill", "restart": "the heal of process.kill", "start": "the start"}


class SlowStage(Stage):
    """Verbs are carried out beside the loop. The first one of this kind for learner-1 returns after
    `for_s` of the virtual clock, which waits for all others.
    """

    def __init__(
        self, folder: Path, verb: str, *, for_s: float, verb_s: float = 60.0, plan: FaultPlan = PLAN
    ) -> None:
        self.beats_s = [0.0]
        super().__init__(folder, [SLOW, OTHER], plan=plan, heartbeat=Heartbeat(beat=self.beat))
        self.returns, self.slow = Event(), list[tuple[float, _Pending]]()
        self._for_s, self._poll, self._verb = for_s, self.fleet.poll, getattr(self.fleet, verb)
        self._what = WHAT[verb]
        vars(self.fleet).update({"verb_s": verb_s, "poll": self.poll, verb: self.slow_verb})

    def slow_verb(self, *names: str) -> object:
        if "learner-1" in names:
            self.returns.wait()
        return self._verb(*names)

    def poll(self, until_s: float) -> Sequence[Observation]:
        pending, now_s = self.run.verbs._pending, self.clock.now_s()
        if not self.slow:
            self.slow += [
                (now_s, one)
                for one in pending
                if "learner-1" in one.names and one.what == self._what
            ]
        if self.slow and now_s >= self.slow[0][0] + self._for_s:
            self.returns.set()
        wait([
            one.done
            for one in (*pending, *(one for _, one in self.slow))
            if self.returns.is_set() or one not in [slow for _, slow in self.slow]
        ])  # fmt: skip
        return self._poll(until_s)

    def beat(self) -> Silence | None:
        """As `Pulse.beat`, on the virtual clock."""
        self.beats_s.append(self.clock.now_s())
        silent_s = self.beats_s[-1] - self.beats_s[-2]
        return Silence(for_s=silent_s, undone=()) if silent_s >= STALL_S else None

    def interrupt(self) -> None:
        self.interrupts.count += 1

    def execute(self) -> History:
        try:
            return super().execute()
        finally:
            self.returns.set()


def test_another_fault_comes_and_goes_while_a_verb_takes_20_s(tmp_path: Path) -> None:
    stage = SlowStage(tmp_path, "kill", for_s=20.0)
    history = stage.execute()
    slow, other = history.faults
    assert not history.of(Kind.HARNESS_STALLED)
    assert ending(history) == ("completed", "")
    assert (slow.injecting.payload.asked_s, other.injecting.payload.asked_s) == (9.0, 12.0)
    assert other.injected.time_s == pytest.approx(12.0, abs=0.02)
    assert other.healed.time_s == pytest.approx(15.0, abs=0.04)
    assert slow.injected.time_s == pytest.approx(29.0, abs=0.04)
    assert slow.healed.time_s == pytest.approx(slow.injected.time_s + SLOW.for_s, abs=0.04)
    assert (slow.status, other.status) == ("proved", "proved")


def test_another_fault_comes_while_a_heal_takes_20_s(tmp_path: Path) -> None:
    history = SlowStage(tmp_path, "restart", for_s=20.0).execute()
    slow, other = history.faults
    assert not history.of(Kind.HARNESS_STALLED)
    assert other.injected.time_s == pytest.approx(12.0, abs=0.02)
    assert slow.healing.time_s == pytest.approx(14.0, abs=0.04)
    assert slow.healed.time_s == pytest.approx(34.0, abs=0.06)
    assert ending(history) == ("completed", "")


def test_a_verb_that_never_returns_fails_at_its_deadline_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    history = SlowStage(tmp_path, "kill", for_s=FOREVER, verb_s=10.0).execute()
    slow, other = history.faults
    assert slow.injected is None
    assert slow.failed.time_s == pytest.approx(19.0, abs=0.02)
    assert (slow.status, other.status) == ("failed", "proved")
    assert slow.healed is None, "it may still take effect"
    assert len(history.of(Kind.FAULT_HEAL_FAILED)) == 1
    assert other.healed.time_s == pytest.approx(15.0, abs=0.04)
    assert ending(history)[0] == "completed"


def test_a_late_verb_that_returns_at_last_is_healed(tmp_path: Path) -> None:
    history = SlowStage(tmp_path, "kill", for_s=15.0, verb_s=10.0).execute()
    slow = history.faults[0]
    assert slow.failed.time_s == pytest.approx(19.0, abs=0.02)
    assert slow.healed.time_s == pytest.approx(24.5, abs=1.0)


class Unhealed(SlowStage):
    """Every restart of learner-1 takes `for_s`, and fails."""

    def slow_verb(self, *names: str) -> object:
        if "learner-1" not in names:
            return self._verb(*names)
        self.returns.wait()
        raise FleetError("never")

    def poll(self, until_s: float) -> Sequence[Observation]:
        found = super().poll(until_s)
        if self.slow and self.slow[0][1].done.done():
            self.returns.clear()
            self.slow.clear()
        return found


def test_settling_ends_although_a_heal_is_tried_again_and_again(tmp_path: Path) -> None:
    plan = replace(PLAN, training=replace(PLAN.training, stop=Stop(rounds=400)), settle_s=3.0)
    history = Unhealed(tmp_path, "restart", for_s=0.5, plan=plan).execute()
    settles, stops = (
        one.time_s for one in history.of(PhaseEntered) if one.payload.phase in ("settle", "stop")
    )
    assert plan.settle_s <= stops - settles <= 2 * plan.settle_s + 0.1
    assert history.faults[0].healed is None


@pytest.mark.parametrize(
    ("interrupts_s", "ends_s"), [((10.0,), 10.0 + LEAVE_S), ((10.0, 15.0), 15.0)]
)
def test_a_run_that_ends_gives_a_hung_verb_a_bounded_time(
    tmp_path: Path,
    interrupts_s: Sequence[float],
    ends_s: float,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = SlowStage(tmp_path, "kill", for_s=FOREVER, verb_s=300.0)
    for time_s in interrupts_s:
        stage.fleet.at(time_s, stage.interrupt)
    history = stage.execute()
    outcome, reason = ending(history)
    assert outcome == "interrupted"
    assert history.faults[0].failed.time_s == pytest.approx(ends_s, abs=0.1)
    assert history.end_s < ends_s + 5.0
    assert all("process.kill on learner-1" in said for said in (reason, caplog.text))
    assert len(history.of(Kind.FAULT_HEAL_FAILED)) == 1
    assert "learner-1" in {event.source for event in history.of(Kind.NODE_EXITED)}
    verdict = judge(history, (Rejoin(),))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, ExitCode.INTERRUPTED)
    assert not stage.fleet.alive


def test_a_heal_that_hangs_at_the_end_leaves_the_other_faults_healed(tmp_path: Path) -> None:
    stage = SlowStage(tmp_path, "restart", for_s=FOREVER, verb_s=300.0)
    stage.fleet.at(14.5, stage.interrupt)
    history = stage.execute()
    slow, other = history.faults
    assert (slow.healed, other.healed is not None) == (None, True)
    assert other.healed.time_s < 15.0
    assert "the heal of process.kill" in the(history, Kind.FAULT_HEAL_FAILED).payload.reason
    assert history.end_s < 14.5 + LEAVE_S + 5.0
    assert judge(history, ()).outcome is Outcome.UNKNOWN


class SlowStart(SlowStage):
    """The start of learner-1 takes so long."""

    def __init__(self, folder: Path, *, for_s: float) -> None:
        super().__init__(folder, "start", for_s=for_s)

    def slow_verb(self, *specs: NodeSpec) -> object:
        if specs[0].name == "learner-1":
            self.returns.wait()
        return self._verb(*specs)


def test_a_start_may_take_20_s(tmp_path: Path) -> None:
    stage = SlowStart(tmp_path, for_s=20.0)
    history = stage.execute()
    assert ending(history) == ("completed", "")
    assert not history.of(Kind.HARNESS_STALLED)
    starts = {name: at_s for at_s, verb, name in stage.fleet.calls if verb == "start"}
    assert starts["learner-1"] - starts["learner-0"] == pytest.approx(20.0, abs=0.5)


@pytest.mark.parametrize(("interrupts_s", "ends_s"), [((5.0,), 5.0 + LEAVE_S), ((5.0, 8.0), 8.0)])
def test_a_start_that_hangs_hears_an_interrupt(
    tmp_path: Path,
    interrupts_s: Sequence[float],
    ends_s: float,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = SlowStart(tmp_path, for_s=FOREVER)
    for time_s in interrupts_s:
        stage.fleet.at(time_s, stage.interrupt)
    history = stage.execute()
    outcome, reason = ending(history)
    assert outcome == "interrupted"
    assert all("start on learner-1" in said for said in (reason, caplog.text))
    assert ends_s - 0.1 < history.end_s < ends_s + 5.0
    assert {one.source for one in history.of(Kind.NODE_EXITED)} == {"syncer", "learner-0"}
    assert not stage.fleet.alive


def test_what_has_started_before_an_interrupt_is_removed(tmp_path: Path) -> None:
    stage = SlowStart(tmp_path, for_s=10.0)
    stage.fleet.at(5.0, stage.interrupt)
    history = stage.execute()
    assert ending(history) == ("interrupted", "interrupted by a signal")
    assert {one.source for one in history.of(Kind.NODE_EXITED)} >= {"syncer", "learner-1"}
    assert not stage.fleet.alive


class HungStage(Stage):
    """What enters or leaves the fleet, or looks for what is left, returns after `for_s` of the
    virtual clock, and interrupts come this long after its begin.
    """

    def __init__(self, folder: Path, call: str, *, for_s: float, interrupts_s: list[float]) -> None:
        self._for_s, self._interrupts_s, self._begun_s = for_s, interrupts_s, FOREVER
        self.returns, self._call = Event(), lambda *_: ()
        residue = self.hang if call == "residue" else tuple
        super().__init__(folder, heartbeat=Heartbeat(beat=self.beat, residue=residue))
        vars(self.fleet)["verb_s"] = 60.0
        if call != "residue":
            self._call = getattr(self.fleet, call)
            vars(self.fleet)[call] = self.hang
        poll = self.fleet.poll

        def polled(until_s: float) -> Sequence[Observation]:
            wait([one.done for one in self.run.verbs._pending])
            return poll(until_s)

        vars(self.fleet)["poll"] = polled

    def hang(self, *error: object) -> object:
        self._begun_s = self.clock.now_s()
        self.returns.wait()
        return self._call(*error)

    def beat(self) -> None:
        """The clock goes on, while all wait."""
        waited_s = self.clock.now_s() - self._begun_s
        if waited_s < 0 or self.returns.is_set():
            return
        if waited_s >= self._for_s:
            self.returns.set()
        if self._interrupts_s and waited_s >= self._interrupts_s[0]:
            self._interrupts_s.pop(0)
            self.interrupts.count += 1
        self.clock.advance_to(self.clock.now_s() + 0.25)

    def execute(self) -> History:
        try:
            return super().execute()
        finally:
            self.returns.set()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("__enter__", "the start of the fleet"),
        ("__exit__", "the end of the fleet"),
        ("residue", "a last look"),
    ],
)
def test_a_fleet_that_hangs_hears_interrupts(tmp_path: Path, call: str, named: str) -> None:
    stage = HungStage(tmp_path, call, for_s=FOREVER, interrupts_s=[5.0, 8.0])
    history = stage.execute()
    outcome, reason = ending(history)
    assert named in reason
    assert outcome == ("completed" if call == "residue" else "interrupted")
    assert stage.clock.now_s() - stage._begun_s == pytest.approx(9.0, abs=0.6)
    assert not history.of(Kind.HARNESS_STALLED)


def test_an_interrupted_fleet_is_left_as_soon_as_it_is_entered(tmp_path: Path) -> None:
    stage = HungStage(tmp_path, "__enter__", for_s=10.0, interrupts_s=[5.0])
    assert ending(stage.execute()) == ("interrupted", "interrupted by a signal")
    assert [call[1:] for call in stage.fleet.calls] == [("leave", "")]


class ChoreStage(Stage):
    """`poll` finds a chore of learner-1 due, which takes 20 s of the virtual clock; no verb takes
    time but those that wait for it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, [replace(SLOW, trigger=Trigger(time_s=14.0)), OTHER])
        self._chores, self._returns = Chores(), Event()
        self._poll, self._begins_s = self.fleet.poll, 9.0
        vars(self.fleet).update(
            verb_s=60.0, poll=self.poll, acting=self._chores.acting, use_workers=self.use_workers
        )

    def use_workers(self, workers: Workers) -> None:
        self._chores.workers = workers

    def poll(self, until_s: float) -> Sequence[Observation]:
        now_s = self.clock.now_s()
        if now_s >= self._begins_s:
            self._begins_s = FOREVER
            self._chores.begin(["learner-1"], self._returns.wait)
        if now_s >= 29.0:
            self._returns.set()
        wait([
            one.done
            for one in self.run.verbs._pending
            if self._returns.is_set() or "learner-1" not in one.names or self._begins_s != FOREVER
        ])  # fmt: skip
        return self._poll(until_s)


def test_a_chore_of_20_s_keeps_no_fault_elsewhere_waiting(tmp_path: Path) -> None:
    history = ChoreStage(tmp_path).execute()
    other, same = history.faults
    assert other.injected.time_s == pytest.approx(12.0, abs=0.02)
    assert other.healed.time_s == pytest.approx(15.0, abs=0.04)
    assert same.injecting.time_s == pytest.approx(14.0, abs=0.02)
    assert same.injected.time_s == pytest.approx(29.0, abs=0.04)
    assert (other.status, same.status) == ("proved", "proved")
    assert ending(history) == ("completed", "")


def test_an_error_of_a_verb_is_raised_where_it_was_called() -> None:
    clock, said = VirtualClock(), list[str]()
    fleet = NoFleet(clock)
    fleet.verb_s = 1.0

    async def code(verbs: Verbs) -> None:
        try:
            await verbs.call(["learner-0"], lambda: fleet.restart("learner-9"), what="it")
        except KeyError as error:
            said.append(str(error))

    with Verbs(fleet=fleet, clock=clock) as verbs:
        verbs.begin(code(verbs))
        for pending in verbs._pending:
            wait([pending.done])
        verbs.turn()
        assert said == ["'learner-9'"]


def test_what_is_under_way_at_the_end_fails() -> None:
    clock, returns, said = VirtualClock(), Event(), list[str]()
    fleet = NoFleet(clock)
    fleet.verb_s = 1.0

    async def code(verbs: Verbs) -> None:
        for _ in range(2):
            try:
                await verbs.call(["learner-0"], returns.wait, what="it")
            except FleetError as error:
                said.append(str(error))

    with Verbs(fleet=fleet, clock=clock) as verbs:
        verbs.begin(code(verbs))
        assert verbs.busy == {"learner-0"}
    returns.set()
    assert len(said) == 2
    assert not verbs.are_pending
