"""Who averages gradients with whom, with `data_parallel`: by hand, and by random histories."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer import messages
from chaoslab.diloco.syncer.decisions import Action, Dissolve, Form, Progress
from chaoslab.diloco.syncer.policy import Policy
from tests.diloco.policy_world import STEP_S, FakeLearner, World

NAMES = tuple(f"learner-{index}" for index in range(4))
MODES = ("rigid", "elastic")


@dataclass
class Part:
    """A learner's part in communicators."""

    number: int = 0
    names: tuple[str, ...] = ()
    is_in: bool = False
    has_gradients: bool = False
    """It has computed them, and waits for those of the others."""


class CommunicatorWorld(World):
    """Learners that step only together. They take orders when they step next, the newest alone."""

    def __init__(self, mode: str, **changes: object) -> None:
        given = {"learners": NAMES, "quorum": 4, "fragments": 1, "sync_every": 4, "overlap": 0}
        given |= {"merge": "average", "blocking": True, "data_parallel": mode, **changes}
        super().__init__(Settings(**given))  # type: ignore[arg-type]  # keywords of Settings
        self.parts = {name: Part() for name in NAMES}
        self.orders: dict[str, tuple[int, Form | Dissolve]] = {}
        """By learner: epoch and order that it has not taken yet."""
        self.formed: list[Form] = []
        self.ended: list[Dissolve] = []

    @property
    def least_contributions(self) -> int:
        return 4 if self.settings.data_parallel == "rigid" else 1

    def say_hello(self, learner: FakeLearner) -> None:
        self.leave(learner)
        self.orders.pop(learner.name, None)
        super().say_hello(learner)

    def join(self, name: str) -> None:
        if name not in self.alive:
            self.parts[name] = Part()
        super().join(name)

    def train(self, learner: FakeLearner) -> Progress:
        """Step with the others once all have gradients; else the report says that it waits."""
        epoch, order = self.orders.pop(learner.name, (0, None))
        if order is not None and epoch == learner.epoch:
            self.take(learner, order)
        self.adopt(learner)
        part = self.parts[learner.name]
        if part.is_in and not learner.waits(self.settings.steps_before_wait):
            names = part.names
            if any(self.is_lost(name, part) for name in names):
                self.leave(learner)
            else:
                part.has_gradients = True
                if all(self.has_gradients(name, part) for name in names):
                    for name in names:
                        self.parts[name].has_gradients = False
                        self.advance(self.alive[name])
        return self.told(learner)

    def advance(self, learner: FakeLearner) -> None:
        learner.step += 1
        learner.tokens += 10
        learner.since_steps = [steps + 1 for steps in learner.since_steps]

    def told(self, learner: FakeLearner) -> Progress:
        part = self.parts[learner.name]
        return Progress(
            step=learner.step, tokens=learner.tokens, c_steps=tuple(learner.since_steps),
            c_tokens=tuple(learner.tokens - since for since in learner.since_tokens),
            versions=tuple(learner.versions), loss=3.0, step_s=learner.step_s,
            data_position=learner.step, waits=part.has_gradients or not part.is_in,
            communicator=part.number, meeting="" if part.is_in else f"{learner.name}:1",
        )  # fmt: skip

    def is_lost(self, name: str, part: Part) -> bool:
        """Whether it is no longer, or never will be, in that communicator."""
        other = self.parts[name]
        has_left = other.number == part.number and not other.is_in
        return name not in self.alive or other.number > part.number or has_left

    def has_gradients(self, name: str, part: Part) -> bool:
        other = self.parts[name]
        return other.number == part.number and other.has_gradients

    def leave(self, learner: FakeLearner) -> None:
        part = self.parts[learner.name]
        part.is_in = part.has_gradients = False
        if self.settings.data_parallel == "rigid":
            learner.since_steps = [0] * len(learner.since_steps)
            learner.since_tokens = [learner.tokens] * len(learner.since_tokens)

    def take(self, learner: FakeLearner, order: Form | Dissolve) -> None:
        part = self.parts[learner.name]
        if isinstance(order, Dissolve) or any(learner.since_steps):
            if order.number >= part.number:
                part.number = order.number
                self.leave(learner)
            return
        names = tuple(member.learner for member in order.members)
        self.parts[learner.name] = Part(number=order.number, names=names, is_in=True)

    def act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Form):
                self.check(action)
                self.formed.append(action)
            elif isinstance(action, Dissolve):
                self.ended.append(action)
            else:
                continue
            for member, order in zip(action.members, messages.communicator(action), strict=True):
                assert order.epoch == member.epoch
                assert bool(order.communicator.address) is isinstance(action, Form)
                self.orders[member.learner] = member.epoch, action
        super().act(actions)

    def check(self, action: Form) -> None:
        assert action.address == f"{action.members[0].learner}:1"
        assert action.number > max((form.number for form in self.formed), default=0)
        rigid = self.settings.data_parallel == "rigid"
        assert len(action.members) == 4 or not (rigid or not self.formed)
        for member in action.members:
            learner = self.alive[member.learner]
            assert tuple(learner.versions) == self.policy.versions
            assert learner.epoch == member.epoch
            assert not any(learner.since_steps), "it has work that the others lack"

    def settle(self, rounds: int) -> None:
        """Everybody alive behaves for a while, fenced learners too."""
        for _ in range(rounds):
            for name in list(self.alive):
                if self.alive[name].is_fenced:
                    self.say_hello(self.alive[name])
            super().settle(1)


