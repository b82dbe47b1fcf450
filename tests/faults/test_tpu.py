"""Faults on slices: their contract, and evidence from the provider and from the learner's life."""

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.tpu import Loss, SpotPreempt, TpuOutage
from tests.contracts.fault_kit import VICTIMS, injection_of
from tests.faults.fault_record import Case, case, each_of
from tests.faults.test_process import Record, alive


def said(record: Record, time_s: float, condition: str, **more: Json) -> Record:
    return record.add(time_s, Kind.PROVIDER_REPORTED, condition=condition, **more)


def lost(record: Record, time_s: float) -> Record:
    """Its host is gone: nobody knows an exit code."""
    return record.add(time_s, Kind.NODE_EXITED, signal=None, exit_code=None, sent=[])


def preempted(*, is_noticed: bool = True) -> Record:
    record = alive(SpotPreempt(notice_s=0.5, grace_s=1.0))
    if is_noticed:
        record.add(10.1, Kind.LEARNER_NOTICED, step=20)
    record.add(10.9, Kind.NODE_EXITED, signal=None, exit_code=0, sent=["SIGHUP", "SIGTERM"])
    return said(record, 11.8, "absent", request="SUSPENDED")


@each_of(
    case(
        "a deleted slice is proved by both witnesses",
        said(lost(alive(TpuOutage()), 10.4), 11.0, "leaving", state="DELETING").probe(15.0, "gone"),
        Code.AS_ASKED,
        proof=[Kind.NODE_EXITED, Kind.PROVIDER_REPORTED],
        provider_after_s=pytest.approx(1.0),
        down_s=pytest.approx(4.6),
    ),
    case(
        "a state that came before the end of the learner counts",
        lost(said(alive(TpuOutage()), 10.1, "leaving"), 10.8).probe(15.0, "gone"),
        Code.AS_ASKED,
    ),
    case(
        "a state that comes too late leaves the cause in doubt",
        lost(alive(TpuOutage()), 10.4),
        Code.DOUBTFUL_CAUSE,
    ),
    case(
        "what was said before the fault is none of its doing",
        lost(
            said(Record(TpuOutage()).add(1.0, Kind.NODE_STARTED), 5.0, "leaving").begin(10.0), 10.4
        ),
        Code.DOUBTFUL_CAUSE,
    ),
    case(
        "a wrong state is no proof",
        lost(said(alive(TpuOutage(how=Loss.STOP)), 10.1, "maintained"), 10.4),
        Code.DOUBTFUL_CAUSE,
    ),
    *(
        case(
            f"{fault.how} is proved by {condition}",
            said(lost(alive(fault), 10.4), 10.5, condition).probe(15.0, "gone"),
            Code.AS_ASKED,
        )
        for fault, condition in (
            (TpuOutage(how=Loss.STOP), "stopped"),
            (TpuOutage(how=Loss.MAINTENANCE), "maintained"),
            (TpuOutage(how=Loss.MAINTENANCE), "coming"),
        )
    ),
    case(
        "the provider's word alone proves nothing",
        said(alive(TpuOutage()), 10.1, "leaving").stepping(11.0, 13.0, 14.9),
        Code.STILL_RUNNING,
    ),
    case(
        "a learner that steps on after it was said to be lost was not lost",
        said(lost(alive(TpuOutage()), 10.4), 10.5, "absent").stepping(13.0),
        Code.STILL_WORKING,
    ),
    case(
        "a crash is no loss of hosts",
        said(alive(TpuOutage()), 10.1, "leaving").add(
            10.4, Kind.NODE_EXITED, signal=None, exit_code=1, sent=[]
        ),
        Code.EXITED_INSTEAD,
    ),
    case(
        "an emulated preemption is called so and proved by notice, exit and provider",
        preempted(),
        Code.AS_ASKED,
        requested={"is_emulated": True},
        left_by_itself=True,
        is_in_grace=True,
    ),
    case("a preemption without its notice is weak", preempted(is_noticed=False), Code.NO_NOTICE),
)
def test_the_record_shows_what_became_of_the_slice(case: Case) -> None:
    case.require()


def test_a_preemption_is_healed_as_one() -> None:
    class Fleet:
        repaired: list[tuple[str, bool]] = []  # noqa: RUF012 - of this test alone

        def repair_slice(self, name: str, *, is_preempted: bool = False) -> None:
            self.repaired.append((name, is_preempted))

        act_on_slices = repair_slice

    for fault, is_preempted in ((SpotPreempt(), True), (TpuOutage(), False)):
        fleet = Fleet()
        fleet.repaired = []
        fault.heal(injection_of(fault), fleet)  # type: ignore[arg-type]  # as much as it calls
        assert fleet.repaired == [(name, is_preempted) for name in VICTIMS]
