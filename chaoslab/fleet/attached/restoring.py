"""Recipes that bring an attached node back: written before it is broken, outside the record.

    before the first fault ─► Recipe ─► <private folder>/<node>/recipe.json, mode 0600
    heal, janitor, `chaoslab heal` ─► restore ─► goes on, or runs again by its own command
                                      └ lacks ─► what of the node is not as it was

A recipe holds a command and an environment, which may have secrets, so it lies in the private
folder of the run, which only its user can write to. An undo log names that folder and the node.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import psutil

from chaoslab.core import private_files
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.process_identity import Identity, identify, is_running, send
from chaoslab.core.process_tree import (
    living,
    processes,
    resume_tree,
    send_each,
    signal_trees,
    stopped,
)
from chaoslab.core.spawning import find_program
from chaoslab.fleet.attached.pod_program import handles
from chaoslab.fleet.nodes.worker_search import (
    ANSWER_S,
    ENDING_S,
    QUIET_S,
    WorkerSearch,
    environment_of,
    rank_in,
)

RESTORE: Final = "restore_node"
"""Undo verb: node, folder."""
RELEASE: Final = "release_node"
"""Undo verb: node, folder; for a training thread that hangs."""
RECIPE: Final = "recipe.json"
_EXECVE_S: Final = 1.0
"""Longest time until the kernel shows a new program."""
_PAUSE_S: Final = 0.002
_STAYS_S: Final = 2.0
"""Time for which a restarted node has to live."""
_ENDING_S: Final = 10.0
"""Time limit of a requested end."""
_LOOK_S: Final = 0.05
_GOING_S: Final = 2.0
"""Longest time until all of a resumed tree was seen running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecipe:
    """A process of this machine, by what it was started with."""

    node: str
    command: tuple[str, ...]
    folder: str
    """Its working directory."""
    environment: Mapping[str, str] = field(repr=False)
    output: str
    """The file of its standard output."""
    errors: str
    """The file of its standard error, or /dev/null."""
    is_ours_to_start: bool = True
    """False: if it does not run, others start it."""
    rank: int | None = None
    """The node is this one of its workers, which no other starts; None: it is the process."""
    workers: int = 0
    """How many workers it has, if it is ended for one that is missing; 0: it is not."""
    nice: int = 0
    """Its niceness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecipe:
    """A container, by its name on an engine."""

    node: str
    engine: str
    container: str
    networks: Mapping[str, tuple[str, ...]]
    """Its names on each of its networks."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Its addresses on networks that gave it one."""
    is_ours_to_start: bool = True
    """Whether chaoslab may start it, as for a process."""
    keeps: str = ""
    """Its folder of checkpoints, as it sees it, if a fault may act on that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecipe:
    """A node in some pod of a namespace, by its own name: its pods come and go."""

    node: str
    server: str
    context: str
    namespace: str
    pod: str
    """Pod in which it was found; searched first."""
    selector: str = ""
    """Labels of the pods of a script, whose programs do not say which worker they are."""
    keeps: str = ""
    """As of a container."""


Recipe: TypeAlias = ProcessRecipe | ContainerRecipe | PodRecipe


def written(recipe: Recipe) -> bytes:
    """Content of its file."""
    return json.dumps(asdict(recipe)).encode()


def read(folder: Path, node: str) -> Recipe:
    """The recipe of a node. FleetError if it is gone or damaged, or others could write it."""
    try:
        found = json.loads(private_files.read(folder, node, RECIPE) or b"")
        kinds = {"container": ContainerRecipe, "namespace": PodRecipe}
        kind = next((kind for key, kind in kinds.items() if key in found), ProcessRecipe)
        return msgspec.convert(found, kind)
    except (OSError, ValueError, TypeError, msgspec.ValidationError) as error:
        raise FleetError(f"{node} cannot be restored: its recipe in {folder}: {error}") from error


# ---------------------------------------------------------------- a process


def running(recipe: ProcessRecipe) -> Identity | None:
    """The process of this user that runs this very command in this folder; None if none does."""
    for process in processes():
        try:
            is_it = (
                tuple(process.cmdline()) == recipe.command
                and process.cwd() == recipe.folder
                and process.uids().real == os.getuid()
                and process.status() != psutil.STATUS_ZOMBIE
                and rank_in(process.environ()) == rank_in(recipe.environment)
            )
        except psutil.Error:
            continue  # gone, or another user's
        if is_it and not _is_child_of_its_kind(process, recipe):
            return identify(process.pid)
    return None


def _is_child_of_its_kind(process: psutil.Process, recipe: ProcessRecipe) -> bool:
    """A learner of several hosts may start processes with its own command."""
    try:
        parent = process.parent()
        return parent is not None and tuple(parent.cmdline()) == recipe.command
    except psutil.Error:
        return False


def begin(recipe: ProcessRecipe) -> "subprocess.Popen[bytes]":
    """Start it as before, in a process group of its own; it outlives this process."""
    process = _started(recipe)
    deadline = time.monotonic() + _EXECVE_S
    while process.poll() is None and running(recipe) is None and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)  # the kernel shows no command line while it replaces the program
    return process


def await_end(pid: int, start_ticks: int, limit_s: float = _ENDING_S) -> None:
    """Wait for the end of a process; one that was asked to end has some time for it."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and _is_running(pid, start_ticks):
        time.sleep(_PAUSE_S)


