"""Records as commands read them: one run in a list, its journal, its open undo entries."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.record.history import History
from chaoslab.record.journal_file import JOURNAL
from chaoslab.record.run_directory import RunDirectory
from chaoslab.undo.harness import is_in_progress
from chaoslab.undo.log import open_undos, undos_in_record
from chaoslab.undo.verbs import UndoEntry


class RunState(StrEnum):
    """What is true of a run that has no verdict yet."""

    RUNNING = "running"
    """It, or its twin, goes on."""
    NOT_JUDGED = "not judged"
    """It is over, or its harness died."""
    DAMAGED = "damaged"
    """Its run.json cannot be read."""


_LISTED = (
    "verdict", "exit_code", "outcome", "training_continued", "learners_rejoined", "seed", "fleet",
    "started", "simulated_s",
)  # fmt: skip


def run_json(run: RunDirectory) -> Mapping[str, Json]:
    """One line of `chaoslab list`, from run.json; only a run without a verdict is looked at.

    `damage` says why run.json cannot be read; null if it can.
    """
    facts, damage = _facts(run)
    return {
        "plan": run.plan_name,
        "id": run.id,
        "short_id": run.short_id,
        "state": RunState.DAMAGED if damage else facts.get("verdict") or state_of(run),
        "damage": damage,
        **{key: facts.get(key) for key in _LISTED},
        "lasted_s": None if damage else run.lasted_s,
        "path": str(run.path),
    }


def _facts(run: RunDirectory) -> tuple[Mapping[str, Json], str | None]:
    """What run.json holds, or why it cannot be read."""
    try:
        return run.facts, None
    except FleetError as error:
        return {}, str(error)


def state_of(run: RunDirectory) -> RunState:
    """Of a run without a verdict."""
    return RunState.RUNNING if is_in_progress(run.path) else RunState.NOT_JUDGED


def history_of(directory: RunDirectory) -> History:
    """Its journal; empty if the harness died before it could begin one.

    FleetError, which names file and line, if the journal is missing otherwise, or damaged.
    """
    if died_early(directory):
        return History(())
    return History.read(directory.path, left_open=tuple(_left_open(directory)))


def residue(
    directory: RunDirectory, tell: Callable[[UndoEntry], Iterable[str]]
) -> Iterator[Mapping[str, Json]]:
    """What `tell` says of each open undo entry of the run and its twin, and how to remove it."""
    return _told(directory, open_undos, tell)


def _left_open(directory: RunDirectory) -> Iterator[Mapping[str, Json]]:
    """Each undo that is open, whether anything of it is left on this machine or not: a record is
    judged elsewhere, too, and by others.
    """
    return _told(
        directory,
        undos_in_record,
        lambda entry: [f"undo {entry.number} ({entry.do}), which is still open"],
    )


def _told(
    directory: RunDirectory,
    read: Callable[[Path], Iterable[UndoEntry]],
    tell: Callable[[UndoEntry], Iterable[str]],
) -> Iterator[Mapping[str, Json]]:
    try:
        entries = read(directory.path)
    except FleetError as error:
        yield directory.residue(str(error))
        return
    for one in entries:
        yield from map(directory.residue, tell(one))


def died_early(directory: RunDirectory) -> bool:
    """Whether the harness was gone before it began to record."""
    facts = directory.facts
    has_begun = (directory.path / JOURNAL).exists()
    return not has_begun and "outcome" in facts and facts["outcome"] is None
