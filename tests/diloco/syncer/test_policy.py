"""The syncer's rules, driven by hand and by thousands of random histories."""

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from chaoslab.core.payloads.syncer import Leaving
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.syncer.decisions import (
    Abandon,
    Donate,
    Hello,
    LeaveReason,
    Offer,
    Progress,
    Refusal,
    Welcome,
)
from chaoslab.diloco.syncer.membership import Refused
from tests.diloco.policy_world import TOKENS_PER_STEP, World

NAMES = tuple(f"learner-{index}" for index in range(4))


def rules(**changes: object) -> Settings:
    return Settings(learners=NAMES, fragments=3, sync_every=6, overlap=2, **changes)  # type: ignore[arg-type]  # keywords of Settings


def world_of(*names: str, **changes: object) -> World:
    world = World(rules(**changes))
    for name in names:
        world.join(name)
    return world


moves = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["step", "step", "step", "answer", "answer", "repeat"]),
            st.sampled_from(NAMES),
        ),
        st.tuples(st.sampled_from(["join", "die", "stop", "go_on"]), st.sampled_from(NAMES)),
        st.tuples(st.just("pass_time"), st.sampled_from([0.01, 0.05, 0.3, 2.5, 7.0])),
    ),
    max_size=150,
)


def keeps_the_rules(moves: list[tuple[str, object]], quorum: int) -> None:
    """Whatever happened, training goes on after it."""
    world = world_of(*NAMES, quorum=quorum)
    for move, argument in moves:
        getattr(world, move)(argument)
    for name in NAMES[: max(0, quorum - len(world.alive))] if quorum > len(world.alive) else ():
        world.join(name)
    for name in NAMES:
        world.join(name)
    before = list(world.policy.versions)
    world.settle(rounds=60)
    after = world.policy.versions
    assert all(new > old for new, old in zip(after, before, strict=True)), "a fragment is stuck"


@examples(max_examples=100)
@given(moves=moves, quorum=st.integers(1, 4))
def test_any_history_keeps_the_rules(moves: list[tuple[str, object]], quorum: int) -> None:
    keeps_the_rules(moves, quorum)


@pytest.mark.thorough
@examples(max_examples=1500)
@given(moves=moves, quorum=st.integers(1, 4))
def test_every_one_of_many_histories_keeps_the_rules(
    moves: list[tuple[str, object]], quorum: int
) -> None:
    keeps_the_rules(moves, quorum)


@examples(max_examples=100)
@given(moves=moves)
def test_the_same_history_gives_the_same_merges(moves: list[tuple[str, object]]) -> None:
    worlds = [world_of(*NAMES), world_of(*NAMES)]
    for world in worlds:
        for move, argument in moves:
            getattr(world, move)(argument)
        world.settle(rounds=10)
    assert worlds[0].merges == worlds[1].merges


def test_a_fragment_is_merged_about_every_h_steps() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=120)
    for fragment in range(3):
        merges = [m for m in world.merges if m.fragment == fragment]
        assert 120 // 7 - 1 <= len(merges) <= 120 // 4 + 1


def test_weights_follow_tokens_and_steps() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=30)
    for merge in world.merges:
        for contribution in merge.contributions:
            steps = contribution.c_steps
            assert contribution.weight == TOKENS_PER_STEP**2 * steps


def test_survivors_merge_on_when_the_others_die_in_mid_round() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=20)
    for _ in range(4):
        for name in NAMES:
            world.step(name)
    world.die("learner-0")
    world.die("learner-1")
    before = len(world.merges)
    world.settle(rounds=20)
    assert len(world.merges) > before + 5
    assert {c.learner for m in world.merges[before + 2 :] for c in m.contributions} == {
        "learner-2", "learner-3",
    }  # fmt: skip


def test_a_stopped_learner_is_waited_for_once_then_suspected_then_dropped() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=20)
    world.stop("learner-0")
    epoch = world.alive["learner-0"].epoch
    for _ in range(200):
        for name in NAMES[1:]:
            world.step(name)
            while world.alive[name].pulls:
                world.answer(name)
        world.pass_time(0.05)
    assert world.policy.membership.find(epoch) is None
    missed = [m for m in world.merges if "learner-0" in m.missed]
    assert len(missed) <= 2, "at most the rounds in flight waited for it"


def test_a_learner_that_returns_from_a_long_stop_pushes_only_as_its_new_self() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=20)
    learner = world.alive["learner-0"]
    old_epoch = learner.epoch
    world.stop("learner-0")
    world.pass_time(30.0)
    offer = Offer(
        round=1, fragment=0, base_version=0, step=1, c_steps=1, c_tokens=10, tokens_from=0,
        tokens_to=10,
    )  # fmt: skip
    assert world.policy.offer(old_epoch, offer) is Refusal.FENCED
    world.go_on("learner-0")
    assert learner.epoch > old_epoch
    before = len(world.merges)
    world.settle(rounds=30)
    assert any(c.epoch == learner.epoch for m in world.merges[before:] for c in m.contributions)


