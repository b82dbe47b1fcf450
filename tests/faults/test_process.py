"""Faults that end a process or hold it: their contract, their evidence, and the real thing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.process import (
    ProcessCrashLoop,
    ProcessKill,
    ProcessPreempt,
    Signal,
)
from chaoslab.faults.process_pause import ProcessHang, ProcessPause
from chaoslab.faults.starvation import ProcessOom
from chaoslab.fleet.base import NodeSpec, Role
from tests.contracts import node_program
from tests.contracts.fault_kit import (
    LEARNERS,
    VICTIMS,
    Director,
    injection_of,
    on_real_processes,
)
from tests.faults.fault_record import Case, FaultRecord, case, each_of

approx = pytest.approx

# ---------------------------------------------------------------- evidence from written records


class Record(FaultRecord):
    """A journal made by hand: one learner, one injection, times as the test likes them."""

    target = "learner-1"

    def __init__(self, fault: Fault, *, for_s: float | None = 5.0) -> None:
        super().__init__(fault, self.target, for_s=for_s)

    def add(
        self, time_s: float, kind: Kind, *, source: str = "learner-1", **data: Json
    ) -> "Record":
        who: dict[str, Json] = {"node": self.target, "learner": self.target, "incarnation": 1}
        return self.say(time_s, kind, source, **{**who, **data})

    def stepping(self, *times_s: float) -> "Record":
        for time_s in times_s:
            self.add(time_s, Kind.LEARNER_STEP, step=int(time_s * 10), steps=5, step_s=0.1)
        return self

    def probe(self, time_s: float, state: str, cpu_s: float | None = None) -> "Record":
        """Its processor time is the clock's unless given: it has run all the time."""
        used_s = time_s if cpu_s is None else cpu_s
        return self.add(time_s, Kind.NODE_PROBED, state=state, cpu_s=used_s)


def alive(fault: Fault, *, for_s: float | None = 5.0) -> Record:
    """A learner that started, joined and stepped every half second until second 10."""
    record = Record(fault, for_s=for_s).add(1.0, Kind.NODE_STARTED)
    record.add(2.0, Kind.MEMBER_JOINED, source="syncer")
    return record.stepping(*(half / 2 for half in range(5, 21))).begin(10.0)


OTHER_ENDS: tuple[tuple[Signal, dict[str, Json]], ...] = (
    (Signal.SIGSEGV, {"exit_code": 0}),
    (Signal.SIGSEGV, {"signal": "SIGKILL"}),
    (Signal.SIGTERM, {"exit_code": 1}),
    (Signal.SIGTERM, {"signal": "SIGKILL"}),
    (Signal.SIGQUIT, {"exit_code": 0}),
    (Signal.SIGKILL, {"exit_code": 1}),
    (Signal.SIGKILL, {"signal": "SIGKILL", "sent": []}),
    (Signal.SIGKILL, {"signal": "SIGKILL", "sent": ["SIGTERM"]}),
)
"""The last two: somebody else sent it."""


def crashing(fault: Fault, *, lives: int) -> Record:
    """A crash each second; after all but the last the next life begins."""
    record = alive(fault)
    for life in range(1, lives + 1):
        record.add(9.0 + life, Kind.NODE_EXITED, signal="SIGKILL", incarnation=life)
        if life < 3:
            record.add(9.01 + life, Kind.NODE_STARTED, incarnation=life + 1)
    return record


def pushing(*steps: int) -> Record:
    record = alive(ProcessHang()).probe(10.0, "S")
    for number, step in enumerate(steps):
        record.add(12.0 + number / 4, Kind.PUSH_ACCEPTED, source="syncer", step=step)
    return record.probe(15.0, "S")


def killed(fault: Fault, **ending: Json) -> Record:
    """It ended like that, and was not there when the fault ended."""
    return alive(fault).add(10.1, Kind.NODE_EXITED, **ending).probe(15.0, "gone")


def noticed() -> Record:
    return alive(ProcessPreempt()).add(10.1, Kind.LEARNER_NOTICED, step=9)


