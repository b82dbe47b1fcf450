"""Faults on updates: their contract, and what the record must show of each."""

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.update import UpdateDuplicate, UpdateNan, UpdateScaled, UpdateStale
from tests.faults.test_process import Record

ALL: tuple[Fault, ...] = (UpdateNan(), UpdateScaled(), UpdateStale(), UpdateDuplicate())


# ---------------------------------------------------------------- evidence from written records


class Pushes(Record):
    """A learner that pushes a fragment in every round, and a syncer that answers."""

    def accepted(self, time_s: float, round_: int, *, norm: Json = 2.0, **data: Json) -> "Pushes":
        where: dict[str, Json] = {"round": round_, "fragment": 0, "c_steps": 4, "norm": norm}
        self.add(time_s, Kind.PUSH_ACCEPTED, source="syncer", **{**where, **data})
        return self

    def rejected(self, time_s: float, round_: int, reason: str) -> "Pushes":
        where: dict[str, Json] = {"round": round_, "fragment": 0, "reason": reason}
        self.add(time_s, Kind.PUSH_REJECTED, source="syncer", **where)
        return self

    def spoilt(self, time_s: float, *rounds: int) -> "Pushes":
        for round_ in rounds:
            about: dict[str, Json] = {"round": round_, "fragment": 0}
            self.add(time_s, Kind.LEARNER_PUSHED, base_version=round_ - 1, **about)
            self.add(time_s, Kind.UPDATE_TAMPERED, how="something", factor=None, **about)
        return self


def calm(fault: Fault) -> Pushes:
    """Pushes of norm 2 in rounds 1 to 9, then the fault begins at second 10."""
    record = Pushes(fault)
    record.add(1.0, Kind.NODE_STARTED)
    for round_ in range(1, 10):
        record.accepted(float(round_), round_)
    record.begin(10.0)
    return record


def test_a_nan_is_proved_by_the_syncers_refusals() -> None:
    record = calm(UpdateNan()).spoilt(11.0, 11, 12)
    record.rejected(11.1, 11, "not_finite").rejected(11.2, 12, "not_finite")
    found = record.evidence
    assert found.status is Status.PROVED
    assert found.measured == {"spoilt": 2, "refused": 2, "taken": 0}


def test_a_syncer_that_takes_a_nan_does_not_unprove_it() -> None:
    record = calm(UpdateNan()).spoilt(11.0, 11).accepted(11.1, 11, norm="NaN")
    assert (record.evidence.status, record.evidence.measured["taken"]) == (Status.PROVED, 1)


@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_refusals_of_pushes_that_nobody_spoilt_prove_nothing(fault: Fault) -> None:
    record = calm(fault)
    for reason in ("not_finite", "stale", "late", "malformed"):
        record.rejected(11.0, 11, reason)
    assert record.evidence.code is Code.NO_PUSH


def test_a_scaled_update_is_measured_by_its_norm_at_the_syncer() -> None:
    record = calm(UpdateScaled(factor=100.0)).spoilt(11.0, 11, 12)
    record.accepted(11.1, 11, norm=190.0).accepted(11.2, 12, norm=420.0, c_steps=16)
    about: dict[str, Json] = {"round": 11, "fragment": 0, "norm": 190.0, "usual": 2.0}
    record.add(11.3, Kind.PUSH_BOUNDED, source="syncer", limit=8.0, **about)
    found = record.evidence
    assert (found.status, found.measured["factor"]) == (Status.PROVED, pytest.approx(100.0))
    assert (found.measured["spoilt"], found.measured["bounded"]) == (2, 1)


@pytest.mark.parametrize("factor", [2.0, 1.5, 0.6, -1.9])
def test_a_small_factor_is_not_proved_by_updates_as_large_as_before(factor: float) -> None:
    record = calm(UpdateScaled(factor=factor)).spoilt(11.0, 11).accepted(11.1, 11, norm=2.0)
    assert record.evidence.code is Code.OUT_OF_TOLERANCE


def test_a_stale_update_is_proved_by_its_refusal_or_by_the_version_it_was_taken_for() -> None:
    record = calm(UpdateStale()).spoilt(11.0, 11, 12)
    record.rejected(11.1, 11, "stale").accepted(11.2, 12, base_version=3)
    found = record.evidence
    assert (found.status, found.measured["refused"], found.measured["taken"]) == (
        Status.PROVED, 1, 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            calm(UpdateNan()).spoilt(11.0, 11).accepted(11.1, 11),
            Code.NO_EFFECT,
            id="a nan that the syncer took for a sound push is failed",
        ),
        pytest.param(
            calm(UpdateNan()).spoilt(11.0, 11, 12, 13, 14, 15).rejected(11.1, 11, "not_finite"),
            Code.NOT_THROUGHOUT,
            id="a nan that arrived in few of the pushes is weak",
        ),
        pytest.param(
            calm(UpdateScaled(factor=100.0)).spoilt(11.0, 11).accepted(11.1, 11, norm=20.0),
            Code.OUT_OF_TOLERANCE,
            id="an update that grew less than asked is weak",
        ),
        pytest.param(
            calm(UpdateScaled(factor=1e30)).spoilt(11.0, 11).rejected(11.1, 11, "malformed"),
            Status.PROVED,
            id="an update beyond all measure is proved by its refusal",
        ),
        pytest.param(
            Pushes(UpdateScaled())
            .add(1.0, Kind.NODE_STARTED)
            .begin(10.0)
            .spoilt(11.0, 11)
            .accepted(11.1, 11, norm=2000.0),
            Code.NO_EFFECT,
            id="a scaled update without a usual one before it is failed",
        ),
        pytest.param(
            calm(UpdateStale()).spoilt(11.0, 11).accepted(11.1, 11, base_version=10),
            Code.NO_EFFECT,
            id="a current update is no stale one",
        ),
    ],
)
def test_the_record_shows_what_became_of_the_update(record: Pushes, shown: Code | Status) -> None:
    assert shown in (record.evidence.code, record.evidence.status)


@pytest.mark.parametrize("reason", ["late", "replay"])
def test_a_duplicate_is_proved_by_the_second_answer(reason: str) -> None:
    record = calm(UpdateDuplicate()).spoilt(11.0, 11)
    record.accepted(11.1, 11).rejected(11.2, 11, reason)
    assert record.evidence.status is Status.PROVED


def test_one_answer_to_a_push_is_no_duplicate_and_two_that_took_it_are() -> None:
    record = calm(UpdateDuplicate()).spoilt(11.0, 11).accepted(11.1, 11)
    assert record.evidence.code is Code.NO_EFFECT
    assert record.accepted(11.2, 11).evidence.status is Status.PROVED


def test_a_push_that_was_late_by_itself_is_no_duplicate() -> None:
    record = calm(UpdateDuplicate()).spoilt(11.0, 11).rejected(11.1, 11, "late")
    assert record.evidence.code is Code.NO_EFFECT
    assert record.rejected(11.2, 11, "late").evidence.status is Status.PROVED
