"""Advice: what it chooses and why, how it changes with failures and links, and what is refused."""

from dataclasses import replace

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.experiments.advice import MOST_LEARNERS, Question, advise, to_json
from chaoslab.sim.renewal.failure_models import YEAR_S, FailureModel
from chaoslab.sim.timeline.training import GBIT

QUESTION = Question(
    chips=200_000, model=FailureModel(mtbi_s=YEAR_S, source="a test"),
    rate_bytes_per_s=1000 * GBIT, parameters=12 * 10**9, step_s=4.0, seeds=1,
)  # fmt: skip


def test_most_goodput_of_the_allowed_learners_and_the_published_rounds_on_a_wide_link() -> None:
    advice = advise(QUESTION)
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
    advice = advise(QUESTION)
    assert [one.quorum for one in advice.by_quorum] == [1, 4, 6, 8]
    uptimes = [one.uptime for one in advice.by_quorum]
    assert uptimes == sorted(uptimes, reverse=True)
    assert uptimes[0] == 1
    assert uptimes[-1] < 0.9


def test_a_thinner_link_asks_for_a_longer_period_and_one_that_is_too_thin_is_said_to_be() -> None:
    thin = advise(replace(QUESTION, rate_bytes_per_s=1.5 * GBIT))
    assert thin.keeps_pace
    assert thin.pace.rounds.sync_every > 24
    assert thin.pace.made >= 0.99
    assert thin.least_bytes_per_s <= 1.5 * GBIT
    hopeless = advise(replace(QUESTION, rate_bytes_per_s=0.01 * GBIT))
    assert not hopeless.keeps_pace
    assert hopeless.pace.made < 0.5
    assert hopeless.at_thinner_link is None
    assert hopeless.least_bytes_per_s > 0.01 * GBIT


def test_more_learners_are_advised_if_they_are_allowed_and_fewer_if_there_are_few_slices() -> None:
    assert advise(replace(QUESTION, most_learners=16)).learners.learners == 16
    assert advise(replace(QUESTION, chips=1024)).learners.learners == 4


def test_every_simulation_is_counted() -> None:
    seen: list[tuple[int, int]] = []
    advise(QUESTION, on_progress=lambda done, every: seen.append((done, every)))
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] == len(seen) - 1


def test_equal_questions_have_equal_answers() -> None:
    assert to_json(advise(QUESTION)) == to_json(advise(QUESTION))


def test_too_few_chips_are_refused() -> None:
    with pytest.raises(PlanError, match="at least two slices of 256, got 300: write more chips"):
        replace(QUESTION, chips=300)
