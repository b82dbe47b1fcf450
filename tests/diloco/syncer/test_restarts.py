"""The syncer over several lives, and with a disk that refuses: numbers, memory, nothing too early.

The real syncer on a thread, little learners on others, one disk.
"""

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved
from chaoslab.diloco.syncer.decisions import Hello, SuspicionChange
from chaoslab.diloco.syncer.options import retry_while_disk_full
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.resume import restore_policy
from chaoslab.diloco.syncer.store import SyncerStore, Tensors
from tests.diloco.hand_learner import RunningSyncer, Told, running_syncer
from tests.diloco.little_learner import LittleLearner
from tests.diloco.syncer.test_store import SHAPES, SPECS, line, tensors

NAMES = ("learner-0", "learner-1", "learner-2")
RULES = Settings(learners=NAMES, fragments=3)


class RefusingStore(SyncerStore):
    """A disk that can be full."""

    is_full = False

    def save_round(self, line: CommitRecord, tensors: Tensors) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().save_round(line, tensors)


@contextmanager
def training(syncer: RunningSyncer) -> Iterator[list[LittleLearner]]:
    learners = [LittleLearner(syncer.address, name) for name in NAMES]
    with ExitStack() as stack:
        for learner in learners:
            learner.join()
            stack.enter_context(learner.running())
        yield learners
    for learner in learners:
        learner.leave()


def rounds(syncer: RunningSyncer) -> int:
    return len(syncer.told.of(Kind.ROUND_MERGED))


# ---------------------------------------------------------------- a disk that refuses


@pytest.mark.gate
def test_nothing_is_published_that_is_not_on_disk_and_all_of_it_is_once_there_is_room(
    tmp_path: Path,
) -> None:
    with running_syncer(tmp_path) as syncer:
        store = RefusingStore(tmp_path / "refusing", durable=False)
        syncer.syncer_state._store = store
        with training(syncer) as learners:
            syncer.told.wait(Kind.ROUND_MERGED, version=2)
            store.is_full = True
            blocked = syncer.told.wait(Kind.SYNCER_BLOCKED)
            assert "No space left" in blocked["reason"]
            known, steps = rounds(syncer), learners[0].step_count
            while learners[0].step_count < steps + 200:
                learners[0].messenger.wait(0.01)
            assert rounds(syncer) == known
            on_disk = SyncerStore(tmp_path / "refusing").load()
            assert on_disk is not None
            assert all(tuple(learner.versions) <= on_disk.versions for learner in learners)
            assert len(syncer.told.of(Kind.SYNCER_BLOCKED)) == 1

            store.is_full = False
            assert syncer.told.wait(Kind.SYNCER_FREED)["waiting"] >= 1
            version = on_disk.versions[0] + 4
            syncer.told.wait(Kind.ROUND_MERGED, fragment=0, version=version)
        merged = [(m["fragment"], m["version"]) for m in syncer.told.of(Kind.ROUND_MERGED)]
        assert len(merged) == len(set(merged))


def test_a_syncer_on_a_full_disk_starts_when_there_is_room() -> None:
    told, refusals = Told(), [OSError(errno.ENOSPC, "No space left on device")] * 2

    def make() -> str:
        if refusals:
            raise refusals.pop()
        return "a syncer"

    assert retry_while_disk_full(make, told.emit) == "a syncer"
    assert len(told.of(Kind.SYNCER_BLOCKED)) == 1


def test_a_disk_that_is_not_allowed_to_it_is_no_matter_of_waiting() -> None:
    def make() -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError):
        retry_while_disk_full(make, Told().emit)


# ---------------------------------------------------------------- numbers over many lives


def hello(policy: Policy, name: str = "learner-0") -> int:
    policy.hello(0.0, Hello(learner=name, incarnation=1))
    return policy.membership.last_epoch


def begin_life(store: SyncerStore) -> Policy:
    """What a syncer does with its numbers when it starts."""
    policy = Policy(RULES)
    taken = restore_policy(policy, store.load(), store.reserved(), 0.0)
    store.reserve(Reserved(rounds=taken.rounds + 1000, epochs=taken.epochs + 1000))
    return policy


