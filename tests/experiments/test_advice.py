"""Advice: what it chooses and why, how it changes with failures and links, and what is refused."""

from dataclasses import replace
from functools import cache

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.experiments.advice import MOST_LEARNERS, Question, advise, to_json
from chaoslab.sim.renewal.failure_models import YEAR_S, FailureModel
from chaoslab.sim.timeline.training import GBIT

QUESTION = Question(
    chips=200_000, model=FailureModel(mtbi_s=YEAR_S, source="a test"),
    rate_bytes_per_s=1000 * GBIT, parameters=12 * 10**9, step_s=4.0, seeds=1,
)  # fmt: skip
FOUR_SLICES = replace(QUESTION, chips=1024)
"""Enough for four learners."""
advised = cache(advise)


def test_most_goodput_of_the_allowed_learners_and_the_published_rounds_on_a_wide_link() -> None:
    advice = advised(QUESTION)
    assert advice.learners.learners == MOST_LEARNERS == 8
    assert advice.learners.goodput == pytest.approx(0.975, abs=0.005)
    assert advice.learners.goodput_faster_failures < advice.learners.goodput - 0.03
    goodputs = [one.goodput for one in advice.by_learners]
    assert goodputs == sorted(goodputs)
    rounds = advice.pace.rounds
    assert (rounds.sync_every, rounds.overlap, rounds.fragments, rounds.bits) == (24, 2, 24, 16)
    assert advice.keeps_pace
    assert {one.score for one in advice.by_learners if one.learners in (8, 16)} == {55.4, 53.4}


def test_uptime_falls_with_the_quorum() -> None:
    advice = advised(QUESTION)
    assert [one.quorum for one in advice.by_quorum] == [1, 4, 6, 8]
    uptimes = [one.uptime for one in advice.by_quorum]
    assert uptimes == sorted(uptimes, reverse=True)
    assert uptimes[0] == 1
    assert uptimes[-1] < 0.9


def test_a_thinner_link_asks_for_a_longer_period() -> None:
    thin = advised(replace(FOUR_SLICES, rate_bytes_per_s=1.5 * GBIT))
    assert thin.keeps_pace
    assert thin.pace.rounds.sync_every > 24
    assert thin.pace.made >= 0.99
    assert thin.least_bytes_per_s <= 1.5 * GBIT


def test_a_link_that_is_too_thin_is_said_to_be() -> None:
    hopeless = advised(replace(FOUR_SLICES, rate_bytes_per_s=0.01 * GBIT))
    assert not hopeless.keeps_pace
    assert hopeless.pace.made < 0.5
    assert hopeless.at_thinner_link is None
    assert hopeless.least_bytes_per_s > 0.01 * GBIT


def test_there_are_no_more_learners_than_slices_or_than_are_allowed() -> None:
    assert advised(FOUR_SLICES).learners.learners == 4
    assert advised(replace(FOUR_SLICES, most_learners=2)).learners.learners == 2


def test_every_simulation_is_counted_and_equal_questions_have_equal_answers() -> None:
    seen: list[tuple[int, int]] = []
    again = advise(FOUR_SLICES, on_progress=lambda done, every: seen.append((done, every)))
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] == len(seen) - 1
    assert to_json(again) == to_json(advised(FOUR_SLICES))


def test_too_few_chips_are_refused() -> None:
    with pytest.raises(PlanError, match="chips"):
        replace(QUESTION, chips=300)
