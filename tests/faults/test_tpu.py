"""Faults on slices: their contract, and evidence from the provider and from the learner's life."""

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.tpu import SpotPreempt, TpuDelete, TpuMaintenance, TpuStop
from tests.contracts.fault_kit import VICTIMS, injection_of
from tests.faults.test_process import Record, alive


def said(record: Record, time_s: float, condition: str, **more: Json) -> Record:
    return record.add(time_s, Kind.PROVIDER_REPORTED, condition=condition, **more)


def lost(record: Record, time_s: float) -> Record:
    """Its host is gone: nobody knows an exit code."""
    return record.add(time_s, Kind.NODE_EXITED, signal=None, exit_code=None, sent=[])


def evidence(record: Record) -> Evidence:
    """Five seconds after the fault began, when its target is looked at for the last time."""
    return record.probe(15.0, "gone").evidence


def test_a_deleted_slice_is_proved_by_both_witnesses() -> None:
    record = said(lost(alive(TpuDelete()), 10.4), 11.0, "leaving", state="DELETING")
    found = evidence(record)
    assert found.status is Status.PROVED
    assert found.measured["provider_after_s"] == pytest.approx(1.0)
    assert found.measured["down_s"] == pytest.approx(4.6)
    kinds = [record.history.events[seq].kind for seq in found.proof]
    assert kinds == [Kind.NODE_EXITED, Kind.PROVIDER_REPORTED]


def test_a_state_that_came_before_the_end_of_the_learner_counts() -> None:
    assert evidence(lost(said(alive(TpuDelete()), 10.1, "leaving"), 10.8)).status is Status.PROVED


def test_a_state_that_comes_too_late_leaves_the_cause_in_doubt() -> None:
    found = lost(alive(TpuDelete()), 10.4).evidence
    assert (found.code, found.status) == (Code.DOUBTFUL_CAUSE, Status.WEAK)


def test_the_providers_word_alone_proves_nothing() -> None:
    found = said(alive(TpuDelete()), 10.1, "leaving").stepping(11.0, 13.0, 14.9).evidence
    assert (found.code, found.status) == (Code.STILL_RUNNING, Status.FAILED)


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            lost(said(alive(TpuStop()), 10.1, "maintained"), 10.4),
            Code.DOUBTFUL_CAUSE,
            id="a wrong state is no proof",
        ),
        pytest.param(
            said(lost(alive(TpuDelete()), 10.4), 10.5, "absent").stepping(13.0),
            Code.STILL_WORKING,
            id="a learner that steps on after it was said to be lost was not lost",
        ),
        pytest.param(
            said(alive(TpuDelete()), 10.1, "leaving").add(
                10.4, Kind.NODE_EXITED, signal=None, exit_code=1, sent=[]
            ),
            Code.EXITED_INSTEAD,
            id="a crash is no loss of hosts",
        ),
    ],
)
def test_the_record_shows_what_became_of_the_slice(record: Record, shown: Code) -> None:
    assert record.evidence.code is shown


def test_what_was_said_before_the_fault_is_none_of_its_doing() -> None:
    record = Record(TpuDelete()).add(1.0, Kind.NODE_STARTED)
    found = lost(said(record, 5.0, "leaving").begin(10.0), 10.4).evidence
    assert found.code is Code.DOUBTFUL_CAUSE


@pytest.mark.parametrize(
    ("fault", "condition"),
    [(TpuStop(), "stopped"), (TpuMaintenance(), "maintained"), (TpuMaintenance(), "coming")],
)
def test_each_has_states_of_its_own(fault: Fault, condition: str) -> None:
    assert evidence(said(lost(alive(fault), 10.4), 10.5, condition)).status is Status.PROVED


# ---------------------------------------------------------------- preemption


def preempted(*, is_noticed: bool = True) -> Record:
    record = alive(SpotPreempt(notice_s=0.5, grace_s=1.0))
    if is_noticed:
        record.add(10.1, Kind.LEARNER_NOTICED, step=20)
    record.add(10.9, Kind.NODE_EXITED, signal=None, exit_code=0, sent=["SIGHUP", "SIGTERM"])
    return said(record, 11.8, "absent", request="SUSPENDED")


def test_an_emulated_preemption_is_called_so_and_proved_by_notice_exit_and_provider() -> None:
    found = preempted().evidence
    assert found.status is Status.PROVED
    assert found.requested["is_emulated"] is True
    assert (found.measured["left_by_itself"], found.measured["is_in_grace"]) == (True, True)


def test_a_preemption_without_its_notice_is_weak() -> None:
    assert preempted(is_noticed=False).evidence.code is Code.NO_NOTICE


def test_a_preemption_is_healed_as_one() -> None:
    class Fleet:
        repaired: list[tuple[str, bool]] = []  # noqa: RUF012 - of this test alone

        def repair_slice(self, name: str, *, is_preempted: bool = False) -> None:
            self.repaired.append((name, is_preempted))

        delete_slice = take_slice = stop_slice = maintain_slice = repair_slice

    for fault, is_preempted in ((SpotPreempt(), True), (TpuDelete(), False)):
        fleet = Fleet()
        fleet.repaired = []
        fault.heal(injection_of(fault), fleet)  # type: ignore[arg-type]  # as much as it calls
        assert fleet.repaired == [(name, is_preempted) for name in VICTIMS]
