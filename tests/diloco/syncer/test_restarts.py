"""The syncer over several lives, and with a disk that refuses: numbers, memory, nothing too early.

The real syncer on a thread, little learners on others, one disk.
"""

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved
from chaoslab.diloco.syncer.decisions import Stop
from chaoslab.diloco.syncer.disk_writes import retry_while_disk_full
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.resume import restore_policy
from chaoslab.diloco.syncer.store import SyncerStore, Tensors
from tests.diloco.hand_learner import RunningSyncer, Told, running_syncer
from tests.diloco.little_learner import LittleLearner, training
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
def trainings(syncer: RunningSyncer) -> Iterator[list[LittleLearner]]:
    with ExitStack() as stack:
        yield [stack.enter_context(training(syncer.address, name)) for name in NAMES]


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
        with trainings(syncer) as learners:
            syncer.told.wait(Kind.ROUND_MERGED, version=2)
            store.is_full = True
            blocked = syncer.told.wait(Kind.SYNCER_BLOCKED)
            assert "No space left" in blocked["reason"]
            known, steps = rounds(syncer), learners[0].step_count
            while learners[0].step_count < steps + 200:
                run_now(learners[0].messenger.wait(0.01))
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


async def no_wait(_: float) -> None:
    pass


def test_a_syncer_on_a_full_disk_starts_when_there_is_room() -> None:
    told, refusals = Told(), [OSError(errno.ENOSPC, "No space left on device")] * 2

    def make() -> str:
        if refusals:
            raise refusals.pop()
        return "a syncer"

    assert run_now(retry_while_disk_full(make, told.emit, no_wait)) == "a syncer"
    assert len(told.of(Kind.SYNCER_BLOCKED)) == 1


def test_a_disk_that_is_not_allowed_to_it_is_no_matter_of_waiting() -> None:
    def make() -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError):
        run_now(retry_while_disk_full(make, Told().emit, no_wait))


# ---------------------------------------------------------------- numbers over many lives


def begin_life(folder: Path, rules: Settings = RULES) -> Policy:
    """What a syncer does with its numbers when it starts."""
    store, policy = SyncerStore(folder), Policy(rules)
    taken = restore_policy(policy, store.load(), store.reserved(), 0.0)
    store.reserve(Reserved(rounds=taken.rounds + 1000, epochs=taken.epochs + 1000))
    return policy


MERGED = line(7, 0, 1)


def merge_once(folder: Path, merged: CommitRecord = MERGED) -> None:
    """A first life, in which that was merged."""
    store = SyncerStore(folder)
    store.begin(SPECS, {fragment: tensors(fragment, 0) for fragment in SHAPES})
    store.save_round(merged, tensors(0, 1))
    store.close()


def test_a_new_life_goes_on_behind_what_was_merged_and_reserved(tmp_path: Path) -> None:
    merge_once(tmp_path)
    policy = begin_life(tmp_path)
    (given,) = MERGED.contributors
    pushed = policy.membership.pushed_to(given.learner, given.incarnation)
    assert pushed == {0: given.tokens_to}, "it cannot be given again"
    assert policy.membership.furthest_step == given.step > 0
    assert policy.rounds.begun == MERGED.begun
    assert begin_life(tmp_path).rounds.begun == MERGED.begun + 1000


def test_the_time_of_training_is_added_up_over_the_lives(tmp_path: Path) -> None:
    merge_once(tmp_path, replace(MERGED, trained_s=50.0))
    policy = begin_life(tmp_path, replace(RULES, stop_time_s=60.0))
    assert policy.trained_s(0.0) == 50.0
    for now_s in (9.0, 10.0):
        has_ended = any(isinstance(action, Stop) for action in policy.advance(now_s))
        assert has_ended is (now_s == 10.0)


def test_the_first_round_waits_a_moment_for_those_who_took_part_before(tmp_path: Path) -> None:
    merge_once(tmp_path)
    policy = begin_life(tmp_path)
    assert policy._is_gathering(0.1)
    assert policy.next_s() == RULES.suspect_after_s
    assert not policy._is_gathering(RULES.suspect_after_s)
