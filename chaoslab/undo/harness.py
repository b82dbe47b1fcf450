"""Harness of a run: which process runs it now, by its undo log, and which processes are the run's.

    undo_log.jsonl ── the last `harness` line ──► Identity ─┬─ alive, with that log open: it runs
                                                            └─ of another machine: unknown

A record may be a copy, or written by another program: code that signals a process of it asks
`is_of_run`.
"""

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.private_files import NotOwned
from chaoslab.core.process_identity import (
    Identity,
    has_open,
    identity_of,
    is_ending,
    is_running,
    is_same,
    node_mark,
)
from chaoslab.undo.log import PLACES, UNDO_LOG, entry_in, lines_of


def harness_of(run_directory: Path) -> Identity | None:
    """The harness on this machine that runs it or its twin now.

    A damaged line says nothing, and hides no other; nor does a process that cannot be known from
    here (`unknown_harness`).
    """
    for one in _harnesses(run_directory):
        with suppress(FleetError):
            process = None if _where_else(one) else identity_of(one)
            if process and is_running(process.pid) and is_of_run(process, run_directory):
                return process
    return None


def is_in_progress(run_directory: Path) -> bool:
    """Whether it is being run, as far as this user may ask: another user's is left alone, too."""
    try:
        return harness_of(run_directory) is not None
    except NotOwned:
        return True
    except FleetError:
        return False  # the next action on it says why it cannot be read


def unknown_harness(run_directory: Path) -> str:
    """Why it is unknown here whether the run or its twin is running; empty if it is known."""
    reasons = (_why_unknown(one, run_directory) for one in _harnesses(run_directory))
    return next(filter(None, reasons), "")


def is_of_run(process: Identity, directory: Path) -> bool:
    """Whether a process that was read from a file is one of the run with this directory: it has an
    undo log there open, as a harness has, or bears the mark of a node below it.

    A record may be a copy, or written by another program: code that signals a process of it asks
    this first.
    """
    mark = node_mark(process.pid)
    is_marked = mark is not None and ".." not in mark and Path(mark).is_relative_to(directory)
    logs = (directory.joinpath(*names) for names in PLACES)
    return (is_marked and is_same(process)) or any(has_open(process, log) for log in logs)


def is_of_others(process: Identity, directory: Path) -> bool:
    """Whether it lives and belongs to another run; a process that ends meanwhile does not."""
    return not is_of_run(process, directory) and is_same(process) and not is_ending(process.pid)


def _harnesses(run_directory: Path) -> list[Mapping[str, Json]]:
    """Harnesses of a run and its twin that said last that they run it, and not that it is over."""
    found = (_harness(lines_of(run_directory, names) or ()) for names in PLACES)
    return [one for one in found if one is not None]


def _harness(lines: Sequence[bytes]) -> Mapping[str, Json] | None:
    harness: Mapping[str, Json] | None = None
    for line in lines:
        with suppress(ValueError, RecursionError, FleetError):
            facts = entry_in(line)
            if "harness" in facts:
                now = facts["harness"]
                harness = now if isinstance(now, Mapping) else None
    return harness


def _why_unknown(harness: Mapping[str, Json], run_directory: Path) -> str:
    """Why the harness is unknown: engines and disks are shared, and a record may be a copy."""
    if host := _where_else(harness):
        return f"it ran on {host}, and may still run there: call `chaoslab heal` on that machine"
    try:
        process = identity_of(harness)
    except FleetError as error:
        return str(error)
    if is_of_others(process, run_directory):
        return (
            f"it says that process {process.pid} runs it, which does not have its {UNDO_LOG} open: "
            "a copy of a record, whose own run is to be halted or healed"
        )
    return ""


def _where_else(harness: Mapping[str, Json]) -> str:
    """Name of its machine, unless that is this one."""
    host = str(harness.get("host", ""))
    return "" if host == socket.gethostname() else host
