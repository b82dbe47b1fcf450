"""How violations, doubts and samples become one finding."""

from collections.abc import Callable

import pytest

from chaoslab.checks.base import Outcome, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.violations import (
    Counted,
    Doubt,
    Measured,
    Violation,
    conclude,
    margin_above,
    margin_below,
)

DOUBT = Doubt(Code.NO_FAULT, "d")


def violation(seq: int, culprit: str) -> Violation:
    return Violation(code=Code.TOKEN_LOST, seq=seq, text=f"{culprit} did {seq}", culprit=culprit)


def test_a_violation_beats_a_doubt_and_a_doubt_beats_a_pass() -> None:
    one = [violation(3, "learner-1")]
    assert conclude("c", [*one, DOUBT], passed="p", samples=1).outcome is Outcome.FAIL
    assert conclude("c", [DOUBT], passed="p", samples=1).outcome is Outcome.UNKNOWN
    assert conclude("c", [], passed="p", samples=1).outcome is Outcome.PASS


def test_a_finding_names_each_culprit_and_every_violation() -> None:
    found = conclude(
        "c",
        [violation(9, "b"), violation(4, "a"), violation(7, "a"), violation(5, "b")],
        passed="p",
        samples=4,
    )
    assert (found.culprits, found.evidence, found.observed) == (("a", "b"), (4, 5, 7, 9), 4)


def test_what_is_the_same_of_several_culprits_is_said_once_and_counted() -> None:
    late = [
        Violation(code=Code.TOO_LATE, seq=seq, text=f"{name} was late", culprit=name)
        for seq, name in enumerate("abcda")
    ]
    lost = Violation(code=Code.PUSH_LOST, seq=9, text="a push was lost")
    found = conclude("c", [*late, lost], passed="p", samples=6)
    assert found.reason == "a, b, c, d each was late; a push was lost (and 1 more)"


def test_a_finding_has_each_code_once_in_the_order_of_the_record() -> None:
    late = Violation(code=Code.PUSH_LOST, seq=9, text="lost")
    found = conclude("c", [late, violation(4, "a"), violation(7, "b")], passed="p", samples=3)
    assert found.codes == (Code.TOKEN_LOST, Code.PUSH_LOST)
    assert conclude("c", [DOUBT, DOUBT], passed="p", samples=3).codes == (DOUBT.code,)
    assert conclude("c", [], passed="p", samples=0).codes == (Code.NOTHING_TO_JUDGE,)
    assert conclude("c", [], passed="p", samples=3).codes == ()


def test_a_finding_shows_the_number_that_was_violated_and_not_one_that_was_kept() -> None:
    kept, broken = Measured(3.2, 60.0, Unit.SECONDS), Measured(61.0, 60.0, Unit.SECONDS)
    few = Violation(
        code=Code.TOO_FEW_CONTRIBUTIONS, seq=4, text="few", counted=Counted(2, 3, "contributions")
    )
    for found, measured, shown in (
        ([few], kept, (2, 3, "contributions")),
        ([violation(3, "a"), few], kept, (2, 3, "contributions")),
        ([violation(3, "a")], kept, (1, 0, Unit.VIOLATIONS)),
        ([few], broken, (61.0, 60.0, Unit.SECONDS)),
        ([], kept, (3.2, 60.0, Unit.SECONDS)),
        ([DOUBT], kept, (3.2, 60.0, Unit.SECONDS)),
    ):
        one = conclude("c", found, passed="p", samples=1, measured=measured)
        assert (one.observed, one.bound, one.unit) == shown
        assert (one.margin is None) is (one.best is None) is (shown[2] != Unit.SECONDS)


@pytest.mark.parametrize(
    ("margin", "observed", "bound", "best", "share"),
    [
        (margin_below, 1.0, 4.0, 0.0, 0.75),
        (margin_below, 6.0, 4.0, 0.0, -0.5),
        (margin_below, 1.01, 1.05, 1.0, 0.8),
        (margin_below, 1.1, 1.05, 1.0, -1.0),
        (margin_above, 0.95, 0.8, 1.0, 0.75),
        (margin_above, 0.5, 0.8, 1.0, -1.5),
        (margin_above, 0.9, 1.1, 1.0, -2.0),
    ],
)
def test_a_margin_is_one_at_the_best_zero_at_the_bound_and_negative_beyond_it(
    margin: Callable[[float, float, float], float | None], observed: float, bound: float,
    best: float, share: float,
) -> None:  # fmt: skip
    assert margin(observed, bound, best) == pytest.approx(share)
    assert margin(bound, bound, best) == 0.0
    assert margin(observed, best, best) is None
