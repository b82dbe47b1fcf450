"""Process trees: a process and its descendants, found, signalled and ended by identity.

    Identity                ──► still the same process? ──► its group and descendants
    mark in the environment ──► processes that outlived their main process ────────┴──► signal

A process is known by its `identity`, never by its name, because a pid may be reused. The rest of a
tree whose main process is dead is found by the mark that the fleet put into its environment.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from chaoslab.core.process_identity import (
    Identity,
    identify,
    is_running,
    is_same,
    node_mark,
    send,
)
from chaoslab.core.realtime import prefer_process, realtime_priority

_PAUSE_S = 0.005
_STOPPING_S = 0.5
"""Longest time until a stopped process shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """State of a process: R running, S sleeping, D in the kernel, T stopped, Z zombie, or gone."""

    state: str
    rss_bytes: int = 0
    cpu_s: float = 0.0


GONE = ProcessStatus(state="gone")


def processes() -> Iterator[psutil.Process]:
    """Running processes by pid, each asked anew.

    `psutil.process_iter` keeps what it found. One whose pid has become another's since then refuses
    its parent, and the next call leaves the new process out.
    """
    for pid in psutil.pids():
        try:
            process = psutil.Process(pid)
        except psutil.Error:  # gone meanwhile
            continue
        yield process


def look(identity: Identity) -> ProcessStatus:
    """State of the process now; GONE if its pid belongs to another one."""
    if not is_same(identity):
        return GONE
    try:
        process = psutil.Process(identity.pid)  # which may be gone since
        with process.oneshot():
            used = process.cpu_times()
            return ProcessStatus(
                state=_STATES.get(process.status(), "S"),
                rss_bytes=process.memory_info().rss,
                cpu_s=used.user + used.system,
            )
    except psutil.ZombieProcess:
        return ProcessStatus(state="Z")
    except psutil.NoSuchProcess:
        return GONE


def look_until_stopped(seen_now: Callable[[], ProcessStatus]) -> ProcessStatus:
    """State of a process that was stopped, which may be inside the kernel: it is given time."""
    deadline = time.monotonic() + _STOPPING_S
    seen = seen_now()
    while seen.state in ("R", "S", "D") and time.monotonic() < deadline:
        time.sleep(0.001)
        seen = seen_now()
    return seen


def look_with_children(main: Identity) -> ProcessStatus:
    """State of the process, with the memory and CPU time of it and of those that it started."""
    seen = look(main)
    if seen.state == GONE.state:
        return GONE
    children = [look(child) for child in _known(_children(main.pid))]
    return replace(
        seen,
        rss_bytes=sum((child.rss_bytes for child in children), seen.rss_bytes),
        cpu_s=sum((child.cpu_s for child in children), seen.cpu_s),
    )


_STATES = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "T",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_DEAD: "gone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receivers:
    """Processes to which a signal to the tree of a main process is sent."""

    group: int
    """The process group that the main process leads, if there is one: its own pid."""
    outside: tuple[Identity, ...]
    """The main process and its descendants, as far as they are in other groups."""


def receivers(main: Identity) -> Receivers | None:
    """Present receivers; None if the main process is gone.

    A process that starts later is reached in the group, not outside. The group's number cannot be
    given to others while the main process is not reaped.
    """
    if not is_same(main):
        return None
    known = _known({main.pid, *_descendants(main.pid)} - {os.getpid()})
    outside = tuple(one for one in known if _group(one.pid) != main.pid)
    return Receivers(group=main.pid, outside=outside)


def signal_trees(
    mains: Sequence[Identity], number: int, prepared: Sequence[Receivers | None] = ()
) -> None:
    """Send a signal to main processes, their groups and all descendants, as close together as
    possible: all are found first, and groups come first.

    A main process whose pid was reused, and its descendants, are left out. `prepared`: what
    `receivers` found a moment ago, for each; processes started since are found afterwards.
    """
    prepared = prepared or [None] * len(mains)
    pairs = zip(mains, prepared, strict=True)
    found = [one for main, before in pairs if (one := before or receivers(main)) is not None]
    with realtime_priority():  # receivers wake up and compete for cores
        for one in found if number == signal.SIGKILL else ():
            prefer_process(one.group)  # a process dies only when it has a core
        for one in found:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(one.group, number)
        send_each((process for one in found for process in one.outside), number)
    for main, before in zip(mains, prepared, strict=True):
        if before is not None and (now := receivers(main)) is not None:
            send_each(set(now.outside) - set(before.outside), number)


def end_tree(main: Identity, mark: str, *, limit_s: float) -> tuple[int, ...]:
    """Kill the tree and the processes with its mark; wait until they are gone.

    Returns the pids that remain after `limit_s` seconds (such as a process blocked in the kernel).
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
    """Resume the whole tree and check that every process runs.

    Returns the pids that were never seen running within `limit_s` seconds. Each is checked until it
    was seen once: something else, such as a duty cycle, may stop it again.
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
    """Pids of the stopped processes of the tree."""
    return tuple(sorted(one.pid for one in _living(main, mark) if look(one).state == "T"))


def living(main: Identity, mark: str) -> tuple[int, ...]:
    """Pids of all running processes of the tree and of those with its mark."""
    return tuple(sorted(one.pid for one in _living(main, mark)))


def children(main: Identity) -> list[Identity]:
    """Its running children, in the order of their starts; none if it is gone."""
    if not is_same(main):
        return []
    found = [one for one in _known(_children(main.pid)) if is_running(one.pid)]
    return sorted(found, key=lambda one: (one.start_ticks, one.pid))


def send_each(processes: Iterable[Identity], number: int) -> None:
    """Send a signal to these processes alone."""
    for one in processes:
        _send(one, number)


def _living(main: Identity, mark: str) -> set[Identity]:
    found = _marked(mark)
    if is_same(main):
        found |= set(_known(_below(main.pid)))
    return {one for one in found if is_running(one.pid)}


def _known(pids: Iterable[int]) -> Iterator[Identity]:
    """Identities of the pids that exist."""
    return (one for one in map(identify, pids) if one is not None)


def _below(main: int) -> set[int]:
    """The process, all its descendants, and the process group that it leads."""
    found = {main, *_descendants(main)}
    if _group(main) == main:
        found |= {pid for pid in psutil.pids() if _group(pid) == main}
    return found - {os.getpid()}


def _descendants(main: int) -> set[int]:
    """Descendants by the kernel's lists of children, or without these by every process's parent."""
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        try:
            return {child.pid for child in psutil.Process(main).children(recursive=True)}
        except psutil.NoSuchProcess:
            return set()
    found: set[int] = set()
    pending = [main]
    while pending:
        children = set(_children(pending.pop())) - found
        found |= children
        pending += children
    return found


def _children(pid: int) -> Iterator[int]:
    """Children of all threads of a process; none if it is gone. No pathlib: threads may be many."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                words = file.read().split()
            yield from map(int, words)


def _marked(mark: str) -> set[Identity]:
    """Processes with this mark in their environment, as far as it is readable."""
    found = set()
    for pid in psutil.pids():
        process = identify(pid)  # first, so that a reused pid is not taken for the process found
        if process and pid != os.getpid() and node_mark(pid) == mark:
            found.add(process)
    return found


def _group(pid: int) -> int | None:
    """The process group; None if the process is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _send(process: Identity, number: int) -> None:
    """Ignore a process that may not be signalled: `living` reports what remains."""
    with suppress(PermissionError):
        send(process, number)
