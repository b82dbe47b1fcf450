"""Leftovers of earlier runs on this machine, each with the command that removes it.

    undo logs of dead runs ─► what is open and still there, and half-written files in their records
    the machine itself ─────► what no undo log that is known names: its record is elsewhere, or gone

The second part comes from the packages that may have left it (`verbs.Maintenance`). Looking changes
nothing.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.units import plural
from chaoslab.undo.actions import leftovers
from chaoslab.undo.catalogue import maintenance
from chaoslab.undo.harness import is_in_progress
from chaoslab.undo.janitor import find_runs, half_written
from chaoslab.undo.log import open_undos
from chaoslab.undo.verbs import Leftover


def find(runs_root: Path) -> tuple[Leftover, ...]:
    """Everything, looked for on the machine and below `runs_root`, which need not exist."""
    return (*_open(runs_root), *_half_written(runs_root), *unnamed(runs_root))


def unnamed(runs_root: Path) -> Iterator[Leftover]:
    """Things on the machine that no undo log below `runs_root` names."""
    for source in maintenance().values():
        yield from source.leftovers(runs_root)


def _open(runs_root: Path) -> Iterator[Leftover]:
    """Residue of runs whose harness is dead."""
    for run in find_runs(runs_root):
        try:
            left = sorted({what for entry in open_undos(run) for what in leftovers(entry)})
        except FleetError as error:
            yield Leftover(what=f"an undo log that cannot be read: {error}", where=str(run),
                          remedy=_heal(run))  # fmt: skip
            continue
        if left:
            shown = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
            yield Leftover(
                what=f"{plural(len(left), 'leftover')} of a finished run ({shown})",
                where=str(run),
                remedy=_heal(run),
            )


def _half_written(runs_root: Path) -> Iterator[Leftover]:
    """Files that a harness was about to put in place of others."""
    for run in runs_root.glob("[!.]*/[!.]*"):
        if run.is_symlink() or run.parent.is_symlink() or is_in_progress(run):
            continue
        for path in half_written(run):
            yield Leftover(what=f"half a file, {path.name}", where=str(path.parent),
                          remedy=_heal(run))  # fmt: skip


def _heal(run: Path) -> str:
    """The command that heals a run, quoted for a shell: a record may be called anything."""
    return f"chaoslab heal {shlex.quote(str(run))}"
