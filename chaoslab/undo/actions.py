"""Carrying out the entries of an undo log, one at a time.

    UndoEntry(do, facts) ─► undo ──────► Healed: what was done, and what could not be
                          └► leftovers ─► what of it is still there

Nothing here knows where entries are kept (`log`), when they are carried out (`janitor`) or which
verbs there are (`catalogue`). An entry that says anything of what is not the run's own is refused
(`facts`). All of it may be done twice.
"""

from typing import Any

import psutil

from chaoslab.core.errors import FleetError, PackageError
from chaoslab.undo.catalogue import verb_of
from chaoslab.undo.facts import AnyFacts, decode
from chaoslab.undo.verbs import Healed, UndoEntry, Verb


def undo(entry: UndoEntry) -> Healed:
    """Undo one entry. A failure is returned in `remaining`, so that other entries go on."""
    try:
        verb = verb_of(entry.do)
        if verb is None:
            return Healed(remaining=(f"this version does not know how to undo {entry.do!r}",))
        return verb.undo(_facts(entry, verb))
    except (FleetError, PackageError, OSError, psutil.Error) as error:
        return Healed(remaining=(str(error),))


def leftovers(entry: UndoEntry) -> tuple[str, ...]:
    """Things that an entry names and that exist now, in a few words each."""
    try:
        verb = verb_of(entry.do)
        return verb.left(_facts(entry, verb)) if verb else (f"something to undo by {entry.do!r}",)
    except (FleetError, PackageError, OSError, psutil.Error) as error:
        return (str(error),)


def looks(entry: UndoEntry) -> bool:
    """Whether the world shows if it was done."""
    verb = _known(entry.do)
    return verb is not None and verb.looks


def is_safe_during_run(entry: UndoEntry) -> bool:
    """Whether it may be done in the midst of a run, when its time is over."""
    verb = _known(entry.do)
    return verb is not None and verb.is_safe_during_run


def is_last(entry: UndoEntry) -> bool:
    """Whether it waits until all else is undone."""
    verb = _known(entry.do)
    return verb is not None and verb.is_last


def ends_with_boot(do: str) -> bool:
    """Whether a restart of the machine undoes it; no if that is not known."""
    verb = _known(do)
    return verb is not None and verb.ends_with_boot


def _known(do: str) -> Verb[Any] | None:
    try:
        return verb_of(do)
    except PackageError:
        return None  # which `undo` and `leftovers` say


def _facts(entry: UndoEntry, verb: Verb[AnyFacts]) -> AnyFacts:
    try:
        return decode(verb.facts, entry.facts, entry.directory)
    except FleetError as error:
        raise FleetError(
            f"undo entry {entry.number} ({entry.do}) of {entry.directory} is refused: {error}"
        ) from error