def together(mode: str, *names: str, **changes: object) -> CommunicatorWorld:
    world = CommunicatorWorld(mode, **changes)
    for name in names or NAMES:
        world.join(name)
    world.settle(3)
    return world


def members(world: CommunicatorWorld) -> list[str]:
    return sorted(member.learner for member in world.formed[-1].members)


@pytest.mark.parametrize("mode", MODES)
def test_the_first_communicator_waits_for_everybody(mode: str) -> None:
    world = together(mode, *NAMES[:3])
    assert not world.formed
    world.join(NAMES[3])
    world.settle(3)
    assert members(world) == list(NAMES)


@pytest.mark.parametrize("mode", MODES)
def test_every_round_takes_the_work_of_all(mode: str) -> None:
    world = together(mode)
    world.settle(40)
    assert len(world.merges) >= 5
    for merge in world.merges:
        assert len(merge.contributions) == 4
        assert {given.c_steps for given in merge.contributions} == {4}


def test_rigid_stops_with_one_lost_until_it_is_back() -> None:
    world = together("rigid")
    world.settle(2)
    world.die(NAMES[1])
    world.settle(3)
    before = world.alive[NAMES[0]].step
    world.settle(200)  # 10 s: as long as a silent member is kept
    assert world.alive[NAMES[0]].step == before
    assert len(world.formed) == 1
    assert set(world.alive) == {member.learner for member in world.policy.membership.members}
    world.join(NAMES[1])
    world.settle(20)
    assert members(world) == list(NAMES)
    assert world.alive[NAMES[0]].step > before


def test_rigid_goes_back_to_the_last_version() -> None:
    world = together("rigid")
    while not any(world.alive[NAMES[0]].since_steps):
        world.settle(1)
    world.die(NAMES[1])
    world.settle(1)
    assert world.ended
    assert not any(world.alive[NAMES[0]].since_steps)
    assert not world.merges


def test_elastic_stores_what_is_there_and_goes_on_with_those_present() -> None:
    world = together("elastic", sync_every=20)
    while not world.merges or world.alive[NAMES[0]].since_steps != [2]:
        world.settle(1)
    world.die(NAMES[1])
    world.settle(2)  # less than the usual time between two rounds
    assert members(world) == [NAMES[0], *NAMES[2:]]
    merge = world.merges[-1]
    assert len(merge.contributions) == 3
    assert all(given.c_steps < 5 for given in merge.contributions), "they made a whole round"
    world.settle(60)
    assert len(world.merges[-1].contributions) == 3
    assert world.merges[-1].contributions[0].c_steps == 20


@pytest.mark.parametrize("mode", MODES)
def test_one_that_hangs_is_lost_and_those_that_wait_for_it_are_not(mode: str) -> None:
    world = together(mode)
    world.stop(NAMES[2])
    world.turns(200, *NAMES[:2], NAMES[3])
    left = {member.learner for member in world.policy.membership.members}
    assert left == set(NAMES) - {NAMES[2]}
    if mode == "elastic":
        assert members(world) == sorted(left)
    else:
        assert len(world.formed) == 1
    world.settle(40)
    assert members(world) == list(NAMES)


def test_none_is_formed_while_a_round_may_still_make_a_version() -> None:
    world = together("rigid")
    while not all(world.alive[name].pulls for name in NAMES):
        for name in NAMES:
            world.step(name)
    for name in (NAMES[0], *NAMES[2:]):
        world.answer(name)
    world.die(NAMES[0])
    world.join(NAMES[0])
    for _ in range(5):
        for name in NAMES:
            world.step(name)
    assert world.policy.rounds.open
    assert len(world.formed) == 1
    world.answer(NAMES[1])
    world.settle(20)
    assert members(world) == list(NAMES)


