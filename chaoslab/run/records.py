"""Records as commands read them: one run in a list, its journal, what it still owes."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.record.journal import JOURNAL, History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.undo.log import open_undos
from chaoslab.undo.verbs import UndoEntry

_LISTED = (
    "verdict", "exit_code", "outcome", "training_continued", "learners_rejoined", "seed", "fleet",
    "started",
)  # fmt: skip


def run_json(run: RunDirectory) -> Mapping[str, Json]:
    """One line of `chaoslab list`, from run.json alone."""
    facts = run.facts
    return {
        "plan": run.plan_name,
        "id": run.id,
        **{key: facts.get(key) for key in _LISTED},
        "lasted_s": run.lasted_s,
        "path": str(run.path),
    }


def history_of(directory: RunDirectory) -> History:
    """Its journal; empty if the harness died before it could begin one.

    FleetError, which names file and line, if the journal is missing otherwise, or damaged.
    """
    if died_early(directory):
        return History(())
    return History.read(directory.path, left_open=tuple(residue(directory, _left_open)))


def residue(
    directory: RunDirectory, tell: Callable[[UndoEntry], Iterable[str]]
) -> Iterator[Mapping[str, Json]]:
    """What `tell` says of each undo that the run or its twin still owes, and how to remove it."""
    try:
        owed = open_undos(directory.path)
    except FleetError as error:
        yield directory.residue(str(error))
        return
    for one in owed:
        yield from map(directory.residue, tell(one))


def _left_open(owed: UndoEntry) -> Iterator[str]:
    """Whether anything of it is left on this machine or not: a record is judged elsewhere, too."""
    yield f"undo {owed.number} ({owed.do}), which is still open"


def died_early(directory: RunDirectory) -> bool:
    """Whether the harness was gone before it began to record."""
    facts = directory.facts
    has_begun = (directory.path / JOURNAL).exists()
    return not has_begun and "outcome" in facts and facts["outcome"] is None