def await_answer(recipe: ProcessRecipe, pid: int, start_ticks: int) -> tuple[str, ...]:
    """Wait until the launcher of an ended worker has started another, or has ended. One that does
    neither is ended with all of its workers, unless it was to start them; what was done.
    """
    began_s, passed_s = time.monotonic(), 0.0
    while passed_s < ANSWER_S:
        launcher = running(recipe)
        if launcher is None or launcher.start_ticks > start_ticks:
            return ()  # or has begun anew
        there = WorkerSearch(recipe.workers).find_at_once(launcher)
        worker = there.get(-1 if recipe.rank is None else recipe.rank)
        if worker is not None and worker.pid != pid:
            return ()
        if recipe.workers and len(there) >= recipe.workers - 1 and passed_s >= QUIET_S:
            break
        time.sleep(_LOOK_S)
        passed_s = time.monotonic() - began_s
    return _end_all_of(recipe) if recipe.workers else ()


def _end_all_of(recipe: ProcessRecipe) -> tuple[str, ...]:
    launcher = running(recipe)
    if launcher is None:
        return ()
    tree = [one for one in map(identify, living(launcher, "")) if one is not None]
    send_each(tree, signal.SIGTERM)
    _await_ends(tree, ENDING_S)
    signal_trees(tree, signal.SIGKILL)
    if left := _await_ends(tree, _ENDING_S):
        raise FleetError(f"{recipe.node}: its launcher cannot be ended: {left} still run")
    return (f"the launcher of {recipe.node} (process {launcher.pid}) was ended, with all below it",)


def _await_ends(tree: Sequence[Identity], limit_s: float) -> tuple[int, ...]:
    """Wait for the ends of processes; those that still run."""
    deadline = time.monotonic() + limit_s
    for one in tree:
        await_end(one.pid, one.start_ticks, deadline - time.monotonic())
    return tuple(one.pid for one in tree if _is_running(one.pid, one.start_ticks))


def end_left(recipe: ProcessRecipe, left: str) -> tuple[str, ...]:
    """Kill the workers of a launcher that has ended, since they write to the files of the next
    ones; what was done. One that ends by itself is given the time for it.

    `left`: each as pid:start_ticks. What has not the environment of the launcher is none of them.
    """
    done = []
    for pid, ticks in (map(int, one.split(":")) for one in left.split()):
        if not recipe.is_ours_to_start or running(recipe) is not None:
            break
        await_end(pid, ticks, _STAYS_S)
        process = identify(pid)
        if process and _is_running(pid, ticks) and _inherited(recipe, environment_of(process)):
            signal_trees([process], signal.SIGKILL)
            done.append(f"a worker of {recipe.node} (process {pid}) was ended")
    return tuple(done)


def _inherited(recipe: ProcessRecipe, environment: Mapping[str, str]) -> bool:
    return recipe.environment.items() <= environment.items()