@pytest.mark.parametrize("mode", MODES)
def test_a_learner_that_lost_its_connections_ends_the_communicator(mode: str) -> None:
    world = together(mode)
    world.leave(world.alive[NAMES[3]])
    world.settle(10)
    assert len(world.ended) == 1
    assert members(world) == list(NAMES)
    assert world.formed[-1].number > 1


def test_the_state_is_never_that_of_a_learner_that_was_away() -> None:
    world = together("elastic")
    world.settle(200)
    for name in NAMES[1:]:  # they have fewer tokens in their second life
        world.die(name)
        world.settle(8)
        world.join(name)
        world.settle(12)
    world.stop(NAMES[0])
    world.turns(160, *NAMES[1:])
    assert members(world) == list(NAMES[1:])
    world.settle(20)
    ranks = [member.learner for member in world.formed[-1].members]
    assert set(ranks) == set(NAMES)
    assert ranks[-1] == NAMES[0]
    assert world.alive[NAMES[0]].tokens > world.alive[NAMES[1]].tokens


@pytest.mark.parametrize("every", [1, 5])
def test_a_communicator_grows_once_however_slowly_the_new_one_reports(every: int) -> None:
    world = together("elastic")
    world.die(NAMES[3])
    world.settle(22)
    count = len(world.formed)
    world.join(NAMES[3])
    for number in range(60):
        world.turns(1, *(NAMES if number % every == 0 else NAMES[:3]))
    assert members(world) == list(NAMES)
    assert len(world.formed) == count + 1


def test_a_syncer_that_was_replaced_needs_no_quorum_if_elastic_had_begun() -> None:
    world = together("elastic")
    world.die(NAMES[3])
    world.settle(20)
    before, versions = world.policy, world.policy.versions
    assert versions[0] > 0
    world.policy = Policy(world.settings)
    world.policy.rounds.begun = before.rounds.begun
    world.policy.rounds.fragment_tokens = before.rounds.fragment_tokens
    world.policy.membership.last_epoch = 100
    world.policy.tally.begin(versions)
    world.policy.restart(began_s=0.0, awaited=frozenset(NAMES[:3]), awaited_until_s=world.now_s + 2)
    for name in NAMES[:3]:
        world.say_hello(world.alive[name])
    count = len(world.formed)
    for name in NAMES[:2]:
        world.step(name)
    assert len(world.formed) == count, "the third one is awaited"
    world.settle(3)
    assert members(world) == list(NAMES[:3])


def test_a_communicator_in_which_nobody_steps_ends() -> None:
    world = together("rigid", start_patience_s=30.0)
    for _ in range(int(35 / STEP_S)):
        for name in NAMES:
            world.report(world.alive[name], world.told(world.alive[name])._replace(waits=True))
        world.pass_time(STEP_S)
    assert "30 s" in world.ended[0].reason


@pytest.mark.parametrize("mode", MODES)
def test_a_report_from_before_the_order_ends_nothing(mode: str) -> None:
    world = together(mode)
    world.die(NAMES[0])
    world.settle(8)
    world.join(NAMES[0])
    world.settle(8)
    learner, count = world.alive[NAMES[1]], len(world.formed)
    late = world.told(learner)._replace(communicator=1, meeting="late:1")
    world.report(learner, late)
    assert len(world.formed) == count
    world.settle(5)
    assert len(world.formed) == count


moves = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["step", "step", "step", "step", "answer", "answer", "repeat"]),
            st.sampled_from(NAMES),
        ),
        st.tuples(st.sampled_from(["join", "die", "stop", "go_on"]), st.sampled_from(NAMES)),
        st.tuples(st.just("settle"), st.sampled_from([1, 2, 5])),
        st.tuples(st.just("pass_time"), st.sampled_from([0.01, 0.05, 0.3, 2.5, 7.0])),
    ),
    max_size=100,
)


def train_together(mode: str, moves: list[tuple[str, object]]) -> None:
    """Whatever happened, all learners train in one communicator after it."""
    world = CommunicatorWorld(mode)
    for name in NAMES:
        world.join(name)
    for move, argument in moves:
        getattr(world, move)(argument)
    for name in NAMES:
        world.join(name)
    world.settle(60)
    before = world.policy.versions
    world.settle(60)
    assert members(world) == list(NAMES)
    assert world.policy.versions[0] >= before[0] + 5


@pytest.mark.parametrize("mode", MODES)
@examples(max_examples=12)
@given(moves=moves)
def test_after_any_history_all_train_together(mode: str, moves: list[tuple[str, object]]) -> None:
    train_together(mode, moves)


@pytest.mark.deep
@pytest.mark.parametrize("mode", MODES)
@examples(max_examples=100)
@given(moves=moves)
def test_after_many_histories_all_train_together(
    mode: str, moves: list[tuple[str, object]]
) -> None:
    train_together(mode, moves)