@each_of(
    case(
        "a kill is proved by the exit and names the drop",
        alive(ProcessKill())
        .add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None)
        .add(10.5, Kind.MEMBER_LEFT, source="syncer", reason="closed")
        .probe(15.0, "gone"),
        Code.AS_ASKED,
        requested={"signal": "SIGKILL", "down_s": 5.0},
        proof=[Kind.NODE_EXITED, Kind.MEMBER_LEFT],
        down_s=approx(4.9),
        dropped_after_s=approx(0.4),
    ),
    case(
        "a death counts from the probe that saw it first",
        alive(ProcessKill())
        .probe(10.1, "Z")
        .add(11.8, Kind.NODE_EXITED, signal="SIGKILL")
        .probe(15.0, "gone"),
        Code.AS_ASKED,
        down_s=approx(4.9),
    ),
    case(
        "a syncer that does not notice a death does not unprove it",
        killed(ProcessKill(), signal="SIGKILL"),
        Code.AS_ASKED,
    ),
    case(
        "an orderly leave on SIGTERM is a kill by SIGTERM",
        killed(ProcessKill(signal=Signal.SIGTERM), signal=None, exit_code=0),
        Code.AS_ASKED,
    ),
    *(
        case(
            f"{ending} is no kill by {asked}",
            killed(ProcessKill(signal=asked), **ending),
            Code.EXITED_INSTEAD,
        )
        for asked, ending in OTHER_ENDS
    ),
    case(
        "killing what was dead before is failed",
        Record(ProcessKill())
        .add(1.0, Kind.NODE_STARTED)
        .add(9.0, Kind.NODE_EXITED, signal="SIGKILL")
        .begin(10.0)
        .probe(15.0, "gone"),
        Code.NOT_RUNNING,
    ),
    case(
        "an exit after the heal proves nothing",
        alive(ProcessKill())
        .fault_event(15.0, Kind.FAULT_HEALING)
        .add(15.1, Kind.NODE_EXITED, signal="SIGKILL"),
        Code.STILL_RUNNING,
    ),
    case(
        "a victim that somebody replaced early is weak",
        alive(ProcessKill())
        .add(10.1, Kind.NODE_EXITED, signal="SIGKILL")
        .add(11.0, Kind.NODE_STARTED, incarnation=2)
        .probe(15.0, "S"),
        Code.TOO_SHORT,
        down_s=approx(0.9),
    ),
    case(
        "a restart of one that ended by itself",
        alive(ProcessKill(restart=True))
        .add(10.0, Kind.NODE_EXITED, signal=None, exit_code=1)
        .add(10.1, Kind.NODE_STARTED, incarnation=2),
        Code.EXITED_INSTEAD,
    ),
    case(
        "a restart without a next life",
        alive(ProcessKill(restart=True), for_s=0.0).add(10.1, Kind.NODE_EXITED, signal="SIGKILL"),
        Code.NOT_RESTARTED,
    ),
    case(
        "a restart is proved by the exit and the next life",
        alive(ProcessKill(restart=True), for_s=0.0)
        .add(10.1, Kind.NODE_EXITED, signal="SIGKILL")
        .add(10.2, Kind.NODE_STARTED, incarnation=2),
        Code.AS_ASKED,
        down_s=approx(0.1),
    ),
    case(
        "a crash loop with fewer crashes than asked is weak",
        crashing(ProcessCrashLoop(times=2, lives_s=1.0), lives=2),
        Code.FEWER_TIMES,
    ),
    case(
        "a crash loop is proved by its crashes",
        crashing(ProcessCrashLoop(times=2, lives_s=1.0), lives=3),
        Code.AS_ASKED,
        crashes=3,
        life_s=approx(0.99),
    ),
    case(
        "lives that ended by themselves are no crashes of the loop",
        alive(ProcessCrashLoop(times=1))
        .add(10.0, Kind.NODE_EXITED, signal="SIGKILL")
        .add(10.5, Kind.NODE_EXITED, signal=None, exit_code=1, incarnation=2),
        Code.FEWER_TIMES,
    ),
    case(
        "a preemption is proved by the notice and the end",
        noticed()
        .add(13.0, Kind.LEARNER_LEFT, reason="preempted")
        .add(13.1, Kind.NODE_EXITED, exit_code=0),
        Code.AS_ASKED,
        left_by_itself=True,
    ),
    case(
        "a preemption that needed force is proved and says so",
        noticed().add(17.1, Kind.NODE_EXITED, signal="SIGKILL"),
        Code.AS_ASKED,
        left_by_itself=False,
    ),
    case(
        "a preemption without notice is weak",
        alive(ProcessPreempt()).add(13.1, Kind.NODE_EXITED, exit_code=0),
        Code.NO_NOTICE,
    ),
    case("a preemption without end is failed", noticed().probe(20.0, "S"), Code.STILL_RUNNING),
    *(
        case(
            f"{ending} after a notice is no preemption",
            noticed().add(11.0, Kind.NODE_EXITED, **ending, sent=["SIGHUP"]),
            Code.EXITED_INSTEAD,
        )
        for ending in ({"exit_code": 1}, {"signal": "SIGKILL"}, {"signal": "SIGTERM"})
    ),
)
def test_the_record_shows_how_the_process_ended(case: Case) -> None:
    case.require()


