"""The syncer's rules, driven by hand and by random histories."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import lt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from chaoslab.core.protocol import LeaveReason, PushRefusal
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.syncer.decisions import (
    Abandon,
    Action,
    Donate,
    Drop,
    Hello,
    Offer,
    Progress,
    SendAll,
    Welcome,
)
from chaoslab.diloco.syncer.membership import Refused
from chaoslab.diloco.syncer.policy import Policy
from tests.diloco.policy_world import STEP_S, TOKENS_PER_STEP, World

NAMES = tuple(f"learner-{index}" for index in range(4))
TOGETHER = {"fragments": 1, "overlap": 0, "blocking": True}
"""What `data_parallel` needs."""


def rules(**changes: object) -> Settings:
    given = {"learners": NAMES, "fragments": 3, "sync_every": 6, "overlap": 2, **changes}
    return Settings(**given)  # type: ignore[arg-type]  # keywords of Settings


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


def goes_on(history: list[tuple[str, object]], changes: dict[str, Any]) -> None:
    """Whatever happened, training goes on after it."""
    world = world_of(*NAMES, **changes)
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
    has_ended = world.stopped is not None
    assert has_ended or all(map(lt, before, world.policy.versions)), "a fragment is stuck"


@examples(max_examples=12)
@given(history=moves, changes=SETTINGS)
def test_after_any_history_training_goes_on(
    history: list[tuple[str, object]], changes: dict[str, Any]
) -> None:
    goes_on(history, changes)


@pytest.mark.deep
@examples(max_examples=800)
@given(history=moves, changes=SETTINGS)
def test_after_many_histories_training_goes_on(
    history: list[tuple[str, object]], changes: dict[str, Any]
) -> None:
    goes_on(history, changes)


def test_a_fragment_whose_round_got_nothing_valid_is_looked_at_again() -> None:
    world = world_of("learner-0", fragments=1)
    world.train_until_pulled("learner-0")
    learner = world.alive["learner-0"]
    world.policy.reject_answer(world.now_s, learner.epoch, learner.pulls[0].round)
    world.follow()
    assert (len(world.abandoned), len(world.pulled)) == (1, 1)
    world.pass_time(1.0)
    assert len(world.pulled) == 2, "although no counter has changed"


def test_a_fragment_is_merged_about_every_h_steps() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=120)
    for fragment in range(3):
        merges = [m for m in world.merges if m.fragment == fragment]
        assert 120 // 7 - 1 <= len(merges) <= 120 // 4 + 1


SPACED = {"fragments": 8, "sync_every": 24}
SPACING_S = 0.9 * 24 * STEP_S / 8
"""Least time between two beginnings with these settings."""


def gaps_s(world: World, since_s: float) -> list[float]:
    """Seconds between successive pulls since then."""
    times_s = [at_s for at_s, _ in world.pulled if at_s >= since_s]
    return [later - earlier for earlier, later in pairwise(times_s)]


def answer_all(world: World) -> None:
    for name in NAMES:
        while world.alive[name].pulls:
            world.answer(name)


def settle_exactly(world: World, steps: int) -> None:
    """Everybody behaves, and the policy is asked whenever it wants to be."""
    for _ in range(steps):
        end_s = world.now_s + STEP_S
        for name in NAMES:
            world.step(name)
        answer_all(world)
        while (wake_s := world.policy.next_s()) < end_s:
            world.pass_time(max(0.0, wake_s - world.now_s))
            answer_all(world)
        world.pass_time(end_s - world.now_s)
        answer_all(world)


@pytest.mark.parametrize("outage", [World.hold_reports, World.replace_syncer])
@pytest.mark.parametrize("quorum", [1, 4])
def test_after_an_outage_of_the_syncer_rounds_are_as_far_apart_as_before(
    outage: Callable[[World, int], None], quorum: int
) -> None:
    world = world_of(*NAMES, quorum=quorum, **SPACED)
    settle_exactly(world, steps=100)
    outage(world, 40)
    resumed_s = world.now_s
    settle_exactly(world, steps=4 * 24)
    assert min(gaps_s(world, since_s=resumed_s)) >= SPACING_S - 1e-9
    later = [pull for at_s, pull in world.pulled if at_s >= resumed_s]
    assert sorted(p.fragment for p in later[:8]) == list(range(8)), "the backlog drains in turn"
    assert len(later) >= 4 * 8, "and nothing is left behind"
    assert max(c.c_steps for m in world.merges[-8:] for c in m.contributions) <= 26


def test_learners_that_wait_for_rounds_lose_no_time_to_their_spacing() -> None:
    world = world_of(*NAMES, quorum=4, blocking=True, **SPACED)
    settle_exactly(world, steps=100)
    world.hold_reports(60)
    before = world.alive["learner-0"].step
    settle_exactly(world, steps=200)
    assert world.alive["learner-0"].step - before >= 190


def test_the_grace_of_a_round_does_not_count_what_it_waited_for_other_rounds() -> None:
    world = world_of(*NAMES, **SPACED)
    settle_exactly(world, steps=100)
    world.hold_reports(40)
    settle_exactly(world, steps=24)
    assert max(merge.grace_s for merge in world.merges) <= STEP_S


@pytest.mark.parametrize("quorum", [1, 4])
@pytest.mark.parametrize("step_s", [0.0, 1e300])
def test_no_reported_step_time_stops_the_rounds(quorum: int, step_s: float) -> None:
    world = world_of(*NAMES, quorum=quorum, **SPACED)
    for learner in world.alive.values():
        learner.step_s = step_s
    settle_exactly(world, steps=240)
    assert len(world.merges) > 0.9 * 240 / 24 * 8


@pytest.mark.parametrize(("mode", "is_excused"), [("off", False), ("elastic", True)])
def test_only_with_data_parallelism_a_learner_that_says_it_waits_for_others_need_not_advance(
    mode: str, is_excused: bool
) -> None:
    policy = Policy(rules(**TOGETHER, data_parallel=mode))
    policy.hello(0.0, Hello(learner="learner-0", incarnation=1))
    dropped = False
    for second in range(2 * int(policy.settings.start_patience_s)):
        report = Progress(
            step=min(second, 3), tokens=min(second, 3), c_steps=(1,), c_tokens=(1,), versions=(0,),
            loss=None, step_s=0.1, data_position=1, waits=second > 3,
        )  # fmt: skip
        policy.progress(second, policy.membership.last_epoch, report)
        dropped = dropped or any(isinstance(one, Drop) for one in policy.advance(second))
    assert dropped is not is_excused


def test_no_word_of_a_learner_that_waits_stops_the_syncer() -> None:
    world = world_of("learner-0", "learner-1", **TOGETHER, data_parallel="elastic")
    epoch, now_s = world.alive["learner-0"].epoch, world.now_s + 1.0
    fragments = world.policy.settings.fragments
    report = Progress(
        step=1, tokens=1, c_steps=(1,) * fragments, c_tokens=(1,) * fragments,
        versions=(0,) * fragments, loss=None, step_s=1e300, data_position=1, waits=True,
    )  # fmt: skip
    world.policy.progress(now_s, epoch, report)
    member = world.policy.membership.find(epoch)
    assert member is not None
    assert 0.0 < member.step_s <= now_s - member.joined_s


def test_one_lying_learner_of_a_full_quorum_delays_no_round_by_more_than_its_own_pace() -> None:
    world = world_of(*NAMES, quorum=4, **SPACED)
    world.alive["learner-3"].step_s = 1e300
    settle_exactly(world, steps=240)
    assert max(gaps_s(world, since_s=100 * STEP_S)) <= 1.5 * SPACING_S


def test_a_stopped_learner_is_waited_for_once_then_suspected_then_dropped() -> None:
    world = world_of(*NAMES)
    world.settle(rounds=20)
    world.stop("learner-0")
    epoch = world.alive["learner-0"].epoch
    world.turns(200, *NAMES[1:])
    assert world.policy.membership.find(epoch) is None
    missed = [m for m in world.merges if "learner-0" in m.missed]
    assert len(missed) <= 2, "at most the rounds in flight waited for it"


@pytest.mark.parametrize("impostor", [{"incarnation": 1}, {"incarnation": 2, "process": 7}])
def test_an_older_life_and_a_second_process_of_a_life_are_refused(impostor: Any) -> None:
    world = world_of("learner-0", "learner-1")
    world.die("learner-0")
    world.join("learner-0")
    with pytest.raises(Refused, match="learner-0"):
        world.policy.hello(world.now_s, Hello(learner="learner-0", **impostor))


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


def contributors(world: World, since: int) -> set[tuple[str, ...]]:
    """The learners of each merge from number `since` on."""
    return {tuple(sorted(c.learner for c in merge.contributions)) for merge in world.merges[since:]}


def train_unevenly(world: World, steps: int) -> None:
    """learner-0 makes two steps while learner-1 makes one; both answer at once."""
    for number in range(steps):
        for name in NAMES[: 2 if number % 2 else 1]:
            world.step(name)
            for other in NAMES[:2]:
                world.answer(other)
        world.pass_time(0.05)


def test_a_round_takes_the_work_of_all_or_of_the_ready_alone() -> None:
    everybody, ready = (
        world_of(*NAMES[:2], contribute=contribute, gamma=0.0) for contribute in ("all", "ready")
    )
    for world in (everybody, ready):
        world.settle(rounds=12)
        since = len(world.merges)
        train_unevenly(world, steps=60)
        assert len(world.merges) > since + 10
        if world is everybody:
            assert contributors(world, since) == {("learner-0", "learner-1")}
        else:
            assert ("learner-0",) in contributors(world, since)


def test_grace_waits_for_those_who_are_ready_a_little_later() -> None:
    for gamma, expected in ((0.0, 1), (0.8, 2)):
        world = world_of(*NAMES[:2], contribute="ready", gamma=gamma, spacing=0.0)
        world.settle(rounds=30)
        since = len(world.merges)
        for _ in range(40):
            for name in NAMES[:2]:  # one after the other, half a step apart
                world.step(name)
                world.answer("learner-0")
                world.answer("learner-1")
                world.pass_time(0.025)
        assert {len(learners) for learners in contributors(world, since)} == {expected}


def waiting_world() -> World:
    """Four synchronous learners; the last one has died and the others wait for its rounds."""
    world = world_of(*NAMES, quorum=4, blocking=True)
    world.settle(rounds=20)
    world.die("learner-3")
    world.settle(rounds=20)
    return world


def test_a_synchronous_learner_waits_at_h_steps_until_the_dead_one_is_back() -> None:
    world = waiting_world()
    steps = {name: world.alive[name].step for name in NAMES[:3]}
    assert all(max(world.alive[name].since_steps) == rules().sync_every for name in NAMES[:3])
    world.settle(rounds=10)
    assert {name: world.alive[name].step for name in NAMES[:3]} == steps
    world.join("learner-3")
    world.settle(rounds=30)
    assert all(world.alive[name].step > steps[name] + 10 for name in NAMES[:3])


def test_a_learner_that_waits_and_reports_no_more_is_dropped() -> None:
    world = waiting_world()
    world.stop("learner-0")
    for _ in range(40):
        world.step("learner-1")
        world.pass_time(0.5)
    assert world.alive["learner-0"].is_fenced
    assert not world.alive["learner-1"].is_fenced


def test_a_learner_that_reconnects_while_it_waits_is_waited_for_again() -> None:
    world = waiting_world()
    world.say_hello(world.alive["learner-0"])
    world.settle(rounds=2)
    member = world.policy.membership.find(world.alive["learner-0"].epoch)
    assert member is not None
    assert member.is_present


def test_an_abandoned_round_gives_the_work_back() -> None:
    world = world_of(*NAMES[:2], quorum=2)
    world.settle(rounds=3)
    world.train_until_pulled(*NAMES[:2])
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


def test_training_stops_once_at_its_rule_with_no_round_open() -> None:
    world = world_of(*NAMES, stop_rounds=10)
    world.settle(rounds=100)
    assert world.stopped is not None
    assert not world.policy.rounds.open
    assert len(world.merges) in (10, 11)


def test_held_training_says_once_that_its_rule_is_met_and_goes_on_until_it_is_stopped() -> None:
    world = world_of(*NAMES, stop_rounds=10, stop_time_s=1000.0)
    world.policy.keeps_training = True
    world.settle(rounds=30)
    assert (world.stopped, world.met_rules) == (None, ["10 rounds"])
    assert len(world.merges) > 11
    assert world.policy.next_s() != 1000.0, "the other rules do not matter any more"
    world.policy.stop("enough")
    world.settle(rounds=100)
    assert world.stopped is not None
    assert not world.policy.rounds.open


def test_a_round_that_only_a_stopped_learner_could_answer_ends_when_it_is_suspected() -> None:
    world = world_of("learner-0")
    world.train_until_pulled("learner-0")
    world.stop("learner-0")
    world.pass_time(1.0)
    assert world.policy.rounds.open
    world.pass_time(2.0)
    assert not world.policy.rounds.open
    assert world.abandoned


def test_a_pause_of_the_syncer_takes_no_answer_out_of_an_open_round() -> None:
    world = world_of(*NAMES, quorum=1)
    world.settle(rounds=20)
    world.train_until_pulled(*NAMES)
    since = len(world.merges)
    world.answer("learner-0")
    world.now_s += 30.0
    world.policy.discount(30.0)
    for name in NAMES[1:]:
        world.answer(name)
    assert (len(world.merges), world.merges[-1].missed) == (since + 1, ())
    assert world.now_s - world.merges[-1].pulled_s < 1.0, "the pause is no part of what it took"


def test_work_that_was_merged_cannot_be_offered_again_in_a_later_round() -> None:
    world = world_of("learner-0")
    world.settle(rounds=20)
    learner = world.alive["learner-0"]
    world.train_until_pulled("learner-0")
    pull = learner.pulls[0]
    old = Offer(
        round=pull.round, fragment=pull.fragment, base_version=pull.base_version, step=learner.step,
        c_steps=1, c_tokens=TOKENS_PER_STEP, tokens_from=0, tokens_to=TOKENS_PER_STEP,
    )  # fmt: skip
    assert world.policy.offer(learner.epoch, old) is PushRefusal.REPLAY


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


@pytest.mark.parametrize(
    ("victims", "donors"),
    [(NAMES[:2], [*NAMES[2:]]), (NAMES[:3], [NAMES[3]] * 3)],
    ids=["shared among the survivors", "by a lone survivor, and by none that is itself returning"],
)
def test_all_that_return_at_once_are_helped(victims: tuple[str, ...], donors: list[str]) -> None:
    assert sorted(helped_by(storm(*victims), *victims)) == donors


def test_a_donor_that_has_given_is_as_free_as_before() -> None:
    world = storm("learner-0")
    asked = world.policy.hello(world.now_s, Hello(learner="learner-0", incarnation=2))
    (donate,) = (action for action in asked if isinstance(action, Donate))
    assert donate.donor.giving == 1
    receiver = world.policy.transfers.done(world.now_s, donate.donor.epoch, donate.request)
    assert receiver is not None
    assert (receiver.learner, donate.donor.giving) == ("learner-0", 0)


# ---------------------------------------------------------------- who helps a learner that returns


def returning(world: World, name: str = "learner-0") -> list[Action]:
    """What is decided when that learner, which is dead, comes back."""
    world.lives[name] += 1
    hello = Hello(learner=name, incarnation=world.lives[name])
    return world.policy.hello(world.now_s, hello)


def told(actions: Sequence[Action]) -> list[str]:
    """Where a receiver is sent to, and whom it is really helped by; each by name."""
    said = []
    for action in actions:
        match action:
            case Welcome(donor=donor, source=source):
                said.append(donor.learner if donor else source.value)
            case Donate(donor=donor):
                said.append(f"by {donor.learner}")
            case SendAll():
                said.append("by syncer")
            case _:
                pass
    return said


def train_on(world: World, seconds: float, *names: str) -> list[str]:
    """These train for a while; what was said to a receiver meanwhile."""
    said = []
    for _ in range(round(seconds)):
        world.now_s += 1.0
        for name in names:
            learner = world.alive[name]
            world.policy.progress(world.now_s, learner.epoch, world.train(learner))
        said += told(world.policy.advance(world.now_s))
    return said


def test_a_receiver_is_told_whenever_somebody_else_is_to_help_it() -> None:
    world = storm("learner-0", "learner-1")
    assert told(returning(world)) == ["learner-3", "by learner-3"]
    gone = world.alive["learner-3"].epoch
    closed = world.policy.closed(world.now_s, gone, LeaveReason.CLOSED)
    assert told(closed) == ["learner-2", "by learner-2"]
    gone = world.alive["learner-2"].epoch
    closed = world.policy.closed(world.now_s, gone, LeaveReason.CLOSED)
    assert told(closed) == ["syncer", "by syncer"]
    assert not world.policy.transfers.open


def test_a_receiver_is_told_nothing_more_once_the_checkpoint_was_passed_on_to_it() -> None:
    world = storm("learner-0")
    actions = returning(world)
    (donate,) = (action for action in actions if isinstance(action, Donate))
    world.policy.transfers.done(world.now_s, donate.donor.epoch, donate.request)
    donor = donate.donor
    assert told(world.policy.closed(world.now_s, donor.epoch, LeaveReason.CLOSED)) == []
    assert train_on(world, 60.0, *(n for n in NAMES[1:] if n != donor.learner)) == []


def test_only_the_donor_that_was_asked_can_give() -> None:
    world = storm("learner-0")
    (donate,) = (action for action in returning(world) if isinstance(action, Donate))
    other = next(m for m in world.policy.membership.members if m is not donate.donor)
    assert world.policy.transfers.done(world.now_s, other.epoch, donate.request) is None
    assert (
        world.policy.transfers.done(world.now_s, donate.donor.epoch, donate.request)
        is donate.receiver
    )


def test_a_receiver_that_waited_long_enough_for_donors_gets_the_syncers_fragments() -> None:
    """And then as much time to begin as one that has just joined."""
    world = storm("learner-0", "learner-1")
    returning(world)
    epoch, patience_s = world.policy.membership.last_epoch, world.settings.start_patience_s
    asked = train_on(world, patience_s - 1.0, *NAMES[2:])
    assert asked == ["learner-2", "by learner-2", "learner-3", "by learner-3"] * 2
    assert train_on(world, 2.0, *NAMES[2:]) == ["syncer", "by syncer"]
    assert train_on(world, patience_s - 2.0, *NAMES[2:]) == []
    assert world.policy.membership.find(epoch) is not None
    train_on(world, 2.0, *NAMES[2:])
    assert world.policy.membership.find(epoch) is None


def test_a_donor_that_has_begun_to_send_is_waited_for_and_may_use_all_of_the_time() -> None:
    world = storm("learner-0")
    (donate,) = (action for action in returning(world) if isinstance(action, Donate))
    world.policy.transfers.begun(donate.donor.epoch, donate.request)
    patience_s = world.settings.start_patience_s
    assert train_on(world, patience_s - 1.0, *NAMES[1:]) == []
    assert train_on(world, 2.0, *NAMES[1:]) == ["syncer", "by syncer"]


def test_a_receiver_that_cannot_begin_in_time_with_a_checkpoint_is_helped_by_the_syncer() -> None:
    world = storm("learner-0")
    actions = returning(world)
    patience_s = world.settings.start_patience_s
    for is_in_time in (True, False):
        (donate,) = (action for action in actions if isinstance(action, Donate))
        transfers, epoch = world.policy.transfers, donate.receiver.epoch
        transfers.begun(donate.donor.epoch, donate.request)
        train_on(world, patience_s - 10.0, *NAMES[1:])
        transfers.done(world.now_s, donate.donor.epoch, donate.request)
        train_on(world, patience_s - 2.0, *NAMES[1:])
        assert world.policy.membership.find(epoch) is not None
        if is_in_time:  # its link breaks, which says nothing of how thin it is
            world.policy.closed(world.now_s, epoch, LeaveReason.CLOSED)
            hello = Hello(learner="learner-0", incarnation=world.lives["learner-0"])
            actions = world.policy.hello(world.now_s, hello)
    train_on(world, 3.0, *NAMES[1:])
    assert world.policy.membership.find(epoch) is None
    assert told(world.policy.hello(world.now_s, hello)) == ["syncer", "by syncer"]
    assert told(returning(world))[1].startswith("by learner"), "another life may do better"


def test_a_suspected_donor_is_kept_while_there_is_no_other() -> None:
    world = storm(*NAMES[:3])
    assert told(returning(world)) == ["learner-3", "by learner-3"]
    after_s, dropped_s = world.settings.suspect_after_s, world.settings.drop_after_s
    assert train_on(world, after_s + 1.0) == []
    assert train_on(world, dropped_s) == ["syncer", "by syncer"]


def test_a_suspected_donor_is_replaced_by_another() -> None:
    world = storm(*NAMES[:2])
    assert told(returning(world)) == ["learner-3", "by learner-3"]
    said = train_on(world, world.settings.suspect_after_s + 1.0, "learner-2")
    assert said == ["learner-2", "by learner-2"]


def test_no_donor_is_asked_for_a_learner_that_trains_already() -> None:
    """It may be one of other people's, which was content with the fragments."""
    world = storm("learner-0")
    (donate,) = (action for action in returning(world) if isinstance(action, Donate))
    report = Progress(
        step=5, tokens=0, c_steps=(0,) * 3, c_tokens=(0,) * 3, versions=world.policy.versions,
        loss=3.0, step_s=0.1, data_position=5,
    )  # fmt: skip
    world.policy.progress(world.now_s, donate.receiver.epoch, report)
    assert (donate.donor.giving, dict(world.policy.transfers.open)) == (0, {})
    assert train_on(world, 60.0, *NAMES[1:]) == []
