"""Processes of a training of the user's own that runs on this machine already.

    pid:4711 ────────► its main process ─┬─ has workers below it ─► launcher, worker-0, worker-1, …
    pattern:train.py ► those that match ─┴─ none ─────────────────► worker-0, or one for each match

What only waits for a command (`timeout`, `sh -c`, a script of a shell) is passed over. Nodes that a
run of chaoslab has started, chaoslab itself and what has started it are left out.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import psutil

from chaoslab.core.errors import AbilityError
from chaoslab.core.process_identity import Identity, identify
from chaoslab.core.process_tree import children, processes
from chaoslab.fleet.attached.found import Found, numbered, of_script
from chaoslab.fleet.attached.pod_program import only_waits
from chaoslab.fleet.attached.processes import files_of, of_others
from chaoslab.fleet.base import Role
from chaoslab.fleet.nodes.worker_search import (
    WorkerSearch,
    command_of,
    environment_of,
    rank_in,
    ranked_below,
)
from chaoslab.plan.model import LAUNCHER
from chaoslab.trainers.reading import plain_lines

_SHOWN: Final = 5
_TAIL_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Name of a training by exactly one of both."""

    pid: int | None = None
    pattern: str = ""
    """Regular expression, searched for in command lines."""

    def __str__(self) -> str:
        return f"pattern:{self.pattern}" if self.pid is None else f"pid:{self.pid}"


def find(which: Which, workers: int = 1, *, is_part: bool = False) -> Sequence[Found]:
    """The nodes of the training, a launcher before its workers. AbilityError if there are none.

    `workers`: how many a launcher has that gives them no rank. `is_part`: the training has others
    on other machines; each process that matches is one of its workers, with all below it.
    """
    mains = [_by_pid(which)] if which.pid is not None else list(_by_pattern(which.pattern))
    if not mains:
        raise AbilityError(f"{which}: {_nothing(which.pattern)}")
    if is_part:
        return _beside(mains)
    launchers = [one for one in mains if ranked_below(one)]
    if len(mains) > 1 and launchers:
        raise AbilityError(
            f"{which}: several trainings match, one of them a launcher: name one by its pid, "
            f"as in pid:{launchers[0].pid} ({_shown(mains)})"
        )
    if len(mains) > 1:
        return numbered(_beside(mains), str(which))
    main = mains[0]
    below: Mapping[int, Identity] = ranked_below(main)
    if not below and workers > 1:
        below = WorkerSearch(workers).find_at_once(main)
    if not below:
        return (_found("worker-0", Role.LEARNER, main),)
    if sorted(below) != list(range(len(below))):
        ranks = ", ".join(map(str, sorted(below)))
        raise AbilityError(
            f"{which}: the workers of {_shown([main])} have the ranks {ranks} on this machine, and "
            "those of a training are counted from 0: it runs on several machines, or is starting"
        )
    return (
        _found(LAUNCHER, Role.LAUNCHER, main),
        *(_found(f"worker-{rank}", Role.LEARNER, below[rank]) for rank in sorted(below)),
    )


def printed(nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:
    """The last lines that each node has printed to a file; what is everybody's, of the first."""
    by_file: dict[str, str] = {}
    for node in nodes:
        for file in files_of(int(node.handle)):
            by_file.setdefault(file, node.name)
    lines: dict[str, list[str]] = {}
    for file, name in by_file.items():
        lines.setdefault(name, []).extend(_last_lines(file))
    return lines


def _last_lines(file: str) -> Sequence[str]:
    """Empty if nobody may read it."""
    try:
        with open(file, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
            text = log.read(_TAIL_BYTES)
    except OSError:
        return ()
    return plain_lines(text)


def _beside(mains: Sequence[Identity]) -> Sequence[Found]:
    """Workers that were started each by itself, in the order of their starts, with their ranks."""
    ordered = sorted(mains, key=lambda one: (one.start_ticks, one.pid))
    return [
        replace(_found("", Role.LEARNER, one), rank=rank_in(environment_of(one))) for one in ordered
    ]


def _nothing(pattern: str) -> str:
    """Why nothing matches: nothing runs, or what does is another user's."""
    for process in processes():
        with suppress(psutil.Error):  # gone
            is_of_others = process.uids().real != os.getuid()
            if is_of_others and re.search(pattern, shlex.join(process.cmdline())):
                user = process.username()
                return (
                    f"process {process.pid} matches, and belongs to {user}, whose processes are "
                    f"not yours to signal: be {user}"
                )
    return "no command line of a process of this user matches, but for runs of chaoslab"


def _found(name: str, role: Role, one: Identity) -> Found:
    return of_script(name, f"process {one.pid}: {_command(one)}", str(one.pid), role)


def _by_pid(which: Which) -> Identity:
    pid = which.pid or 0
    main = identify(pid)
    if main is None or pid not in {one.pid for one in _usable()}:
        raise AbilityError(
            f"{which}: no process of this user has this pid, or chaoslab runs in it itself"
        )
    return _innermost(main)


def _by_pattern(pattern: str) -> Iterator[Identity]:
    """The topmost that match, and that do not only wait for one which matches."""
    matches = {}
    for one in _usable():
        if re.search(pattern, _command(one)):
            inner = _innermost(one)
            matches[inner.pid] = inner
    for one in matches.values():
        above = _ancestors(one.pid)
        if not above & matches.keys():
            yield one


def _usable() -> Iterator[Identity]:
    """Processes of this user that may be broken."""
    own = {os.getpid(), *_ancestors(os.getpid())}
    for process in of_others():
        one = identify(process.pid)
        if one and one.pid not in own and command_of(one):
            yield one


def _ancestors(pid: int) -> set[int]:
    try:
        return {one.pid for one in psutil.Process(pid).parents()}
    except psutil.Error:
        return set()


def _innermost(one: Identity) -> Identity:
    """The process itself, or the only one for which it waits."""
    while True:
        below = children(one)
        if len(below) != 1 or not _only_waits(command_of(one), command_of(below[0])):
            return one
        one = below[0]


def _only_waits(words: Sequence[str], inner: Sequence[str]) -> bool:
    """Whether its command is a shell's, or ends with the inner one."""
    return bool(words) and only_waits(list(words), list(inner))


def _command(one: Identity) -> str:
    return shlex.join(command_of(one))


def _shown(mains: Sequence[Identity]) -> str:
    more = f" and {len(mains) - _SHOWN} more" if len(mains) > _SHOWN else ""
    return "; ".join(f"process {one.pid}: {_command(one)[:80]}" for one in mains[:_SHOWN]) + more
