"""Faults that take one host of a learner: their contract, their evidence, and the real thing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.host import ChipFail, HostKill
from chaoslab.faults.process import ProcessKill
from chaoslab.fleet.base import Ability, Hosts, NodeSpec, Role
from tests.contracts import node_program
from tests.contracts.fault_kit import (
    LEARNERS,
    VICTIMS,
    Director,
    injection_of,
    on_real_processes,
)
from tests.faults.test_process import Record

FAULTS: tuple[Fault, ...] = (HostKill(), ChipFail())
SIGNALS = {"host.kill": "SIGKILL", "chip.fail": "SIGABRT"}


@pytest.fixture(params=FAULTS, ids=lambda fault: fault.name)
def fault(request: pytest.FixtureRequest) -> Fault:
    return request.param  # type: ignore[no-any-return]  # pytest knows no types


def test_they_need_a_fleet_that_can_end_a_host(fault: Fault) -> None:
    assert Ability.HOSTS in fault.needs
    assert Ability.HOSTS not in ProcessKill().needs


def of_hosts(fault: Fault, hosts: int = 2) -> Record:
    """A learner of so many hosts that stepped until second 10."""
    record = Record(fault).add(1.0, Kind.NODE_STARTED)
    for host in range(hosts if hosts > 1 else 0):
        record.add(1.1, Kind.HOST_STARTED, host=host, pid=100 + host)
    record.add(2.0, Kind.MEMBER_JOINED, source="syncer")
    return record.stepping(5.0, 9.5).begin(10.0)


def exited(record: Record, signal: str, sent: str) -> Record:
    return record.add(10.3, Kind.NODE_EXITED, signal=signal, exit_code=None, sent=[sent])


def test_a_lost_host_is_proved_by_the_learners_word_and_its_exit(fault: Fault) -> None:
    signal = SIGNALS[fault.name]
    record = of_hosts(fault)
    record.add(10.1, Kind.HOST_LOST, host=1, reason="its connection ended", signal=None)
    record.add(10.2, Kind.HOST_LOST, host=1, reason=f"ended by {signal}", signal=signal)
    found = exited(record, signal, signal).probe(15.0, "gone").evidence
    assert (found.status, found.code, found.measured["host"]) == (Status.PROVED, Code.AS_ASKED, 1)
    assert found.measured["down_s"] == pytest.approx(4.7)
    assert f"lost host 1 of 2 (ended by {signal})" in found.text
    assert [record.history.events[seq].kind for seq in found.proof] == [
        Kind.HOST_LOST,
        Kind.NODE_EXITED,
    ]


def test_a_learner_of_one_host_has_no_word_to_say(fault: Fault) -> None:
    signal = SIGNALS[fault.name]
    record = exited(of_hosts(fault, 1), signal, signal).probe(15.0, "gone")
    assert record.evidence.status is Status.PROVED


def test_an_exit_without_a_lost_host_is_doubtful(fault: Fault) -> None:
    signal = SIGNALS[fault.name]
    record = exited(of_hosts(fault), signal, signal).probe(15.0, "gone")
    assert record.evidence.code is Code.DOUBTFUL_CAUSE


def test_the_loss_of_another_host_is_doubtful(fault: Fault) -> None:
    signal = SIGNALS[fault.name]
    record = of_hosts(fault)
    record.add(10.2, Kind.HOST_LOST, host=0, reason=f"ended by {signal}", signal=signal)
    found = exited(record, signal, signal).probe(15.0, "gone").evidence
    assert found.code is Code.DOUBTFUL_CAUSE
    assert "did not report that it lost host 1" in found.text


def test_a_learner_that_goes_on_without_its_host_is_not_proved(fault: Fault) -> None:
    assert of_hosts(fault).stepping(12.0, 14.0).evidence.code is Code.STILL_RUNNING


def test_an_exit_that_was_not_asked_for_proves_nothing(fault: Fault) -> None:
    other = "SIGABRT" if SIGNALS[fault.name] == "SIGKILL" else "SIGKILL"
    record = of_hosts(fault)
    record.add(10.2, Kind.HOST_LOST, host=1, reason=f"ended by {other}", signal=other)
    assert exited(record, other, SIGNALS[fault.name]).evidence.code is Code.EXITED_INSTEAD


def test_a_learner_that_was_not_there_cannot_lose_a_host(fault: Fault) -> None:
    assert Record(fault).begin(10.0).evidence.code is Code.NOT_RUNNING


# ---------------------------------------------------------------- on real processes


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.gate)], ids=["one host", "two hosts"])
def director(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Director]:
    with on_real_processes(
        tmp_path, [stand_in(name, request.param) for name in LEARNERS]
    ) as director:
        yield director


def stand_in(name: str, hosts: int) -> NodeSpec:
    program = (sys.executable, "-S", node_program.__file__)
    flags = ("--name", name, "--incarnation", "{incarnation}", "--hosts", str(hosts))
    return NodeSpec(
        name=name,
        role=Role.LEARNER,
        command=(*program, *flags, "--test-hooks"),
        hosts=None if hosts == 1 else Hosts(count=hosts, flags=(), secret="SECRET"),
        hears=True,
    )


@pytest.mark.deep
@pytest.mark.alone
def test_on_real_processes_it_is_proved_and_healed(fault: Fault, director: Director) -> None:
    pieces = director.carry_out(fault, injection_of(fault, for_s=0.5))
    assert [(piece.target, piece.status) for piece in pieces] == [
        (name, Status.PROVED) for name in VICTIMS
    ], [piece.text for piece in pieces]
    assert all(node.is_alive for node in director.fleet.nodes.values())
