"""Merges on their way to the disk: nothing is written before the last one was announced."""

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from chaoslab.diloco.node.events import silent
from chaoslab.diloco.node.phases import Phases
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord
from chaoslab.diloco.syncer.commits import Commits
from chaoslab.diloco.syncer.context import SyncerContext
from chaoslab.diloco.syncer.decisions import Contribution, Merge
from chaoslab.diloco.syncer.disk_writes import DiskWrites
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.training_state import (
    MergeInput,
    Publication,
    TrainingState,
    Update,
)
from chaoslab.diloco.syncer.work import Work
from tests.diloco.known import NODE
from tests.diloco.syncer.test_work import finish, new_inbox

TOO_EARLY_S = 0.05
"""How long a merge that has begun gets to be written before its time."""
GIVEN = Contribution(
    learner="learner-0", incarnation=1, epoch=4, step=9, c_steps=9, c_tokens=90, weight=900.0,
    tokens_from=0, tokens_to=90,
)  # fmt: skip
NOTHING: MergeInput[Update] = MergeInput(contributions=(), updates=(), excesses=(), median=1.0)


class Disk:
    """What Commits uses of a TrainingState, without parameters."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.given: list[Contribution] = []
        self.has_begun_two, self.has_two = threading.Event(), threading.Event()
        self.pushes = SimpleNamespace(of=lambda _: NOTHING)
        self.published = SimpleNamespace(put=lambda *_: None)

    def merge(self, fragment: int, *_: object) -> tuple[None, dict[int, float | None]]:
        if fragment == 1:
            self.has_begun_two.set()
        return None, {GIVEN.epoch: 0.25}

    def snapshot(self, **_: object) -> None: ...

    def publication(self, fragment: int, **_: object) -> int:
        return fragment

    def store(self, line: CommitRecord, _: object) -> None:
        self.stored.append(line.fragment)
        self.given += line.contributors
        if len(self.stored) == 2:
            self.has_two.set()


def merge_of(fragment: int) -> Merge:
    return Merge(
        round=fragment + 1, fragment=fragment, base_version=0, contributions=(GIVEN,), missed=(),
        quorum_s=0.0, grace_s=0.0, pulled_s=0.0, fragment_tokens=0,
    )  # fmt: skip


def begun(
    disk: Disk, work: Work, announced: list[int], given: list[Contribution] | None = None
) -> Commits:
    """Merges of two fragments, given one after the other."""

    async def announce(action: Merge, _: Publication) -> None:
        announced.append(action.fragment)
        if given is not None:
            given.extend(action.contributions)

    context = SyncerContext(
        policy=Policy(Settings(learners=("learner-0",))), state=cast("TrainingState", disk),
        work=work, writes=DiskWrites(work, emit=silent, now=lambda: 0.0),
        emit=silent, now=lambda: 0.0,
    )  # fmt: skip
    commits = Commits(context, announce=announce, phases=Phases(silent, NODE))
    for fragment in (0, 1):
        commits.add(merge_of(fragment))
    return commits


def test_of_the_merges_on_disk_at_most_one_was_not_announced() -> None:
    disk, inbox, announced = Disk(), new_inbox(), list[int]()
    work = Work(inbox.wake)
    begun(disk, work, announced)
    assert disk.has_begun_two.wait(60)
    assert not disk.has_two.wait(TOO_EARLY_S), "both are on disk, and nobody heard of either"
    finish(work, inbox, announced, 2)
    assert announced == disk.stored == [0, 1]
    run_now(work.close())


def test_a_syncer_that_ends_writes_and_announces_what_it_merged() -> None:
    disk, announced = Disk(), list[int]()
    work = Work(new_inbox().wake)
    commits = begun(disk, work, announced)
    run_now(work.close())
    run_now(work.finish())
    assert announced == disk.stored == [0, 1]
    assert commits.is_empty


def test_what_is_stored_and_announced_says_the_direction_of_each_contribution() -> None:
    disk, given = Disk(), list[Contribution]()
    work = Work(new_inbox().wake)
    begun(disk, work, [], given)
    run_now(work.close())
    run_now(work.finish())
    assert disk.given == given == [replace(GIVEN, cosine=0.25)] * 2
