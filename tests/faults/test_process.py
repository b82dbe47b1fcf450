"""Faults that end a process or hold it: their contract, their evidence, and the real thing."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.process import ProcessCrashLoop, ProcessKill, ProcessPreempt, ProcessRestart
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
from tests.faults.fault_record import FaultRecord

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


def test_a_kill_is_proved_by_the_exit_and_names_the_drop() -> None:
    record = alive(ProcessKill()).add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None)
    record.add(10.5, Kind.MEMBER_LEFT, source="syncer", reason="closed").probe(15.0, "gone")
    found = record.evidence
    assert found.status is Status.PROVED
    assert found.requested == {"signal": "SIGKILL", "down_s": 5.0}
    assert found.measured["down_s"] == pytest.approx(4.9)
    assert found.measured["dropped_after_s"] == pytest.approx(0.4)
    assert [record.history.events[seq].kind for seq in found.proof] == [
        Kind.NODE_EXITED,
        Kind.MEMBER_LEFT,
    ]


def test_a_death_counts_from_the_probe_that_saw_it_first() -> None:
    record = alive(ProcessKill()).probe(10.1, "Z").add(11.8, Kind.NODE_EXITED, signal="SIGKILL")
    found = record.probe(15.0, "gone").evidence
    assert (found.status, found.measured["down_s"]) == (Status.PROVED, pytest.approx(4.9))


def test_an_orderly_leave_on_sigterm_is_a_kill_by_sigterm() -> None:
    fault = ProcessKill(signal="SIGTERM")  # type: ignore[arg-type]  # as a plan writes it
    record = alive(fault).add(10.1, Kind.NODE_EXITED, signal=None, exit_code=0).probe(15.0, "gone")
    assert record.evidence.status is Status.PROVED


@pytest.mark.parametrize(
    ("asked", "ending"),
    [
        ("SIGSEGV", {"exit_code": 0}),
        ("SIGSEGV", {"signal": "SIGKILL"}),
        ("SIGTERM", {"exit_code": 1}),
        ("SIGTERM", {"signal": "SIGKILL"}),
        ("SIGQUIT", {"exit_code": 0}),
    ],
)
def test_another_end_than_the_signal_asked_is_not_a_kill_by_it(
    asked: str, ending: Mapping[str, Json]
) -> None:
    fault = ProcessKill(signal=asked)  # type: ignore[arg-type]  # as a plan writes it
    record = alive(fault).add(10.1, Kind.NODE_EXITED, **ending).probe(15.0, "gone")
    assert record.evidence.code is Code.EXITED_INSTEAD


@pytest.mark.parametrize("sent", [[], ["SIGTERM"]])
def test_a_death_by_sigkill_that_the_harness_did_not_send_is_not_its_kill(sent: list[str]) -> None:
    record = alive(ProcessKill()).add(10.1, Kind.NODE_EXITED, signal="SIGKILL", sent=sent)
    assert record.probe(15.0, "gone").evidence.code is Code.EXITED_INSTEAD


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
def test_a_noticed_learner_that_somebody_else_kills_was_not_preempted(signal: str) -> None:
    record = alive(ProcessPreempt()).add(10.2, Kind.LEARNER_NOTICED, step=9)
    record.add(11.0, Kind.NODE_EXITED, signal=signal, sent=["SIGHUP"])
    assert record.evidence.code is Code.EXITED_INSTEAD


def test_a_victim_that_somebody_replaced_early_is_weak() -> None:
    record = alive(ProcessKill()).add(10.1, Kind.NODE_EXITED, signal="SIGKILL")
    record.add(11.0, Kind.NODE_STARTED, incarnation=2).probe(15.0, "S")
    assert record.evidence.code is Code.TOO_SHORT
    assert record.evidence.measured["down_s"] == pytest.approx(0.9)


def test_a_pause_is_proved_by_state_t_from_probe_to_probe() -> None:
    found = alive(ProcessPause()).probe(10.0, "T").probe(15.0, "T").evidence
    assert (found.status, found.measured["paused_s"]) == (Status.PROVED, 5.0)


def test_a_pause_that_nobody_saw_is_failed() -> None:
    assert alive(ProcessPause()).probe(10.0, "S").probe(15.0, "S").evidence.code is Code.NOT_STOPPED
    assert alive(ProcessPause()).evidence.code is Code.NOT_STOPPED


def test_a_hang_is_proved_by_standing_still_while_alive() -> None:
    record = alive(ProcessHang()).probe(10.0, "S").stepping(10.4)
    record.add(12.5, Kind.MEMBER_SUSPECTED, source="syncer").probe(15.0, "S")
    found = record.evidence
    assert (found.status, found.measured["hung_s"]) == (Status.PROVED, pytest.approx(4.6))
    assert found.measured["usual_interval_s"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("steps", "code"),
    [((70, 73, 76, 79), Code.STILL_WORKING), ((70, 71, 71, 71), Code.AS_ASKED)],
)
def test_a_learner_that_says_nothing_of_its_steps_and_works_on_does_not_hang(
    steps: tuple[int, ...], code: Code
) -> None:
    record = alive(ProcessHang()).probe(10.0, "S")
    for number, step in enumerate(steps):
        record.add(12.0 + number / 4, Kind.PUSH_ACCEPTED, source="syncer", step=step)
    assert record.probe(15.0, "S").evidence.code is code


def test_a_learner_that_says_that_it_waits_for_a_round_does_not_hang() -> None:
    record = alive(ProcessHang()).probe(10.0, "S")
    for quarter in range(20):
        record.add(10.1 + quarter / 4, Kind.LEARNER_WAITING, waited_s=quarter / 4, fragment=0)
    assert record.probe(15.0, "S").evidence.code is Code.NO_EFFECT


@pytest.mark.parametrize("state", ["T", "Z", "gone"])
def test_a_learner_that_was_stopped_or_gone_did_not_hang(state: str) -> None:
    assert alive(ProcessHang()).probe(15.0, state).evidence.code is Code.STOPPED_INSTEAD


def test_a_learner_that_exits_or_loses_its_connection_did_not_hang() -> None:
    exits = alive(ProcessHang()).probe(10.0, "S").add(11.0, Kind.NODE_EXITED, exit_code=1)
    closes = alive(ProcessHang()).add(11.0, Kind.MEMBER_LEFT, source="syncer", reason="closed")
    assert exits.evidence.code is Code.EXITED_INSTEAD
    assert closes.probe(15.0, "S").evidence.code is Code.DISCONNECTED_INSTEAD


def test_a_restart_is_proved_by_the_exit_and_the_next_life() -> None:
    record = alive(ProcessRestart(), for_s=0.0).add(10.1, Kind.NODE_EXITED, signal="SIGKILL")
    assert record.evidence.code is Code.NOT_RESTARTED
    found = record.add(10.2, Kind.NODE_STARTED, incarnation=2).evidence
    assert (found.status, found.measured["restarts"]) == (Status.PROVED, 1)


def test_a_crash_loop_with_fewer_crashes_than_asked_is_weak() -> None:
    record = alive(ProcessCrashLoop(times=2, lives_s=1.0))
    for life, at_s in ((1, 10.0), (2, 11.0)):
        record.add(at_s, Kind.NODE_EXITED, signal="SIGKILL", incarnation=life)
        record.add(at_s + 0.01, Kind.NODE_STARTED, incarnation=life + 1)
    assert record.evidence.code is Code.FEWER_TIMES
    found = record.add(12.0, Kind.NODE_EXITED, signal="SIGKILL", incarnation=3).evidence
    assert (found.status, found.measured["crashes"]) == (Status.PROVED, 3)
    assert found.measured["life_s"] == pytest.approx(0.99)


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            alive(ProcessKill()).add(10.1, Kind.NODE_EXITED, signal="SIGKILL").probe(15.0, "gone"),
            Status.PROVED,
            id="a syncer that does not notice a death does not unprove it",
        ),
        pytest.param(
            Record(ProcessKill())
            .add(1.0, Kind.NODE_STARTED)
            .add(9.0, Kind.NODE_EXITED, signal="SIGKILL")
            .begin(10.0)
            .probe(15.0, "gone"),
            Code.NOT_RUNNING,
            id="killing what was dead before is failed",
        ),
        pytest.param(
            alive(ProcessKill()).add(10.1, Kind.NODE_EXITED, signal=None, exit_code=1),
            Code.EXITED_INSTEAD,
            id="an exit of its own is not a kill",
        ),
        pytest.param(
            alive(ProcessPreempt())
            .add(10.2, Kind.LEARNER_NOTICED, step=9)
            .add(11.0, Kind.NODE_EXITED, exit_code=1, sent=["SIGHUP"]),
            Code.EXITED_INSTEAD,
            id="a preempted learner that crashes is not proved",
        ),
        pytest.param(
            alive(ProcessKill())
            .fault_event(15.0, Kind.FAULT_HEALING)
            .add(15.1, Kind.NODE_EXITED, signal="SIGKILL"),
            Code.STILL_RUNNING,
            id="an exit after the heal proves nothing",
        ),
        pytest.param(
            alive(ProcessPause()).probe(10.0, "T").probe(15.0, "S"),
            Code.NOT_THROUGHOUT,
            id="a pause that ended early is weak",
        ),
        pytest.param(
            alive(ProcessPause()).probe(10.0, "R", cpu_s=3.0).probe(15.0, "T", cpu_s=3.0),
            Status.PROVED,
            id="a starved process that shows late that it is stopped was paused all the time",
        ),
        pytest.param(
            alive(ProcessPause()).probe(10.0, "R", cpu_s=3.0).probe(15.0, "T", cpu_s=4.0),
            Code.NOT_THROUGHOUT,
            id="a process that ran on before it stopped is weak",
        ),
        pytest.param(
            alive(ProcessPause()).probe(10.0, "T").stepping(13.0).probe(15.0, "T"),
            Code.WORKED_MEANWHILE,
            id="a paused learner that reports steps is weak",
        ),
        pytest.param(
            alive(ProcessPause()).stepping(10.2).probe(10.3, "T").probe(15.0, "T"),
            Status.PROVED,
            id="lines that were on their way do not weaken a pause",
        ),
        pytest.param(
            alive(ProcessHang()).stepping(*(half / 2 for half in range(21, 30))).probe(15.0, "S"),
            Code.NO_EFFECT,
            id="a learner that goes on stepping does not hang",
        ),
        pytest.param(
            alive(ProcessHang(), for_s=1.0).probe(10.0, "S").probe(11.0, "S"),
            Code.NO_EFFECT,
            id="a hang too short to tell from a normal pause is failed",
        ),
        pytest.param(
            Record(ProcessHang())
            .add(1.0, Kind.NODE_STARTED)
            .stepping(2.0, 2.5, 3.0)
            .begin(60.0)
            .probe(65.0, "S"),
            Code.NOT_STEPPING,
            id="a learner that stood still before cannot be hung",
        ),
        pytest.param(
            alive(ProcessCrashLoop(times=1))
            .add(10.0, Kind.NODE_EXITED, signal="SIGKILL")
            .add(10.5, Kind.NODE_EXITED, signal=None, exit_code=1, incarnation=2),
            Code.FEWER_TIMES,
            id="lives that ended by themselves are no crashes of the loop",
        ),
    ],
)
def test_the_record_shows_what_became_of_the_process(record: Record, shown: Code | Status) -> None:
    assert shown in (record.evidence.code, record.evidence.status)


def test_a_preemption_is_proved_by_the_notice_and_the_end() -> None:
    record = alive(ProcessPreempt()).add(10.1, Kind.LEARNER_NOTICED)
    record.add(13.0, Kind.LEARNER_LEFT, reason="preempted")
    found = record.add(13.1, Kind.NODE_EXITED, exit_code=0).evidence
    assert (found.status, found.measured["left_by_itself"]) == (Status.PROVED, True)


def test_a_preemption_that_needed_force_is_proved_and_says_so() -> None:
    record = alive(ProcessPreempt()).add(10.1, Kind.LEARNER_NOTICED)
    found = record.add(17.1, Kind.NODE_EXITED, signal="SIGKILL").evidence
    assert (found.status, found.measured["left_by_itself"]) == (Status.PROVED, False)


def test_a_preemption_without_notice_is_weak_and_without_end_failed() -> None:
    unheard = alive(ProcessPreempt()).add(13.1, Kind.NODE_EXITED, exit_code=0)
    unmoved = alive(ProcessPreempt()).add(10.1, Kind.LEARNER_NOTICED).probe(20.0, "S")
    assert unheard.evidence.code is Code.NO_NOTICE
    assert unmoved.evidence.code is Code.STILL_RUNNING


# ---------------------------------------------------------------- on real processes


ON_PROCESSES: tuple[Fault, ...] = (
    ProcessKill(),
    ProcessPause(),
    ProcessRestart(),
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
