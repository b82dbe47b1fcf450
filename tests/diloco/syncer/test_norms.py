"""What is usual is learnt from honest pushes, and only what is far beyond it is bounded."""

import math
from collections.abc import Sequence

import pytest

from chaoslab.diloco.syncer.norms import Excess, Norms, Size, round_median


def norms(limit: float | None = 8.0, rounds_min: int = 4) -> Norms:
    return Norms(limit=limit, rounds_min=rounds_min)


def sizes(*per_step: float, steps: int = 24) -> list[Size]:
    return [Size(norm=one * math.sqrt(steps), steps=steps) for one in per_step]


def taught(*, rounds: int = 4, limit: float | None = 8.0) -> Norms:
    """Four learners pushed 1.0 a step for a few rounds."""
    known = norms(limit)
    for _ in range(rounds):
        assert known.judge(0, sizes(1.0, 0.9, 1.1, 1.0)) == [None] * 4
    return known


def bounded(found: Sequence[Excess | None]) -> list[bool]:
    return [one is not None for one in found]


USUAL = math.sqrt(24)
"""Norm of 24 steps of the usual size."""


@pytest.mark.parametrize(
    ("known", "pushes", "expected"),
    [
        (taught(), sizes(7.9, 8.1, 1.0, 1.0), [False, True, False, False]),
        (taught(), [Size(norm=10 * USUAL, steps=240)], [False]),
        (taught(), [Size(norm=1.0, steps=1)], [False]),
        (taught(limit=None), sizes(1e9, 1.0), [False, False]),
        (norms(), sizes(1e9, 1.0, 30.0), [True, False, False]),
        (norms(), sizes(1e9, 1.0), [True, False]),
        (norms(), sizes(1e9), [False]),
    ],
    ids=[
        "just within and beyond the limit", "straight ahead for ten times as long", "one step",
        "no limit", "absurd without a past", "absurd, of two", "alone without a past",
    ],
)  # fmt: skip
def test_only_what_is_far_beyond_the_usual_is_bounded(
    known: Norms, pushes: list[Size], expected: list[bool]
) -> None:
    assert bounded(known.judge(0, pushes)) == expected


@pytest.mark.parametrize("others", [(), (1.0, 1.0)], ids=["alone", "among others"])
def test_one_learner_cannot_make_its_own_size_usual(others: tuple[float, ...]) -> None:
    known = taught()
    for _ in range(100):
        assert bounded(known.judge(0, sizes(1000.0, *others))) == [True, *(False for _ in others)]
    assert known.usual(0) == pytest.approx(1.0)


def test_one_learner_alone_may_grow_within_the_limit() -> None:
    known = taught()
    grown = [1.0 * 1.2**round_ for round_ in range(40)]
    assert not any(any(bounded(known.judge(0, sizes(one)))) for one in grown)


def test_what_all_learners_share_becomes_usual() -> None:
    known = taught()
    raised = [any(bounded(known.judge(0, sizes(20.0, 21.0, 19.0)))) for _ in range(20)]
    assert raised[0]
    assert not raised[-1]


def test_each_fragment_has_a_usual_of_its_own() -> None:
    known = taught()
    for _ in range(4):
        known.judge(1, sizes(100.0, 100.0))
    assert not any(bounded(known.judge(1, sizes(100.0, 100.0))))
    assert any(bounded(known.judge(0, sizes(100.0, 1.0))))


@pytest.mark.parametrize("learners", [1, 2, 4, 64])
@pytest.mark.parametrize("warmup", [1, 50, 2000])
def test_a_learning_rate_that_warms_up_is_never_bounded(learners: int, warmup: int) -> None:
    """Drift straight ahead by the learning rate of each step, from a staggered first round on."""
    for offset in (2, 4, 12, 24):
        known = norms(rounds_min=8)
        begin, end = 0, offset
        for _ in range(60):
            drift = sum(min(1.0, (step + 1) / warmup) for step in range(begin, end))
            pushes = [
                Size(norm=drift * (0.7 + 0.6 * one / learners), steps=end - begin)
                for one in range(learners)
            ]
            assert not any(bounded(known.judge(0, pushes)))
            begin, end = end, end + 24


def test_updates_of_nothing_teach_nothing() -> None:
    known = norms()
    for _ in range(10):
        assert known.judge(0, sizes(0.0, 0.0)) == [None, None]
    assert known.usual(0) is None
    assert known.judge(0, []) == []


def test_what_was_written_down_is_known_again() -> None:
    known = norms()
    for _ in range(4):
        known.learn(0, round_median(sizes(1.0, 0.9, 1.1), [None] * 3))
    known.learn(0, 0.0)
    assert known.usual(0) == pytest.approx(1.0)
    assert bounded(known.judge(0, sizes(9.0))) == [True]
