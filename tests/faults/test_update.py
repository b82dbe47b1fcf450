"""Faults on updates: their contract, and what the record must show of each."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json, Kind
from chaoslab.core.protocol import Corruption
from chaoslab.faults.base import Fault, variants
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.update import UpdateTamper
from tests.faults.fault_record import Case, case, each_of
from tests.faults.test_process import Record

SCALED, STALE, DUPLICATE = Corruption.SCALED, Corruption.STALE, Corruption.DUPLICATE
ALL = (*variants(UpdateTamper()),)

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

    def merged(self, time_s: float, round_: int, cosine: float | None) -> "Pushes":
        """A round with its push, and that of another learner."""
        work: dict[str, Json] = {
            "incarnation": 1, "epoch": 1, "step": 4, "c_steps": 4, "c_tokens": 4.0, "weight": 1.0,
            "tokens_from": 0.0, "tokens_to": 4.0, "cosine": cosine,
        }  # fmt: skip
        parts: list[Json] = [{"learner": who, **work} for who in (self.target, "other")]
        self.add(
            time_s, Kind.ROUND_MERGED, source="syncer", round=round_, fragment=0,
            contributors=parts,
        )  # fmt: skip
        return self

    def tampered(self, time_s: float, *rounds: int) -> "Pushes":
        for round_ in rounds:
            about: dict[str, Json] = {"round": round_, "fragment": 0}
            self.add(time_s, Kind.LEARNER_PUSHED, base_version=round_ - 1, **about)
            self.add(time_s, Kind.UPDATE_TAMPERED, how="nan", factor=None, **about)
        return self


def calm(fault: Fault) -> Pushes:
    """Pushes of norm 2 in rounds 1 to 9, then the fault begins at second 10."""
    record = Pushes(fault)
    record.add(1.0, Kind.NODE_STARTED)
    for round_ in range(1, 10):
        record.accepted(float(round_), round_)
    record.begin(10.0)
    return record


def turned(factor: float, *cosines: float | None, before: float | None = 0.2) -> Pushes:
    """Pushes as large as before, merged with these cosines."""
    record = Pushes(UpdateTamper(how=SCALED, factor=factor))
    record.add(1.0, Kind.NODE_STARTED)
    for round_ in range(1, 10):
        record.accepted(float(round_), round_).merged(round_ + 0.5, round_, before)
    rounds = range(11, 11 + len(cosines))
    record.begin(10.0)
    record.tampered(11.0, *rounds)
    for round_, cosine in zip(rounds, cosines, strict=True):
        record.accepted(12.0, round_, norm=2.0 * abs(factor)).merged(12.5, round_, cosine)
    return record


GREW = calm(UpdateTamper(how=SCALED, factor=100.0)).tampered(11.0, 11, 12)
GREW.accepted(11.1, 11, norm=190.0).accepted(11.2, 12, norm=420.0, c_steps=16).add(
    11.3, Kind.PUSH_BOUNDED, source="syncer", limit=8.0, round=11, fragment=0, norm=190.0,
    usual=2.0,
)  # fmt: skip
UNUSUAL = Pushes(UpdateTamper(how=SCALED))
UNUSUAL.add(1.0, Kind.NODE_STARTED).begin(10.0)


@each_of(
    case(
        "a nan is proved by the syncer's refusals",
        calm(UpdateTamper())
        .tampered(11.0, 11, 12)
        .rejected(11.1, 11, "not_finite")
        .rejected(11.2, 12, "not_finite"),
        Code.AS_ASKED,
        tampered=2,
        refused=2,
        taken=0,
    ),
    case(
        "a syncer that takes a nan does not unprove it",
        calm(UpdateTamper()).tampered(11.0, 11).accepted(11.1, 11, norm="NaN"),
        Code.AS_ASKED,
        taken=1,
    ),
    case(
        "a nan that the syncer took for a sound push is failed",
        calm(UpdateTamper()).tampered(11.0, 11).accepted(11.1, 11),
        Code.NO_EFFECT,
    ),
    case(
        "a nan that arrived in few of the pushes is weak",
        calm(UpdateTamper()).tampered(11.0, 11, 12, 13, 14, 15).rejected(11.1, 11, "not_finite"),
        Code.NOT_THROUGHOUT,
    ),
    case(
        "a scaled update is measured by its norm at the syncer",
        GREW,
        Code.AS_ASKED,
        factor=pytest.approx(100.0),
        tampered=2,
        bounded=1,
    ),
    case(
        "an update that grew less than asked is weak",
        calm(UpdateTamper(how=SCALED, factor=100.0))
        .tampered(11.0, 11)
        .accepted(11.1, 11, norm=20.0),
        Code.OUT_OF_TOLERANCE,
    ),
    *(
        case(
            f"a factor of {factor} is not proved by updates as large as before",
            calm(UpdateTamper(how=SCALED, factor=factor))
            .tampered(11.0, 11)
            .accepted(11.1, 11, norm=2.0),
            Code.OUT_OF_TOLERANCE,
        )
        for factor in (2.0, 1.5, 0.6, -1.9)
    ),
    case(
        "an update that is turned round is proved by its direction",
        turned(-1.0, -0.2, -0.1, -0.3),
        Code.AS_ASKED,
        factor=pytest.approx(-1.0),
        tampered=3,
        bounded=0,
    ),
    case(
        "one that is turned and longer is proved by both",
        turned(-3.0, -0.2, -0.1),
        Code.AS_ASKED,
        factor=pytest.approx(-3.0),
    ),
    case(
        "one that points where it did is not turned",
        turned(-1.0, 0.2, 0.1, 0.3),
        Code.OUT_OF_TOLERANCE,
        factor=pytest.approx(1.0),
    ),
    case(
        "one that is longer and points where it did is not turned",
        turned(-3.0, 0.2, 0.1, 0.3),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "one that is longer and was not to be turned, and is",
        turned(3.0, -0.2, -0.1, -0.3),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "without directions on record nothing shows that it is turned",
        turned(-1.0, None, None, before=None),
        Code.NOT_MEASURED,
        factor=pytest.approx(1.0),
    ),
    case(
        "of updates that had nothing in common before, nothing does either",
        turned(-1.0, -0.2, before=-0.01),
        Code.NOT_MEASURED,
    ),
    case(
        "a negative factor is proved by the size alone where directions are not known",
        turned(-3.0, None, before=None),
        Code.AS_ASKED,
        factor=pytest.approx(3.0),
    ),
    case(
        "an update beyond all measure is proved by its refusal",
        calm(UpdateTamper(how=SCALED, factor=1e30))
        .tampered(11.0, 11)
        .rejected(11.1, 11, "malformed"),
        Code.AS_ASKED,
    ),
    case(
        "a scaled update without a usual one before it is failed",
        UNUSUAL.tampered(11.0, 11).accepted(11.1, 11, norm=2000.0),
        Code.NO_EFFECT,
    ),
    case(
        "a stale update is proved by its refusal or by the version it was taken for",
        calm(UpdateTamper(how=STALE))
        .tampered(11.0, 11, 12)
        .rejected(11.1, 11, "stale")
        .accepted(11.2, 12, base_version=3),
        Code.AS_ASKED,
        refused=1,
        taken=1,
    ),
    case(
        "a current update is no stale one",
        calm(UpdateTamper(how=STALE)).tampered(11.0, 11).accepted(11.1, 11, base_version=10),
        Code.NO_EFFECT,
    ),
    *(
        case(
            f"a duplicate is proved by a second answer: {reason}",
            calm(UpdateTamper(how=DUPLICATE))
            .tampered(11.0, 11)
            .accepted(11.1, 11)
            .rejected(11.2, 11, reason),
            Code.AS_ASKED,
        )
        for reason in ("late", "replay")
    ),
    case(
        "one answer to a push is no duplicate",
        calm(UpdateTamper(how=DUPLICATE)).tampered(11.0, 11).accepted(11.1, 11),
        Code.NO_EFFECT,
    ),
    case(
        "two answers that took it are",
        calm(UpdateTamper(how=DUPLICATE)).tampered(11.0, 11).accepted(11.1, 11).accepted(11.2, 11),
        Code.AS_ASKED,
    ),
    case(
        "a push that was late by itself is no duplicate",
        calm(UpdateTamper(how=DUPLICATE)).tampered(11.0, 11).rejected(11.1, 11, "late"),
        Code.NO_EFFECT,
    ),
    case(
        "a push that was late twice is",
        calm(UpdateTamper(how=DUPLICATE))
        .tampered(11.0, 11)
        .rejected(11.1, 11, "late")
        .rejected(11.2, 11, "late"),
        Code.AS_ASKED,
    ),
)
def test_the_record_shows_what_became_of_the_update(case: Case) -> None:
    case.require()


@pytest.mark.parametrize("fault", ALL, ids=str)
def test_refusals_of_pushes_that_nobody_spoilt_prove_nothing(fault: Fault) -> None:
    record = calm(fault)
    for reason in ("not_finite", "stale", "late", "malformed"):
        record.rejected(11.0, 11, reason)
    assert record.evidence.code is Code.NO_PUSH


@pytest.mark.parametrize("factor", [0.0, 1.0, float("nan"), float("inf")])
def test_a_factor_that_scales_nothing_is_refused(factor: float) -> None:
    with pytest.raises(PlanError, match="1000"):
        UpdateTamper(how=SCALED, factor=factor)
