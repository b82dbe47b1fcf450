"""Counts that are kept change by change, against the same decisions by going through everything."""

from operator import lt
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.policy import Policy
from tests.diloco.plain_policy import PlainPolicy
from tests.diloco.policy_world import STEP_S, World
from tests.diloco.recorded_policy import Call, Recorded, replay
from tests.diloco.syncer.test_policy import NAMES, moves, rules

SETTINGS = st.fixed_dictionaries(
    {
        "quorum": st.integers(1, 4),
        "contribute": st.sampled_from(["all", "ready"]),
        "blocking": st.booleans(),
        "spacing": st.sampled_from([0.0, 0.9]),
        "stop_steps": st.sampled_from([None, 30]),
        "stop_loss": st.sampled_from([None, 3.0]),
    }
)


def recorded(settings: Settings) -> tuple[World, list[Call]]:
    """A world around a policy that records its inputs."""
    world, calls = World(settings), list[Call]()
    world.policy = cast("Policy", Recorded(Policy(settings), calls))
    return world, calls


def keeps_the_rules(history: list[tuple[str, object]], changes: dict[str, Any]) -> None:
    """Whatever happened, training goes on after it, and both policies have decided the same."""
    settings = rules(**changes)
    world, calls = recorded(settings)
    for name in NAMES:
        world.join(name)
    for move, argument in history:
        getattr(world, move)(argument)
        world.policy.next_s()
    for name in NAMES:
        world.join(name)
    before = world.policy.versions
    for _ in range(20):
        world.settle(rounds=1)
        world.pass_time(max(0.0, min(STEP_S, world.policy.next_s() - world.now_s)))
    world.settle(rounds=40)
    after = world.policy.versions
    has_ended = world.stopped is not None
    assert has_ended or all(map(lt, before, after)), "a fragment is stuck"
    replay(calls, PlainPolicy(settings))


@examples(max_examples=12)
@given(history=moves, changes=SETTINGS)
def test_any_history_keeps_the_rules(
    history: list[tuple[str, object]], changes: dict[str, Any]
) -> None:
    keeps_the_rules(history, changes)


@pytest.mark.deep
@examples(max_examples=800)
@given(history=moves, changes=SETTINGS)
def test_many_histories_keep_the_rules(
    history: list[tuple[str, object]], changes: dict[str, Any]
) -> None:
    keeps_the_rules(history, changes)


@examples(max_examples=3)
@given(steps=st.integers(20, 60), quorum=st.integers(1, 4))
def test_the_backlog_of_an_outage_is_worked_off_alike(steps: int, quorum: int) -> None:
    settings = rules(quorum=quorum, fragments=8, sync_every=24)
    world, calls = recorded(settings)
    for name in NAMES:
        world.join(name)
    world.settle(rounds=30)
    world.hold_reports(steps)
    world.settle(rounds=30)
    replay(calls, PlainPolicy(settings))


def test_a_fragment_whose_round_got_nothing_valid_is_looked_at_again() -> None:
    world, calls = recorded(rules(fragments=1))
    world.join("learner-0")
    world.train_until_pulled("learner-0")
    learner = world.alive["learner-0"]
    world.policy.reject_answer(world.now_s, learner.epoch, learner.pulls[0].round)
    world.follow()
    assert (len(world.abandoned), len(world.pulled)) == (1, 1)
    world.pass_time(1.0)
    assert len(world.pulled) == 2, "although no counter has changed"
    replay(calls, PlainPolicy(world.settings))


@pytest.mark.parametrize("offset", range(8))
def test_a_member_that_misses_the_end_of_a_round_is_not_counted_from_then_on(offset: int) -> None:
    world, calls = recorded(rules(spacing=0.0))
    for name in NAMES[:2]:
        world.join(name)
    world.settle(rounds=10)
    for number in range(offset):
        world.step(NAMES[number % 2])
    for _ in range(12):  # learner-1 steps half as often, and never answers
        for name in ("learner-0", "learner-1", "learner-0"):
            world.step(name)
            while world.alive["learner-0"].pulls:
                world.answer("learner-0")
        world.pass_time(0.13)
    assert any("learner-1" in merge.missed for merge in world.merges)
    replay(calls, PlainPolicy(world.settings))
