"""A disk that refuses: what is insisted on waits, snapshots do not, and training ends all the same.

The disk refuses for real: something else is in the place of a file or of a folder.
"""

import time
from pathlib import Path

import numpy as np
import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.node import files
from chaoslab.diloco.node.snapshots import read_snapshot, snapshot_paths
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.syncer import disk_writes, training_state
from chaoslab.diloco.syncer.commit_log import HasBegun
from chaoslab.diloco.syncer.disk_writes import DiskWrites
from chaoslab.diloco.syncer.store import SyncerStore
from chaoslab.diloco.syncer.work import Work
from chaoslab.diloco.wire import wire_pb2 as pb
from tests.diloco.hand_learner import (
    SIZES,
    HandLearner,
    RunningSyncer,
    Told,
    joined,
    running_syncer,
)
from tests.diloco.syncer.test_program import still_merges
from tests.diloco.syncer.test_store import SHAPES, SPECS, holds, tensors

PARTS = pytest.mark.parametrize("part", ["specs.json", "fragment-1.a", ".commits.jsonl.partial"])
"""What `begin` writes first, between, and last."""


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_writes, "_AGAIN_S", 0.01)


def handed_in(syncer: RunningSyncer, name: str = "learner-0") -> HandLearner:
    """A learner that was asked for the initial parameters and has sent them."""
    learner = HandLearner(syncer, name)
    learner.hello()
    assert learner.hear("welcome")[0].source == "initial"
    for index, size in enumerate(SIZES):
        learner.push(pb.Push(fragment=index, base_version=-1), np.zeros(size, np.float32))
    return learner


# ---------------------------------------------------------------- snapshots


def test_a_snapshot_that_is_refused_is_reported_and_one_is_written_later(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    folder.touch()
    with running_syncer(tmp_path, evaluate_every=1) as syncer:
        learner = joined(syncer)
        assert syncer.told.wait(Kind.SYNCER_BLOCKED)["is_snapshot"]
        still_merges(syncer, learner)
        assert not syncer.told.of(Kind.SYNCER_FREED)
        folder.unlink()
        still_merges(syncer, learner)
        freed = syncer.told.wait(Kind.SYNCER_FREED)
        assert freed["is_snapshot"]
        assert freed["blocked_s"] > 0
    assert len(syncer.told.of(Kind.SYNCER_BLOCKED)) == 1
    assert read_snapshot(snapshot_paths(folder)[0]).round in (1, 2)  # that of the first may be late


def test_the_last_snapshot_is_tried_again_for_a_while(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    folder.touch()
    with running_syncer(tmp_path) as syncer:
        syncer.told.when[Kind.SYNCER_BLOCKED] = folder.unlink
        learner = joined(syncer)
        still_merges(syncer, learner)
    (last,) = snapshot_paths(folder)
    assert int(last.stem) == int(syncer.told.wait(Kind.SYNCER_FINAL)["committed_tokens"]) > 0
    assert syncer.told.of(Kind.SYNCER_FREED)


# ---------------------------------------------------------------- the beginning


@PARTS
def test_a_training_begins_once_the_disk_accepts_its_first_state(tmp_path: Path, part: str) -> None:
    with running_syncer(tmp_path) as syncer:
        (tmp_path / "state" / part).mkdir()
        learner = handed_in(syncer)
        assert not syncer.told.wait(Kind.SYNCER_BLOCKED)["is_snapshot"]
        assert SyncerStore(tmp_path / "state").load() is None
        (tmp_path / "state" / part).rmdir()
        syncer.told.wait(Kind.SYNCER_FREED)
        while min(learner.versions) < 0:
            learner.hear("fragment")
        learner.report()
        still_merges(syncer, learner)
    assert len(syncer.told.of(Kind.SYNCER_BLOCKED)) == 1
    assert not syncer.told.of(Kind.PUSH_REJECTED)


def test_who_hands_in_parameters_while_others_are_refused_is_told_that_they_are_not_needed(
    tmp_path: Path,
) -> None:
    with running_syncer(tmp_path) as syncer:
        (tmp_path / "state" / "specs.json").mkdir()
        first = handed_in(syncer)
        syncer.told.wait(Kind.SYNCER_BLOCKED)
        first.close()
        syncer.told.wait(Kind.MEMBER_LEFT)
        second = handed_in(syncer, "learner-1")
        (tmp_path / "state" / "specs.json").rmdir()
        while min(second.versions) < 0:
            second.hear("fragment")
        second.report()
        still_merges(syncer, second)
    assert {told["reason"] for told in syncer.told.of(Kind.PUSH_REJECTED)} <= {"not_asked"}


def test_a_syncer_that_is_asked_to_end_before_its_training_could_begin_says_so(
    tmp_path: Path,
) -> None:
    with running_syncer(tmp_path) as syncer:
        (tmp_path / "state" / "specs.json").mkdir()
        handed_in(syncer)
        syncer.told.wait(Kind.SYNCER_BLOCKED)
    final = syncer.told.wait(Kind.SYNCER_FINAL)
    assert (final["versions"], final["momentum_digests"]) == ({}, {})


def test_a_beginning_of_which_only_the_name_was_not_flushed_is_flushed_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {fragment: tensors(fragment, 0) for fragment in SHAPES}
    store = SyncerStore(tmp_path)

    def refuse(folder: Path) -> None:
        if (folder / "commits.jsonl").exists():
            raise OSError("Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(files, "flush_folder", refuse)
        with pytest.raises(OSError, match="Input"):
            store.begin(SPECS, first)
    store.begin(SPECS, first)
    begun = SyncerStore(tmp_path).load()
    assert begun is not None
    assert holds(begun, [0] * len(SHAPES))
    with pytest.raises(HasBegun):
        SyncerStore(tmp_path).begin(SPECS, first)


def test_a_training_that_another_process_began_is_no_matter_of_waiting(tmp_path: Path) -> None:
    first = {fragment: tensors(fragment, 0) for fragment in SHAPES}
    SyncerStore(tmp_path).begin(SPECS, first)
    told, store = Told(), SyncerStore(tmp_path)
    writes = DiskWrites(Work(lambda: None), emit=told.emit, now=time.monotonic)
    with pytest.raises(HasBegun):
        run_now(writes.retry(lambda: store.begin(SPECS, first)))
    assert not told.of(Kind.SYNCER_BLOCKED)


# ---------------------------------------------------------------- numbers


def test_a_syncer_whose_numbers_are_refused_for_good_ends_with_its_final_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_syncer(tmp_path) as syncer:
        (tmp_path / "state" / ".reserved.json.partial").mkdir()
        monkeypatch.setattr(training_state, "_LEFT_LEAST", 10**6)  # more are due at once
        syncer.told.wait(Kind.SYNCER_BLOCKED)
    assert syncer.told.wait(Kind.SYNCER_FINAL)["versions"] == {}
