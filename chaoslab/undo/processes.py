"""Undo of what was done to processes, and processes that outlived their harness.

    end_process       a tree of processes (a node's, a proxy's …), by its `identity`
    resume_process    a tree that was stopped goes on
    unwedge_process   a training thread that hangs goes on

A process is known by pid, start time and boot, or by the mark in its environment: never by a name.
One that an entry names is touched only if it bears a mark of the run (`harness.is_of_run`).
"""

import ctypes
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaoslab.core.process_identity import (
    Identity,
    identity_of,
    is_running,
    is_same,
    node_mark,
    send,
)
from chaoslab.core.process_tree import end_tree, living, processes, resume_tree, stopped
from chaoslab.undo.facts import NODE, Facts, require, require_match
from chaoslab.undo.harness import is_of_others
from chaoslab.undo.verbs import Examined, Healed, Leftover, Maintenance, Verb, limited, ok

_UNDO_S = 10.0
"""Time limit of ending a tree."""
_ADOPTERS = frozenset({"init", "systemd", "tini", "dumb-init", "docker-init", "catatonit"})
"""Programs that adopt orphans, besides process 1."""
_PR_GET_PDEATHSIG = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts(Facts):
    """A process that the run started, and the mark of all that it starts itself."""

    pid: int
    start_ticks: int
    boot_id: str
    namespaces: str
    node: str = "process"
    mark: str = ""
    """Below the directory: only processes of the run bear it. Empty: they bear none."""
    incarnation: int = 0

    def __post_init__(self) -> None:
        require_match(NODE, self.node, "node")
        require(self.pid > 1, f"process {self.pid} was not started by a run")
        is_own = Path(self.mark).is_relative_to(self.directory) and ".." not in self.mark
        require(is_own or not self.mark, f"the mark {self.mark!r} is not one of this run")

    @property
    def identity(self) -> Identity:
        """Which process it is. FleetError if that cannot be known from here, or if it is another
        one than the run's own: an entry may be of a copied record, or written by another program.
        """
        names = ("pid", "start_ticks", "boot_id", "namespaces")
        process = identity_of({name: getattr(self, name) for name in names})
        require(
            not is_of_others(process, self.directory),
            f"process {process.pid} runs without the mark of {self.directory}: if it is what "
            f"{self.node} started, end it by hand and take the line out",
        )
        return process


def _end_process(facts: ProcessFacts) -> Healed:
    """Kill a process with its tree, and what it left; a reused pid is left alone."""
    main = facts.identity
    found = living(main, facts.mark)
    if not found:
        return Healed()
    words = f"{facts.node}: {len(found)} left over ({', '.join(map(str, found))})"
    left = end_tree(main, facts.mark, limit_s=_UNDO_S)
    if left:
        return Healed(remaining=(f"{words}; cannot be ended: {left}",))
    return Healed(actions=(f"{words}, ended",))


def _processes(facts: ProcessFacts) -> tuple[str, ...]:
    found = living(facts.identity, facts.mark)
    return tuple(f"process {pid} of {facts.node}" for pid in found)


def _resume(facts: ProcessFacts) -> Healed:
    """Let a stopped tree go on; a reused pid is left alone."""
    what = _stopped(facts)
    resume_tree(facts.identity, facts.mark, limit_s=_UNDO_S)
    left = _stopped(facts)
    return Healed(
        actions=tuple(f"{one}, resumed" for one in what if one not in left), remaining=left
    )


def _stopped(facts: ProcessFacts) -> tuple[str, ...]:
    found = stopped(facts.identity, facts.mark)
    return tuple(f"{facts.node} (process {pid}) is stopped" for pid in found)


def _unwedge(facts: ProcessFacts) -> Healed:
    """Tell the main process; whether it hung cannot be seen from here."""
    main = facts.identity
    if not (is_same(main) and is_running(main.pid)):
        return Healed()
    try:
        send(main, signal.SIGUSR2)
    except OSError as error:
        return Healed(remaining=(f"process {main.pid} cannot be resumed: {error}",))
    return Healed(actions=(f"{facts.node} (process {main.pid}) was resumed",))


# ---------------------------------------------------------------- leftovers


def strays() -> Iterator[Leftover]:
    """Nodes and proxies of runs whose parent is dead; a training started by hand is no run."""
    for process in processes():
        try:
            words, mark = process.cmdline(), node_mark(process.pid)
            if mark is not None and not _is_contained(process) and _is_orphan(process):
                yield Leftover(
                    what=f"process {process.pid} outlived its harness: {' '.join(words)[:100]}",
                    where=mark,
                    remedy=f"kill -KILL {process.pid}",
                )
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or another user's, which we could not end anyway


def _is_contained(process: psutil.Process) -> bool:
    """Whether it is in a container, which its engine removes."""
    return Path(f"/proc/{process.pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()


def _is_orphan(process: psutil.Process) -> bool:
    """Adopted by process 1 or its like, unless that is a harness in a container."""
    parent = process.parent()
    if parent is None:
        return True
    is_adopter = parent.pid == 1 or parent.name() in _ADOPTERS
    return is_adopter and not any("chaoslab" in word for word in parent.cmdline())


# ---------------------------------------------------------------- what this machine can do


def _diagnose() -> Iterator[Examined]:
    yield _pidfd()
    yield _parent_death_signal()


def _pidfd() -> Examined:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return limited("pidfd", f"not there ({error}): exits are polled every 20 ms")
    return ok("pidfd", "exits are noticed at once")


def _parent_death_signal() -> Examined:
    name = "parent-death signal"
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    number = ctypes.c_int()
    if prctl is None or prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0) != 0:
        return limited(name, "not there: if the harness is killed, the janitor ends the nodes")
    return ok(name, "nodes die with the harness")


MAINTENANCE = Maintenance(
    verbs={
        "end_process": Verb(
            facts=ProcessFacts, undo=_end_process, left=_processes, ends_with_boot=True
        ),
        "resume_process": Verb(
            facts=ProcessFacts,
            undo=_resume,
            left=_stopped,
            is_safe_during_run=True,
            ends_with_boot=True,
        ),
        "unwedge_process": Verb(
            facts=ProcessFacts,
            undo=_unwedge,
            left=lambda _: (),
            is_safe_during_run=True,
            looks=False,
            ends_with_boot=True,
        ),
    },
    leftovers=lambda _: strays(),
    diagnose=_diagnose,
)