def _is_running(pid: int, start_ticks: int) -> bool:
    process = identify(pid) if pid else None
    return process is not None and process.start_ticks == start_ticks and is_running(pid)


@contextmanager
def alone(recipe: ProcessRecipe) -> Iterator[None]:
    """Harness, janitor, `chaoslab heal` and other runs look and start one after the other."""
    try:
        with open(recipe.output, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise FleetError(f"{recipe.node}: {error}") from error


def _started(recipe: ProcessRecipe) -> "subprocess.Popen[bytes]":
    program = shutil.which(recipe.command[0], path=recipe.environment.get("PATH", os.defpath))
    try:
        with (
            open(recipe.output, "ab", buffering=0) as output,
            open(recipe.errors, "ab", buffering=0) as errors,
        ):
            process = subprocess.Popen(
                recipe.command,
                executable=program,
                cwd=recipe.folder,
                env=dict(recipe.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            with suppress(PermissionError, ProcessLookupError):  # may not be higher, or has ended
                os.setpriority(os.PRIO_PGRP, process.pid, recipe.nice)
            return process
    except OSError as error:
        raise FleetError(f"{recipe.node} cannot be started again: {error}") from error


def _require_to_stay(recipe: ProcessRecipe, process: "subprocess.Popen[bytes]") -> None:
    """FleetError if it ends at once."""
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(_STAYS_S)
        raise FleetError(f"{recipe.node} was started again and ended at once ({code})")


def let_go(process: "subprocess.Popen[bytes]") -> None:
    """Stop tracking a process that continues."""
    if process.poll() is None:
        process.returncode = 0  # or it would complain that it is not waited for


def lacks(recipe: ProcessRecipe) -> tuple[str, ...]:
    """Differences of the node from before, a clause each."""
    found = running(recipe)
    if found is None:
        return (f"{recipe.node} does not run",) if recipe.is_ours_to_start else ()
    return tuple(f"{recipe.node} (process {pid}) is stopped" for pid in stopped(found, ""))


def restore(recipe: ProcessRecipe) -> tuple[str, ...]:
    """Let it go on, or run it again if that is ours; what was done. FleetError if that fails.

    A worker is brought back by its launcher, if that runs again.
    """
    with alone(recipe):
        found = running(recipe)
        if found is None and not recipe.is_ours_to_start:
            return ()
        if found is None:
            process = begin(recipe)
            _require_to_stay(recipe, process)
            let_go(process)
            return (f"{recipe.node} was started again as process {process.pid}",)
    what = stopped(found, "")
    left = resume_tree(found, "", limit_s=_GOING_S) if what else ()
    if left:
        raise FleetError(f"{recipe.node} cannot be resumed: still stopped are {left}")
    return tuple(f"{recipe.node} (process {pid}), resumed" for pid in what)


def require_startable(recipe: ProcessRecipe) -> None:
    """AbilityError, before anything is broken, if it could not be started again."""
    path, why = recipe.environment.get("PATH", os.defpath), ""
    program = find_program(recipe.command[0], recipe.folder, path)
    if program is None:
        why = f"its program {recipe.command[0]!r} is not found"
    elif not os.path.isdir(recipe.folder):
        why = f"its folder {recipe.folder} is gone"
    else:
        for file in (recipe.output, recipe.errors):
            if not os.access(file, os.W_OK):
                why = f"{file}, to which it prints, is gone or not writable for you"
        if not _may_be_at(recipe.nice):
            why = f"its niceness is {recipe.nice}: start chaoslab with that"
    if why:
        raise AbilityError(f"{recipe.node} could not be started again after a fault: {why}")


def _may_be_at(nice: int) -> bool:
    """Whether what this process starts may have that niceness."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    if nice >= own:
        return True
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except PermissionError:
        return False
    os.setpriority(os.PRIO_PROCESS, 0, own)
    return True


def release(recipe: ProcessRecipe) -> tuple[str, ...]:
    """Tell its training thread to go on; whether that hung cannot be seen from here."""
    found = running(recipe)
    if found is None or not handles(found.pid, signal.SIGUSR2):
        return ()  # others have started it again, and it would die of the signal
    send(found, signal.SIGUSR2)
    return (f"{recipe.node} (process {found.pid}) was resumed",)