def test_epochs_never_come_twice_even_if_no_life_merges_anything(tmp_path: Path) -> None:
    given = []
    for _ in range(4):
        policy = begin_life(SyncerStore(tmp_path))
        given += [hello(policy), hello(policy)]
    assert given == [1, 2, 1001, 1002, 2001, 2002, 3001, 3002]


def test_rounds_go_on_behind_all_that_were_reserved(tmp_path: Path) -> None:
    store = SyncerStore(tmp_path)
    store.begin(SPECS, {fragment: tensors(fragment, 0) for fragment in SHAPES})
    store.save_round(line(7, 0, 1), tensors(0, 1))
    store.reserve(Reserved(rounds=1000, epochs=1000))
    store.close()
    assert begin_life(SyncerStore(tmp_path)).rounds.begun == 1000
    assert begin_life(SyncerStore(tmp_path)).rounds.begun == 2000


def test_what_was_merged_of_a_life_cannot_be_given_again_after_a_restart(tmp_path: Path) -> None:
    store = SyncerStore(tmp_path)
    store.begin(SPECS, {fragment: tensors(fragment, 0) for fragment in SHAPES})
    merged = line(7, 0, 1)
    store.save_round(merged, tensors(0, 1))
    store.close()
    policy = begin_life(SyncerStore(tmp_path))
    given = merged.contributors[0]
    pushed = policy.membership.pushed_to(given.learner, given.incarnation)
    assert pushed == {0: given.tokens_to}


def test_learners_that_come_back_to_a_new_life_are_sent_to_the_furthest_merged_step(
    tmp_path: Path,
) -> None:
    policy, _ = restored(tmp_path)
    assert policy.membership.furthest_step == max(c.step for c in line(7, 0, 1).contributors) > 0


def test_the_time_of_training_is_added_up_over_the_lives(tmp_path: Path) -> None:
    rules = Settings(learners=NAMES, fragments=3, stop_time_s=60.0)
    store = SyncerStore(tmp_path)
    store.begin(SPECS, {fragment: tensors(fragment, 0) for fragment in SHAPES})
    merged = line(7, 0, 1)
    fields = {name: getattr(merged, name) for name in CommitRecord.__slots__}
    store.save_round(CommitRecord(**{**fields, "trained_s": 50.0}), tensors(0, 1))
    store.close()
    policy = Policy(rules)
    restore_policy(policy, store.load(), Reserved(), 3.0)
    assert policy.trained_s(3.0) == 50.0
    assert not _has_ended(policy, 12.0)
    assert _has_ended(policy, 13.0)


def _has_ended(policy: Policy, now_s: float) -> bool:
    return any(type(action).__name__ == "Stop" for action in policy.advance(now_s))


# ---------------------------------------------------------------- who was there before


def restored(tmp_path: Path) -> tuple[Policy, set[str]]:
    store = SyncerStore(tmp_path)
    store.begin(SPECS, {fragment: tensors(fragment, 0) for fragment in SHAPES})
    store.save_round(line(7, 0, 1), tensors(0, 1))
    store.close()
    policy = begin_life(SyncerStore(tmp_path))
    return policy, {given.learner for given in line(7, 0, 1).contributors}


def test_the_first_round_waits_a_moment_for_those_who_took_part_before(tmp_path: Path) -> None:
    policy, before = restored(tmp_path)
    assert before
    assert policy._is_gathering(0.1)
    assert policy.next_s() == RULES.suspect_after_s
    assert not policy._is_gathering(RULES.suspect_after_s)


# ---------------------------------------------------------------- a syncer that was stopped itself


def test_a_syncer_that_was_stopped_blames_nobody_for_its_own_silence() -> None:
    policy = Policy(RULES)
    hello(policy)
    (member,) = policy.membership.members
    policy.membership.record_step(0.0, member, 1, 0.01)
    policy.membership.record_step(0.01, member, 2, 0.01)
    policy.membership.discount(30.0)
    assert policy.membership.age(30.0) == []
    (suspicion,) = policy.membership.age(33.0)
    assert isinstance(suspicion, SuspicionChange)