@each_of(
    case(
        "a pause is proved by state T from probe to probe",
        alive(ProcessPause()).probe(10.0, "T").probe(15.0, "T"),
        Code.AS_ASKED,
        paused_s=5.0,
    ),
    case(
        "a pause that nobody saw is failed",
        alive(ProcessPause()).probe(10.0, "S").probe(15.0, "S"),
        Code.NOT_STOPPED,
    ),
    case("a pause at which nobody looked is failed", alive(ProcessPause()), Code.NOT_STOPPED),
    case(
        "a pause that ended early is weak",
        alive(ProcessPause()).probe(10.0, "T").probe(15.0, "S"),
        Code.NOT_THROUGHOUT,
    ),
    case(
        "a starved process that shows late that it is stopped was paused all the time",
        alive(ProcessPause()).probe(10.0, "R", cpu_s=3.0).probe(15.0, "T", cpu_s=3.0),
        Code.AS_ASKED,
    ),
    case(
        "a process that ran on before it stopped is weak",
        alive(ProcessPause()).probe(10.0, "R", cpu_s=3.0).probe(15.0, "T", cpu_s=4.0),
        Code.NOT_THROUGHOUT,
    ),
    case(
        "a paused learner that reports steps is weak",
        alive(ProcessPause()).probe(10.0, "T").stepping(13.0).probe(15.0, "T"),
        Code.WORKED_MEANWHILE,
    ),
    case(
        "lines that were on their way do not weaken a pause",
        alive(ProcessPause()).stepping(10.2).probe(10.3, "T").probe(15.0, "T"),
        Code.AS_ASKED,
    ),
    case(
        "a hang is proved by a step that stays the same while alive",
        alive(ProcessHang())
        .probe(10.0, "S")
        .stepping(10.4)
        .add(12.5, Kind.MEMBER_SUSPECTED, source="syncer")
        .probe(15.0, "S"),
        Code.AS_ASKED,
        hung_s=approx(4.6),
        usual_interval_s=approx(0.5),
    ),
    case(
        "a learner that goes on stepping does not hang",
        alive(ProcessHang()).stepping(*(half / 2 for half in range(21, 30))).probe(15.0, "S"),
        Code.NO_EFFECT,
    ),
    case(
        "a hang too short to tell from a normal pause is failed",
        alive(ProcessHang(), for_s=1.0).probe(10.0, "S").probe(11.0, "S"),
        Code.NO_EFFECT,
    ),
    case(
        "a learner that stalled before cannot be hung",
        Record(ProcessHang())
        .add(1.0, Kind.NODE_STARTED)
        .stepping(2.0, 2.5, 3.0)
        .begin(60.0)
        .probe(65.0, "S"),
        Code.NOT_STEPPING,
    ),
    case(
        "a learner that says nothing of its steps and works on does not hang",
        pushing(70, 73, 76, 79),
        Code.STILL_WORKING,
    ),
    case("pushes of what was done before are no work", pushing(70, 71, 71, 71), Code.AS_ASKED),
    *(
        case(
            f"a learner in state {state} did not hang",
            alive(ProcessHang()).probe(15.0, state),
            Code.STOPPED_INSTEAD,
        )
        for state in ("T", "Z", "gone")
    ),
    case(
        "a learner that exits did not hang",
        alive(ProcessHang()).probe(10.0, "S").add(11.0, Kind.NODE_EXITED, exit_code=1),
        Code.EXITED_INSTEAD,
    ),
    case(
        "a learner that loses its connection did not hang",
        alive(ProcessHang())
        .add(11.0, Kind.MEMBER_LEFT, source="syncer", reason="closed")
        .probe(15.0, "S"),
        Code.DISCONNECTED_INSTEAD,
    ),
)
def test_the_record_shows_how_the_process_was_held(case: Case) -> None:
    case.require()


