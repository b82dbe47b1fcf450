"""Faults on machines of a cluster: the kit, and what their evidence makes of records."""

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.machine import NodeDrain, NodeStop
from chaoslab.fleet.base import NodeSpec, Role
from tests.contracts.fault_kit import injection_of
from tests.contracts.no_fleet import NoFleet
from tests.faults.test_network import Record
from tests.virtual_clock import VirtualClock


def reported(
    record: Record, time_s: float, action: str, reason: str = "", **more: object
) -> Record:
    facts = {"incarnation": 1, "at_s": 0.0, "machine": "one", **more}
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


def test_a_drain_is_proved_by_the_taint_the_eviction_and_another_machine() -> None:
    evidence = back(drained(), 24.0, "two").fault_event(30.5, Kind.FAULT_HEALING).evidence
    assert evidence.status is Status.PROVED
    assert "(EvictionByEvictionAPI, by the cluster's word) from one" in evidence.text
    assert evidence.measured["cordoned_s"] == pytest.approx(10.0)
    assert evidence.measured["next_machine"] == "two"


def test_a_node_that_finds_no_other_machine_was_drained_all_the_same() -> None:
    evidence = drained().fault_event(30.5, Kind.FAULT_HEALING).evidence
    assert evidence.status is Status.PROVED
    assert evidence.measured["next_machine"] is None


@pytest.mark.parametrize("missing", ["cordon", "evict"])
def test_without_the_clusters_word_there_was_no_drain(missing: str) -> None:
    record = Record(NodeDrain())
    for action in {"cordon", "evict"} - {missing}:
        reported(record, 20.5, action)
    assert left(record, 22.0).evidence.code is Code.NOT_APPLIED


def test_the_eviction_of_an_earlier_pod_or_for_another_cause_is_not_the_drains() -> None:
    for reason, incarnation in (("EvictionByEvictionAPI", 0), ("DeletionByTaintManager", 1)):
        record = reported(Record(NodeDrain()), 20.5, "cordon")
        reported(record, 20.6, "evict", reason, incarnation=incarnation)
        assert left(record, 22.0).evidence.code is Code.NOT_APPLIED


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            back(drained(), 24.0, "one").fault_event(30.5, Kind.FAULT_HEALING),
            Code.NOT_THROUGHOUT,
            id="a machine that took the node again was not cordoned throughout",
        ),
        pytest.param(
            reported(back(drained(), 24.0, "two"), 25.0, "uncordon").fault_event(
                30.5, Kind.FAULT_HEALING
            ),
            Code.TOO_SHORT,
            id="a machine that was uncordoned too soon is weak",
        ),
        pytest.param(
            reported(Record(NodeDrain()), 20.5, "cordon"),
            Code.STILL_RUNNING,
            id="a node that runs on was not drained",
        ),
    ],
)
def test_the_record_shows_the_drain(record: Record, shown: Code) -> None:
    assert record.evidence.code is shown


# ---------------------------------------------------------------- kubelets


def silent(for_s: float = 60.0) -> Record:
    return reported(Record(NodeStop(), for_s=for_s), 40.0, "silent")


def test_a_stopped_kubelet_is_proved_by_its_lease_and_its_condition() -> None:
    record = reported(silent(), 72.0, "not_ready", "NodeStatusUnknown")
    evidence = record.fault_event(80.5, Kind.FAULT_HEALING).evidence
    assert (evidence.status, evidence.measured["silent_s"]) == (Status.PROVED, pytest.approx(60.5))


def test_a_short_stop_is_proved_by_the_lease_alone() -> None:
    evidence = silent(30.0).fault_event(50.5, Kind.FAULT_HEALING).evidence
    assert evidence.status is Status.PROVED
    assert evidence.measured["not_ready_after_s"] is None


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            Record(NodeStop()).fault_event(80.5, Kind.FAULT_HEALING),
            Code.NOT_STOPPED,
            id="a lease that is renewed shows no stop",
        ),
        pytest.param(
            reported(silent(), 50.0, "renewed").fault_event(80.5, Kind.FAULT_HEALING),
            Code.NOT_THROUGHOUT,
            id="a kubelet that went on meanwhile is weak",
        ),
        pytest.param(
            left(silent(), 45.0), Code.EXITED_INSTEAD, id="a node that ended did not run on"
        ),
    ],
)
def test_the_record_shows_the_stop(record: Record, shown: Code) -> None:
    assert record.evidence.code is shown


# ---------------------------------------------------------------- what is beside the targets


@pytest.mark.parametrize("fault", [NodeDrain(), NodeStop()], ids=lambda fault: fault.name)
def test_all_learners_on_the_machine_are_hit_and_never_the_syncer(
    fault: NodeDrain | NodeStop,
) -> None:
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
