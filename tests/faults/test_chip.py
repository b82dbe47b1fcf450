"""Faults on who has a chip: their contract, their evidence, and the real thing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.chip import HoldChip, ShareChip
from chaoslab.faults.evidence.codes import Code
from chaoslab.fleet.base import NodeSpec, Role
from tests.contracts.fault_kit import (
    LEARNERS,
    VICTIMS,
    Director,
    injection_of,
    on_real_processes,
)
from tests.faults.fault_record import Case, case, each_of
from tests.faults.test_process import Record, alive
from tests.fleet import chip_program

ROOT = Path(__file__).parent.parent.parent


def killed() -> Record:
    record = alive(HoldChip(times=2))
    record.add(10.1, Kind.NODE_EXITED, signal="SIGKILL", exit_code=None, sent=["SIGKILL"])
    return record.add(10.2, Kind.CHIP_HELD, holder=77)


def started_in_vain(record: Record, time_s: float, incarnation: int) -> Record:
    record.add(time_s, Kind.NODE_STARTED, incarnation=incarnation)
    return record.add(
        time_s + 0.5, Kind.NODE_EXITED, incarnation=incarnation, exit_code=69, signal=None, sent=[]
    )


def shared(*, granted: bool, holder: int | None) -> Record:
    record = Record(ShareChip(times=2)).add(1.0, Kind.NODE_STARTED, pid=42).begin(10.0)
    for time_s in (10.1, 11.1):
        record.add(time_s, Kind.CHIP_TRIED, holder=holder, is_granted=granted)
    return record


@each_of(
    case(
        "starts that fail for want of the chip prove that it is held",
        started_in_vain(started_in_vain(killed(), 10.5, 2), 12.5, 3),
        Code.AS_ASKED,
        proof=[Kind.NODE_EXITED, Kind.CHIP_HELD, Kind.NODE_EXITED, Kind.NODE_EXITED],
        starts_failed=2,
    ),
    case(
        "a learner that trains without its chip was not kept from it",
        killed()
        .add(11.0, Kind.NODE_STARTED, incarnation=2)
        .add(12.0, Kind.LEARNER_STEP, incarnation=2, step=5, steps=1, step_s=0.1),
        Code.WORKED_MEANWHILE,
    ),
    case(
        "fewer starts than asked are weak",
        started_in_vain(killed(), 10.5, 2),
        Code.FEWER_TIMES,
    ),
    case(
        "a crash for another reason does not count",
        killed()
        .add(11.0, Kind.NODE_STARTED, incarnation=2)
        .add(11.5, Kind.NODE_EXITED, incarnation=2, exit_code=1, signal=None, sent=[]),
        Code.NO_REPORT,
    ),
    case(
        "a second task that is refused while the learner goes on proves it",
        shared(granted=False, holder=42).stepping(12.0),
        Code.AS_ASKED,
    ),
    case(
        "one that is granted the chip does not",
        shared(granted=True, holder=None).stepping(12.0),
        Code.NO_EFFECT,
    ),
    case(
        "nor one that is refused because of somebody else",
        shared(granted=False, holder=43).stepping(12.0),
        Code.OTHER_CAUSE,
    ),
    case(
        "nor if the learner does not go on",
        shared(granted=False, holder=42),
        Code.NOT_STEPPING,
    ),
)
def test_the_record_shows_who_held_the_chip(case: Case) -> None:
    case.require()


# ---------------------------------------------------------------- the real thing


def stand_in(name: str) -> NodeSpec:
    command = (
        sys.executable, chip_program.__file__, "{directory}", "--name", name,
        "--incarnation", "{incarnation}",
    )  # fmt: skip
    environment = {"PYTHONPATH": str(ROOT)}
    return NodeSpec(name=name, role=Role.LEARNER, command=command, environment=environment)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Director]:
    with on_real_processes(tmp_path, [stand_in(name) for name in LEARNERS]) as director:
        yield director


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.parametrize(
    "fault",
    [HoldChip(times=2, every_s=1.5), ShareChip(times=2, every_s=0.3)],
    ids=lambda fault: fault.name,
)
def test_on_real_processes_it_is_proved_and_healed(fault: Fault, real: Director) -> None:
    pieces = real.carry_out(fault, injection_of(fault, for_s=3.5))
    assert [(piece.target, piece.status) for piece in pieces] == [
        (name, Status.PROVED) for name in VICTIMS
    ], [piece.text for piece in pieces]
    real.wait_for_steps(LEARNERS)


@pytest.mark.deep
@pytest.mark.alone
def test_the_chip_of_a_node_that_lives_cannot_be_held(
    real: Director, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.fleet.local.chips._HOLD_S", 0.1)
    with pytest.raises(FleetError, match="still held"):
        real.fleet.hold_chip(VICTIMS[0])
