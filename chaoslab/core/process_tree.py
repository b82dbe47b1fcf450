"""A process and everything below it: found, signalled and ended without ever hitting a stranger.

    Identity                ──► still the same process? ──► its group and descendants
    mark in the environment ──► what such a process left behind when it died ──────┴──► signal

A process is known by its `identity`, never by its name: a pid may be reused. What is left of a tree
whose main process is dead is known by the mark that the fleet put into its environment.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaoslab.core.process_identity import NODE_MARK, Identity, identify, is_same, send
from chaoslab.core.realtime import first_in_line

SPAWN_GUARD = Path(__file__).with_name("spawn_guard.py")
"""The program that a new process runs until it becomes what it was started for."""
_PAUSE_S = 0.005


def is_running(pid: int) -> bool:
    """Whether the pid belongs to a process that is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One process from outside: R running, S sleeping, D in the kernel, T stopped, Z, or gone."""

    state: str
    rss_bytes: int = 0
    cpu_s: float = 0.0


GONE = Look(state="gone")


def look(identity: Identity) -> Look:
    """What the kernel says of the process now; GONE when the pid is another's."""
    if not is_same(identity):
        return GONE
    process = psutil.Process(identity.pid)
    try:
        with process.oneshot():
            used = process.cpu_times()
            return Look(
                state=_STATES.get(process.status(), "S"),
                rss_bytes=process.memory_info().rss,
                cpu_s=used.user + used.system,
            )
    except psutil.ZombieProcess:
        return Look(state="Z")
    except psutil.NoSuchProcess:
        return GONE


_STATES = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "T",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_DEAD: "gone",
}


def signal_trees(mains: Iterable[Identity], number: int) -> None:
    """Send a signal to main processes, their groups and all descendants.

    As close together as this machine allows: who is meant is found out before the first signal
    (which wakes its receivers, and they want a core), then all groups follow one another at once,
    then those who left them. A main process whose pid belongs to another one by now, and what was
    below it, gets none.
    """
    groups: list[int] = []
    outsiders: list[Identity] = []
    with first_in_line():
        for main in filter(is_same, mains):
            below = {one: _group(one.pid) for one in _known(_below(main.pid))}
            groups += {main.pid} & set(below.values())
            outsiders += [one for one, group in below.items() if group != main.pid]
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        for one in outsiders:
            _send(one, number)


def end_tree(main: Identity, mark: str, *, limit_s: float) -> tuple[int, ...]:
    """Kill the tree and what is left of it, and wait until it is gone.

    Returns the pids that are still there after `limit_s` (a process inside the kernel may be).
    """
    deadline = time.monotonic() + limit_s
    while remaining := _living(main, mark):
        signal_trees([main], signal.SIGKILL)
        for one in remaining:
            _send(one, signal.SIGKILL)
        if time.monotonic() > deadline:
            return tuple(sorted(one.pid for one in remaining))
        time.sleep(_PAUSE_S)
    return ()


def resume_tree(main: Identity, mark: str, *, limit_s: float) -> tuple[int, ...]:
    """Let the whole tree go on, and see that it does.

    Returns the pids that were never seen going on within `limit_s`. That is seen once for each:
    something else may stop it again, such as a duty cycle.
    """
    deadline = time.monotonic() + limit_s
    signal_trees([main], signal.SIGCONT)
    waiting = _living(main, mark)
    while waiting := {one for one in waiting if look(one).state == "T"}:
        for one in waiting:
            _send(one, signal.SIGCONT)
        if time.monotonic() > deadline:
            return tuple(sorted(one.pid for one in waiting))
        time.sleep(_PAUSE_S)
    return ()


def stopped(main: Identity, mark: str) -> tuple[int, ...]:
    """Those processes of the tree that are stopped, by pid."""
    return tuple(sorted(one.pid for one in _living(main, mark) if look(one).state == "T"))


def living(main: Identity, mark: str) -> tuple[int, ...]:
    """All running processes of the tree, and those that carry its mark, by pid."""
    return tuple(sorted(one.pid for one in _living(main, mark)))


def _living(main: Identity, mark: str) -> set[Identity]:
    found = _marked(mark)
    if is_same(main):
        found |= set(_known(_below(main.pid)))
    return {one for one in found if is_running(one.pid)}


def _known(pids: Iterable[int]) -> Iterator[Identity]:
    """Those of them that are there."""
    return (one for one in map(identify, pids) if one is not None)


def _below(main: int) -> set[int]:
    """The process, all its descendants, and the group that it leads."""
    found = {main, *_descendants(main)}
    if _group(main) == main:
        found |= {pid for pid in psutil.pids() if _group(pid) == main}
    return found - {os.getpid()}


def _descendants(main: int) -> set[int]:
    """By the kernel's lists of children where it keeps them, else by everybody's parent."""
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        try:
            return {child.pid for child in psutil.Process(main).children(recursive=True)}
        except psutil.NoSuchProcess:
            return set()
    found: set[int] = set()
    pending = [main]
    while pending:
        for task in Path(f"/proc/{pending.pop()}/task").glob("*/children"):
            children = {int(pid) for pid in _words(task)} - found
            found |= children
            pending += children
    return found


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _marked(mark: str) -> set[Identity]:
    """The processes with this mark in their environment, as far as we may read it."""
    found = set()
    for pid in psutil.pids():
        who = identify(pid)  # first: should the pid be another's by now, it is not who is found
        try:
            if who and pid != os.getpid() and psutil.Process(pid).environ().get(NODE_MARK) == mark:
                found.add(who)
        except (psutil.Error, OSError):
            continue  # gone meanwhile, a zombie, or another user's, which we did not start
    return found


def _group(pid: int) -> int | None:
    """The process group, None when the process is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _send(who: Identity, number: int) -> None:
    """Who is not ours is passed over: `living` says afterwards who remains."""
    with suppress(PermissionError):
        send(who, number)