def test_an_older_life_is_refused() -> None:
    world = world_of("learner-0", "learner-1")
    world.die("learner-0")
    world.join("learner-0")
    with pytest.raises(Refused, match="incarnation 1 of learner-0"):
        world.policy.hello(world.now_s, Hello(learner="learner-0", incarnation=1))


def test_two_processes_cannot_be_the_same_life() -> None:
    world = world_of("learner-0", "learner-1")
    with pytest.raises(Refused, match="incarnation 2"):
        world.policy.hello(0.0, Hello(learner="learner-1", incarnation=1, process=7))


def test_a_name_that_is_not_on_the_roster_is_refused() -> None:
    with pytest.raises(Refused, match="roster"):
        world_of("learner-0").policy.hello(0.0, Hello(learner="intruder", incarnation=1))


def test_a_lone_fresh_learner_never_becomes_the_state_of_the_run() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=30)
    versions = world.policy.versions
    for name in NAMES:
        world.die(name)
    world.join("learner-2")
    assert world.policy.versions == versions
    assert world.alive["learner-2"].versions == list(versions)


def test_when_the_learner_that_hands_in_the_initial_parameters_dies_another_is_asked() -> None:
    policy = World(rules()).policy
    policy.hello(0.0, Hello(learner="learner-0", incarnation=1))
    policy.hello(0.0, Hello(learner="learner-1", incarnation=1))
    actions = policy.closed(0.0, 1, LeaveReason.CLOSED)
    asked = [a for a in actions if isinstance(a, Welcome) and a.source is Source.INITIAL]
    assert [a.member.learner for a in asked] == ["learner-1"]


def test_a_lone_learner_that_reconnects_is_asked_for_the_initial_parameters_once_more() -> None:
    policy = World(rules()).policy
    hello = Hello(learner="learner-0", incarnation=1)
    policy.hello(0.0, hello)
    asked = [a.source for a in policy.hello(0.0, hello) if isinstance(a, Welcome)]
    assert (asked, policy.seeder) == ([Source.INITIAL], 2)


def test_an_event_names_every_reason_for_leaving() -> None:
    assert [*LeaveReason] == [*Leaving]


@pytest.mark.parametrize(
    ("c_steps", "c_tokens"),
    [pytest.param(5, 10**9, id="tokens"), pytest.param(10**12, 5, id="steps, to seem small")],
)
def test_what_was_never_trained_cannot_be_contributed(c_steps: int, c_tokens: int) -> None:
    world = world_of(*NAMES)
    world.settle(rounds=3)
    while not world.alive["learner-0"].pulls:
        for name in NAMES:
            world.step(name)
    learner = world.alive["learner-0"]
    pull = learner.pulls[0]
    offer = Offer(
        round=pull.round, fragment=pull.fragment, base_version=pull.base_version, step=9,
        c_steps=c_steps, c_tokens=c_tokens, tokens_from=0, tokens_to=c_tokens,
    )  # fmt: skip
    assert world.policy.offer(learner.epoch, offer) is Refusal.WRONG_COUNTS


def test_a_quorum_of_all_waits_for_the_dead_ones_return_and_then_goes_on() -> None:
    world = world_of(*NAMES, quorum=4)
    world.settle(rounds=20)
    world.die("learner-3")
    world.settle(rounds=10)
    before = len(world.merges)
    world.settle(rounds=30)
    assert len(world.merges) == before
    world.join("learner-3")
    world.settle(rounds=30)
    assert len(world.merges) > before


def test_an_abandoned_round_gives_the_work_back() -> None:
    world = world_of(*NAMES[:2], quorum=2)
    world.settle(rounds=3)
    while not world.alive["learner-0"].pulls:
        for name in NAMES[:2]:
            world.step(name)
    fragment = world.alive["learner-0"].pulls[0].fragment
    world.answer("learner-0")
    world.die("learner-1")
    assert any(isinstance(a, Abandon) for a in world.abandoned)
    world.join("learner-1")
    world.settle(rounds=30)
    assert any(
        c.learner == "learner-0" for m in world.merges if m.fragment == fragment
        for c in m.contributions
    )  # fmt: skip


def test_counters_of_another_shape_are_ignored() -> None:
    world = world_of("learner-0")
    report = Progress(
        step=1, tokens=1, c_steps=(1,), c_tokens=(1,), versions=(0,), loss=None, step_s=0.1,
        data_position=1,
    )  # fmt: skip
    assert world.policy.progress(0.0, world.alive["learner-0"].epoch, report) == ()


