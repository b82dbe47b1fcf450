"""The power fails after every file operation of a store, and nothing that was promised is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaoslab.diloco.learner import checkpoints
from chaoslab.diloco.node import files
from chaoslab.diloco.syncer import store
from tests.diloco.crash_points import (
    LEARNER,
    SYNCER,
    Outcome,
    Subject,
    Tally,
    main,
    try_out,
)
from tests.diloco.disk_model import SECTOR, Operation, PowerCut
from tests.memory_folder import in_memory

SUBJECTS = pytest.mark.parametrize("subject", [SYNCER, LEARNER], ids=lambda one: one.name)


@pytest.fixture
def place() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


def some(operations: int) -> range:
    """Operations of a first life before which it is killed: enough to meet each kind."""
    return range(0, operations, 11)


def few(operations: int) -> range:
    return range(7, operations, 23)


def nobody(_operations: int) -> range:
    return range(0)


def found(tally: Tally) -> set[Outcome]:
    return {outcome for (_, outcome), count in tally.outcomes.items() if count}


@SUBJECTS
@pytest.mark.parametrize(
    ("limit", "kills"),
    [
        pytest.param(8, few, marks=pytest.mark.gate, id="sample"),
        pytest.param(16, some, marks=pytest.mark.deep, id="more"),
    ],
)
def test_wherever_the_power_fails_all_that_was_promised_is_there(
    place: Path, subject: Subject, limit: int, kills: Callable[[int], range]
) -> None:
    tally = try_out(subject, place / "live", limit=limit, kills=kills)
    assert tally.wrong == []
    assert found(tally) == {Outcome.KEPT, Outcome.AHEAD}
    assert {"create", "write", "flush file", "rename", "flush folder"} <= set(tally.points)


@pytest.mark.deep
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_wherever_the_power_fails_after_a_kill_at_every_operation() -> None:
    assert main(["--limit", "64"]) == 0


@pytest.mark.deep
@SUBJECTS
def test_a_store_with_its_durability_switched_off_is_caught(place: Path, subject: Subject) -> None:
    tally = try_out(subject, place / "live", durable=False, limit=8, kills=nobody)
    assert Outcome.LOST in found(tally)


def nothing(*_: object, **__: object) -> None:
    """In place of a flush."""


@pytest.mark.deep
@SUBJECTS
@pytest.mark.parametrize(
    ("owner", "name"), [(files.File, "flush"), (files, "flush_folder")], ids=["bytes", "names"]
)
def test_a_store_that_leaves_out_one_kind_of_flush_is_caught(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    subject: Subject,
    owner: object,
    name: str,
) -> None:
    monkeypatch.setattr(owner, name, nothing)
    for module in (store, checkpoints) if owner is files else ():
        monkeypatch.setattr(module, name, nothing)
    tally = try_out(subject, place / "live", limit=8, kills=nobody)
    assert found(tally) & {Outcome.LOST, Outcome.REFUSED, Outcome.MIXED}


@pytest.mark.deep
def test_what_a_killed_life_could_not_flush_is_flushed_before_anybody_goes_by_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "flush_all", nothing)
    tally = try_out(SYNCER, place / "live", limit=8, kills=some_late)
    assert Outcome.LOST in found(tally)


def some_late(operations: int) -> range:
    """Every operation of the last merge of a first life."""
    return range(operations - 9, operations)


# ---------------------------------------------------------------- the model itself


def left(*operations: Operation) -> list[dict[str, bytes | None]]:
    disk = PowerCut(limit=1000)
    for operation in operations:
        disk.follow(operation)
    return [dict(state) for state in disk.states()]


CREATED = Operation(kind="create", path="a", inode=1)
WRITTEN = Operation(kind="write", path="a", inode=1, content=bytes(SECTOR) + b"x" * SECTOR)
FLUSHED = Operation(kind="flush file", path="a", inode=1)
LISTED = Operation(kind="flush folder", path=".")


def test_a_file_whose_folder_was_not_flushed_may_be_gone_with_all_its_flushed_bytes() -> None:
    assert left(CREATED, WRITTEN, FLUSHED) == [{"a": WRITTEN.content}, {}]


def test_bytes_that_were_not_flushed_may_be_missing_cut_off_or_zeros() -> None:
    contents = [state["a"] for state in left(CREATED, LISTED, WRITTEN)]
    assert {WRITTEN.content, b"", bytes(2 * SECTOR), bytes(SECTOR)} <= set(contents)


def test_flushed_bytes_under_a_flushed_name_are_all_that_can_be_left() -> None:
    assert left(CREATED, WRITTEN, FLUSHED, LISTED) == [{"a": WRITTEN.content}]


def test_a_rename_may_come_to_the_disk_before_the_bytes_of_what_was_renamed() -> None:
    renamed = Operation(kind="rename", path="b", source="a", inode=1)
    states = left(CREATED, WRITTEN, renamed)
    assert {"b": b""} in states
    assert not [state for state in states if {"a", "b"} <= set(state)]
