"""Fault on machines of a cluster: what its evidence makes of records."""

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.machine import NodeDrain
from chaoslab.fleet.base import NodeSpec, Role
from tests.contracts.fault_kit import injection_of
from tests.contracts.no_fleet import NoFleet
from tests.faults.fault_record import Case, case, each_of
from tests.faults.test_network import Record
from tests.virtual_clock import VirtualClock


def reported(
    record: Record, time_s: float, action: str, reason: str = "", **more: object
) -> Record:
    facts = {"incarnation": 1, "machine": "one", **more}
    return record.add(
        time_s, Kind.ENGINE_REPORTED, node="learner-1", action=action, reason=reason, **facts
    )


def left(record: Record, time_s: float) -> Record:
    return record.add(time_s, Kind.NODE_EXITED, node="learner-1", incarnation=1, exit_code=0,
                      sent=["SIGTERM"])  # fmt: skip


def back(record: Record, time_s: float, machine: str) -> Record:
    reported(record, time_s, "start", incarnation=2, machine=machine)
    return record.add(time_s, Kind.NODE_STARTED, node="learner-1", incarnation=2)


def drained() -> Record:
    record = reported(Record(NodeDrain()), 20.5, "cordon")
    return left(reported(record, 20.6, "evict", "EvictionByEvictionAPI"), 22.0)


def stayed_away(record: Record, *, end_s: float = 30.5) -> Record:
    return record.fault_event(end_s, Kind.FAULT_HEALING)


def evicted(**evicted: object) -> Record:
    record = reported(Record(NodeDrain()), 20.5, "cordon")
    return left(reported(record, 20.6, "evict", **evicted), 22.0)


@each_of(
    case(
        "a drain is proved by the taint, the eviction and another machine",
        stayed_away(back(drained(), 24.0, "two")),
        Code.AS_ASKED,
        cordoned_s=pytest.approx(10.0),
        next_machine="two",
    ),
    case(
        "a node that finds no other machine was drained all the same",
        stayed_away(drained()),
        Code.AS_ASKED,
        next_machine=None,
    ),
    case(
        "without the cluster's word on the taint there was no drain",
        left(reported(Record(NodeDrain()), 20.5, "evict", "EvictionByEvictionAPI"), 22.0),
        Code.NOT_APPLIED,
    ),
    case(
        "without the cluster's word on the eviction there was no drain",
        left(reported(Record(NodeDrain()), 20.5, "cordon"), 22.0),
        Code.NOT_APPLIED,
    ),
    case(
        "the eviction of an earlier pod is not the drain's",
        evicted(reason="EvictionByEvictionAPI", incarnation=0),
        Code.NOT_APPLIED,
    ),
    case(
        "an eviction for another cause is not the drain's",
        evicted(reason="DeletionByTaintManager"),
        Code.NOT_APPLIED,
    ),
    case(
        "a machine that took the node again was not cordoned throughout",
        stayed_away(back(drained(), 24.0, "one")),
        Code.NOT_THROUGHOUT,
    ),
    case(
        "a machine that was uncordoned too soon is weak",
        stayed_away(reported(back(drained(), 24.0, "two"), 25.0, "uncordon")),
        Code.TOO_SHORT,
    ),
    case(
        "a node that runs on was not drained",
        reported(Record(NodeDrain()), 20.5, "cordon"),
        Code.STILL_RUNNING,
    ),
)
def test_the_record_shows_the_drain(case: Case) -> None:
    case.require()


# ---------------------------------------------------------------- what is beside the targets


def test_all_learners_on_the_machine_are_hit_and_never_the_syncer() -> None:
    fault = NodeDrain()
    fleet = NoFleet(VirtualClock())
    for name in ("learner-1", "learner-2", "learner-3"):
        fleet.start(NodeSpec(name=name, role=Role.LEARNER, command=("true",)))
    fleet.start(NodeSpec(name="syncer", role=Role.SYNCER, command=("true",)))
    there = ["learner-1", "learner-2", "learner-3"]
    fleet.beside = lambda *_: there  # type: ignore[method-assign]
    assert fault.all_hit(injection_of(fault), fleet) == ("learner-1", "learner-2", "learner-3")
    there.append("syncer")
    with pytest.raises(FleetError, match="syncer is on the same machine"):
        fault.all_hit(injection_of(fault), fleet)
