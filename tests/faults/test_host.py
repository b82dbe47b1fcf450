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
from chaoslab.fleet.base import Hosts, NodeSpec, Role
from tests.contracts import node_program
from tests.contracts.fault_kit import (
    LEARNERS,
    VICTIMS,
    Director,
    injection_of,
    on_real_processes,
)
from tests.faults.fault_record import Case, case, each_of
from tests.faults.test_process import Record


def of_hosts(fault: Fault, hosts: int = 2) -> Record:
    """A learner of so many hosts that stepped until second 10."""
    record = Record(fault).add(1.0, Kind.NODE_STARTED)
    for host in range(hosts if hosts > 1 else 0):
        record.add(1.1, Kind.HOST_STARTED, host=host, pid=100 + host)
    record.add(2.0, Kind.MEMBER_JOINED, source="syncer")
    return record.stepping(5.0, 9.5).begin(10.0)


def exited(record: Record, signal: str, sent: str) -> Record:
    return record.add(10.3, Kind.NODE_EXITED, signal=signal, exit_code=None, sent=[sent])


def cases_of(fault: Fault, signal: str, other: str) -> Iterator[Case]:
    lost = {"host": 1, "reason": f"ended by {signal}", "signal": signal}
    yield case(
        f"{fault.name} is proved by the learner's word and its exit",
        exited(
            of_hosts(fault)
            .add(10.1, Kind.HOST_LOST, host=1, reason="its connection ended", signal=None)
            .add(10.2, Kind.HOST_LOST, **lost),
            signal,
            signal,
        ).probe(15.0, "gone"),
        Code.AS_ASKED,
        proof=[Kind.HOST_LOST, Kind.NODE_EXITED],
        host=1,
        down_s=pytest.approx(4.7),
    )
    yield case(
        f"{fault.name}: a learner of one host has no word to say",
        exited(of_hosts(fault, 1), signal, signal).probe(15.0, "gone"),
        Code.AS_ASKED,
    )
    yield case(
        f"{fault.name}: an exit without a lost host is doubtful",
        exited(of_hosts(fault), signal, signal).probe(15.0, "gone"),
        Code.DOUBTFUL_CAUSE,
    )
    yield case(
        f"{fault.name}: the loss of another host is doubtful",
        exited(
            of_hosts(fault)
            .add(10.1, Kind.HOST_LOST, host=1, reason="its connection ended", signal=None)
            .add(10.2, Kind.HOST_LOST, **{**lost, "host": 0}),
            signal,
            signal,
        ).probe(15.0, "gone"),
        Code.DOUBTFUL_CAUSE,
    )
    yield case(
        f"{fault.name}: a learner that goes on without its host is not proved",
        of_hosts(fault).stepping(12.0, 14.0),
        Code.STILL_RUNNING,
    )
    yield case(
        f"{fault.name}: an exit that was not asked for proves nothing",
        exited(of_hosts(fault).add(10.2, Kind.HOST_LOST, **lost), other, signal),
        Code.EXITED_INSTEAD,
    )
    yield case(
        f"{fault.name}: a learner that was not there cannot lose a host",
        Record(fault).begin(10.0),
        Code.NOT_RUNNING,
    )


@each_of(
    *cases_of(HostKill(), "SIGKILL", "SIGABRT"),
    *cases_of(ChipFail(), "SIGABRT", "SIGKILL"),
)
def test_the_record_shows_who_lost_a_host(case: Case) -> None:
    case.require()


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
@pytest.mark.parametrize("fault", [HostKill(), ChipFail()], ids=lambda fault: fault.name)
def test_on_real_processes_it_is_proved_and_healed(fault: Fault, director: Director) -> None:
    pieces = director.carry_out(fault, injection_of(fault, for_s=0.5))
    assert [(piece.target, piece.status) for piece in pieces] == [
        (name, Status.PROVED) for name in VICTIMS
    ], [piece.text for piece in pieces]
    assert all(node.is_alive for node in director.fleet.nodes.values())