def test_training_stops_once_at_its_rule_with_no_round_open() -> None:
    world = world_of(*NAMES, stop_rounds=10)
    world.settle(rounds=100)
    assert world.stopped is not None
    assert not world.policy.rounds.open
    assert len(world.merges) in (10, 11)


def test_held_training_says_once_that_its_rule_is_met_and_goes_on_until_it_is_stopped() -> None:
    world = world_of(*NAMES, stop_rounds=10, stop_time_s=1000.0)
    world.policy.is_held = True
    world.settle(rounds=30)
    assert (world.stopped, world.held) == (None, ["10 rounds"])
    assert len(world.merges) > 11
    assert world.policy.next_s() != 1000.0, "the other rules do not matter any more"
    world.policy.stop("enough")
    world.settle(rounds=100)
    assert world.stopped is not None
    assert not world.policy.rounds.open


def test_a_round_that_only_a_stopped_learner_could_answer_ends_when_it_is_suspected() -> None:
    world = world_of("learner-0")
    while not world.alive["learner-0"].pulls:
        world.step("learner-0")
    world.stop("learner-0")
    world.pass_time(1.0)
    assert world.policy.rounds.open
    world.pass_time(2.0)
    assert not world.policy.rounds.open
    assert world.abandoned


def test_work_that_was_merged_cannot_be_offered_again_in_a_later_round() -> None:
    world = world_of("learner-0")
    world.settle(rounds=20)
    learner = world.alive["learner-0"]
    while not learner.pulls:
        world.step("learner-0")
    pull = learner.pulls[0]
    old = Offer(
        round=pull.round, fragment=pull.fragment, base_version=pull.base_version, step=learner.step,
        c_steps=1, c_tokens=TOKENS_PER_STEP, tokens_from=0, tokens_to=TOKENS_PER_STEP,
    )  # fmt: skip
    assert world.policy.offer(learner.epoch, old) is Refusal.REPLAY


def test_a_second_answer_to_the_same_pull_is_a_replay() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=3)
    while not world.alive["learner-0"].pulls:
        for name in NAMES:
            world.step(name)
    world.answer("learner-0")
    learner = world.alive["learner-0"]
    assert learner.last_offer is not None
    assert world.policy.offer(learner.epoch, learner.last_offer) is Refusal.REPLAY


# ---------------------------------------------------------------- many returns at once


def helped_by(world: World, *names: str) -> list[str]:
    """Whose checkpoint each of these is promised when they all ask in the same instant."""
    donors = []
    for name in names:
        world.lives[name] += 1
        hello = Hello(learner=name, incarnation=world.lives[name])
        asked = [a for a in world.policy.hello(world.now_s, hello) if isinstance(a, Donate)]
        donors += [action.donor.learner for action in asked]
    return donors


def storm(*victims: str) -> World:
    """A training in full swing in which these have just died."""
    world = world_of(*NAMES)
    world.settle(rounds=20)
    for name in victims:
        world.die(name)
    world.settle(rounds=3)
    return world


def test_returns_at_once_are_shared_among_the_donors() -> None:
    world = storm("learner-0", "learner-1")
    assert sorted(helped_by(world, "learner-0", "learner-1")) == ["learner-2", "learner-3"]


def test_a_lone_survivor_helps_everybody_and_nobody_asks_one_that_is_itself_coming_back() -> None:
    world = storm("learner-0", "learner-1", "learner-2")
    assert helped_by(world, "learner-0", "learner-1", "learner-2") == ["learner-3"] * 3


def test_a_donor_that_has_given_is_as_free_as_before() -> None:
    world = storm("learner-0")
    asked = world.policy.hello(world.now_s, Hello(learner="learner-0", incarnation=2))
    (donate,) = (action for action in asked if isinstance(action, Donate))
    assert donate.donor.giving == 1
    receiver = world.policy.transfers.done(donate.request)
    assert receiver is not None
    assert (receiver.learner, donate.donor.giving) == ("learner-0", 0)


def test_when_a_donor_of_several_dies_the_others_share_what_it_had_to_give() -> None:
    world = storm("learner-0", "learner-1")
    first, second = helped_by(world, "learner-0", "learner-1")
    lost = next(m for m in world.policy.membership.members if m.learner == first)
    actions = world.policy.closed(world.now_s, lost.epoch, LeaveReason.CLOSED)
    assert [a.donor.learner for a in actions if isinstance(a, Donate)] == [second]
    left = next(m for m in world.policy.membership.members if m.learner == second)
    assert left.giving == 2