def test_a_learner_that_says_that_it_waits_for_a_round_does_not_hang() -> None:
    record = alive(ProcessHang()).probe(10.0, "S")
    for quarter in range(20):
        record.add(10.1 + quarter / 4, Kind.LEARNER_WAITING, waited_s=quarter / 4, fragment=0)
    assert record.probe(15.0, "S").evidence.code is Code.NO_EFFECT


# ---------------------------------------------------------------- on real processes


ON_PROCESSES: tuple[Fault, ...] = (
    ProcessKill(),
    ProcessPause(),
    ProcessKill(restart=True),
    ProcessCrashLoop(times=2, lives_s=0.3),
    ProcessPreempt(notice_s=0.2, grace_s=0.4),
    ProcessHang(),
    ProcessOom(limit_bytes=32 << 20),
)


@pytest.fixture
def director(tmp_path: Path) -> Iterator[Director]:
    with on_real_processes(tmp_path, [stand_in(name) for name in LEARNERS]) as director:
        yield director


def stand_in(name: str, *flags: str) -> NodeSpec:
    program = (sys.executable, "-S", node_program.__file__)
    command = (*program, "--name", name, "--incarnation", "{incarnation}", *flags)
    return NodeSpec(name=name, role=Role.LEARNER, command=command)


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(one, id=one.name, marks=pytest.mark.gate if one.name == "process.oom" else ())
        for one in ON_PROCESSES
    ],
)
def test_on_real_processes_it_is_proved_and_healed(fault: Fault, director: Director) -> None:
    for_s = 5.0 if isinstance(fault, ProcessOom) else 1.0  # the kernel does not kill at once
    pieces = director.carry_out(fault, injection_of(fault, for_s=for_s))
    assert [(piece.target, piece.status) for piece in pieces] == [
        (name, Status.PROVED) for name in VICTIMS
    ], [piece.text for piece in pieces]
    director.wait_for_steps(LEARNERS)
    assert all(node.is_alive for node in director.fleet.nodes.values())


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.parametrize("fault_of_hooks", [ProcessHang(), ProcessPreempt()])
def test_on_a_program_without_hooks_a_hook_does_nothing(
    fault_of_hooks: Fault, tmp_path: Path
) -> None:
    with on_real_processes(tmp_path, [stand_in(name, "--deaf") for name in VICTIMS]) as director:
        injection = injection_of(fault_of_hooks, for_s=0.5)
        director.write(Kind.FAULT_INJECTING, injection)
        fault_of_hooks.inject(injection, director.fleet)
        director.wait(director.clock.now_s() + 0.5)
        director.probe(injection)
        pieces = fault_of_hooks.evidence(injection, director.journal.history)
    assert {piece.status for piece in pieces} == {Status.FAILED}
