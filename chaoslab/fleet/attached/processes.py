"""Attached nodes that are processes of this machine.

/proc ─► command lines of chaoslab's programs ─► Found
/proc/PID/fd/1, 2 ─► the files that a node prints to, followed as they grow
"""

import os
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

import psutil

from chaoslab.core import process_tree
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.core.process_identity import (
    Identity,
    boot_id,
    identify,
    node_mark,
    send,
)
from chaoslab.core.process_tree import processes
from chaoslab.fleet.attached.fleet import AttachedFleet
from chaoslab.fleet.attached.found import Found, command_of, training_of
from chaoslab.fleet.attached.node import AttachedNode, AttachedPlace
from chaoslab.fleet.attached.past import Past
from chaoslab.fleet.attached.restoring import (
    ProcessRecipe,
    alone,
    begin,
    let_go,
    require_startable,
    restore,
    running,
    written,
)
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.incarnation_files import Place, signal_name
from chaoslab.fleet.nodes.process import StrangersProcess
from chaoslab.fleet.settings import FleetRequest
from chaoslab.links.proxied.http_api import address_of
from chaoslab.undo.facts import is_loopback

_CHUNK_BYTES: Final = 1 << 20
NULL: Final = "/dev/null"


# ---------------------------------------------------------------- which there are


def find(syncer: int | None) -> Sequence[Found]:
    """The nodes of the training with this syncer, or of the only one; AbilityError if none is.

    Nodes that a run of chaoslab has started belong to that run, and are left out.
    """
    nodes = tuple(_nodes())
    syncers = [node for node in nodes if node.role is Role.SYNCER]
    if syncer is not None:
        syncers = [node for node in syncers if node.handle == str(syncer)]
    if len(syncers) > 1:
        pids = ", ".join(node.handle for node in syncers)
        raise AbilityError(
            f"several syncers run on this machine: name one by its pid, as in "
            f"processes:{syncers[0].handle} (there are {pids})"
        )
    where = "processes" if syncer is None else f"processes:{syncer}"
    ours = [node for node in nodes if node.role is Role.LEARNER and _dials(node, syncers)]
    none = (
        "no process of this user runs `python -m chaoslab.diloco.syncer`, but for runs of chaoslab"
    )
    return training_of(
        (*syncers, *ours), where, none if syncer is None else "no syncer has this pid"
    )


def of_others() -> Iterator[psutil.Process]:
    """Processes of this user that no run of chaoslab has started."""
    for process in processes():
        with suppress(psutil.Error):  # gone
            if process.uids().real == os.getuid() and node_mark(process.pid) is None:
                yield process


def _nodes() -> Iterator[Found]:
    for process in of_others():
        try:
            command = command_of(process.cmdline())
            parent = process.parent()
            is_part = parent is not None and parent.cmdline() == process.cmdline()
        except psutil.Error:
            continue  # gone, or another user's
        if command is None or is_part or "--host-index" in command.flags:
            continue
        yield Found(
            name=command.name,
            role=command.role,
            where=f"process {process.pid}",
            handle=str(process.pid),
            command=command,
        )


def _dials(learner: Found, syncers: Sequence[Found]) -> bool:
    """Whether it may belong to that syncer: it dials a port of this machine where that listens."""
    host, _, port = learner.command.flags.get("--syncer", "").rpartition(":")
    return _is_here(host) and any(port in _ports(int(syncer.handle)) for syncer in syncers)


def _is_here(host: str) -> bool:
    try:
        found = address_of(host.strip("[]"))
    except OSError:
        return False
    own = (one.address for some in psutil.net_if_addrs().values() for one in some)
    return is_loopback(found) or found in own


def _ports(pid: int) -> frozenset[str]:
    try:
        found = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return frozenset()
    return frozenset(str(one.laddr.port) for one in found if one.status == psutil.CONN_LISTEN)


def recipe_of(found: Found) -> ProcessRecipe:
    """Recipe of a new start; output without a file goes to `NULL`. FleetError if it is gone."""
    try:
        process = psutil.Process(int(found.handle))
        return ProcessRecipe(
            node=found.name,
            command=tuple(process.cmdline()),
            folder=process.cwd(),
            environment=process.environ(),
            output=file_of(process.pid, 1) or NULL,
            errors=file_of(process.pid, 2) or NULL,
            nice=int(process.nice()),
        )
    except psutil.Error as error:
        raise FleetError(f"{found.name} ({found.where}) cannot be looked at: {error}") from error


def file_of(pid: int, descriptor: int) -> str:
    """The regular file behind a descriptor; empty if it is something else."""
    link = Path(f"/proc/{pid}/fd/{descriptor}")
    try:
        is_file = stat.S_ISREG(link.stat().st_mode)
        return str(link.readlink()) if is_file else ""
    except OSError:
        return ""


def files_of(pid: int) -> Sequence[str]:
    """The files that its standard output and its standard error go to, each once."""
    found = (file_of(pid, 1), file_of(pid, 2))
    return tuple(dict.fromkeys(file for file in found if file and os.access(file, os.R_OK)))


def unreadable(found: Found) -> AbilityError:
    """Error for output that is needed and goes to no file."""
    return AbilityError(
        f"{found.name} ({found.where}) does not print to a file, so its events cannot be read: "
        f"start it with its standard output in one, as in `> {found.name}.log`"
    )


# ---------------------------------------------------------------- one of them


def past_of(recipe: ProcessRecipe) -> tuple[Past, int]:
    """Output until now, and its size in bytes. FleetError if it cannot be read."""
    past, size = Past(), 0
    try:
        with open(recipe.output, "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                past.take(chunk)
                size += len(chunk)
    except OSError as error:
        raise FleetError(f"the output of {recipe.node} cannot be read: {error}") from error
    return past, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A process that runs, when it is taken up."""

    identity: Identity
    process: "subprocess.Popen[bytes] | None" = None
    """The process, if it was started here."""
    printed: Mapping[str, int]
    """The files of its output that are read, and how many bytes of each are of earlier."""
    started_by: str = ""
    """Who has started it, if it was neither chaoslab nor the starter of all of them."""


class AttachedProcess(StrangersProcess, AttachedNode):
    """A process, found or started again."""

    def __init__(
        self,
        spec: NodeSpec,
        incarnation: int,
        place: AttachedPlace,
        *,
        recipe: ProcessRecipe,
        ran: Ran,
    ) -> None:
        self.identity, self._process, self._recipe = ran.identity, ran.process, recipe
        self.started_by = ran.started_by
        super().__init__(spec, incarnation, place)
        self.printed = ran.printed
        """This many bytes of each of its files were read, once it is over."""
        self.workers: tuple[Identity, ...] = ()
        """Workers that it had started, once it is to end."""
        self._logs = [self._opened(*one) for one in ran.printed.items()]

    def _opened(self, output: str, printed: int) -> BinaryIO:
        try:
            log = open(output, "rb", buffering=0)  # noqa: SIM115 - until it is over
            log.seek(printed)
        except OSError as error:
            raise FleetError(f"the output of {self.spec.name} cannot be read: {error}") from error
        return log

    @property
    def key_facts(self) -> Mapping[str, Json]:
        left = " ".join(f"{one.pid}:{one.start_ticks}" for one in self.workers)
        facts = {"pid": self.identity.pid, "start_ticks": self.identity.start_ticks}
        return {**facts, "left": left} if left else facts

    @property
    def has_exited(self) -> bool:
        is_reaped = self._process is not None and self._process.poll() is not None
        return is_reaped or super().has_exited

    def signal_all(self, name: str) -> None:
        if not self.is_over:
            process_tree.signal_trees([self.identity], signal.Signals[name])

    def signal(self, name: str) -> None:
        if not self.is_over:
            self.note_sent(name)
            send(self.identity, signal.Signals[name])

    def _printed(self) -> bytes:
        return _new_in(self._logs[0]) if self._logs else b""

    def _complained(self) -> bytes:
        return _new_in(self._logs[1]) if self._logs[1:] else b""

    def _ending(self) -> dict[str, Json]:
        """Exit; the exit code is known of a process that was started here."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return super()._ending()
        by = signal_name(-code) if code < 0 else None
        return {"exit_code": None if by else code, "signal": by}

    def _detach(self) -> None:
        if self._process is not None:
            let_go(self._process)
        if not any(log.closed for log in self._logs):
            self.printed = {log.name: log.tell() for log in self._logs}
        for log in self._logs:
            log.close()


def _new_in(log: BinaryIO) -> bytes:
    """New bytes of a file; of one that was emptied meanwhile all of them."""
    if os.fstat(log.fileno()).st_size < log.tell():
        log.seek(0)
    return log.read(_CHUNK_BYTES) or b""


# ---------------------------------------------------------------- all of them


class ProcessFleet(AttachedFleet[AttachedProcess]):
    """A training of chaoslab's own whose nodes are processes of this machine and this user."""

    kind = "processes"

    def __init__(
        self,
        place: Place,
        request: FleetRequest,
        *,
        restarts: bool = True,
        syncer: int | None = None,
    ) -> None:
        """`syncer`: its pid, where there are several."""
        super().__init__(place, request, restarts=restarts)
        self._syncer = syncer
        self._recipes: dict[str, ProcessRecipe] = {}

    def _find(self) -> Sequence[Found]:
        return find(self._syncer)

    def _identity(self, nodes: Sequence[Found]) -> str:
        """Identity by the file of its syncer's output, which stays when that is started again."""
        syncer = next(node for node in nodes if node.role is Role.SYNCER)
        return f"processes {os.getuid()} {boot_id()} {file_of(int(syncer.handle), 1)}"

    def _recipe(self, found: Found) -> bytes:
        recipe = replace(recipe_of(found), is_ours_to_start=self._restarts)
        if recipe.output == NULL:
            raise unreadable(found)
        if self._restarts:
            require_startable(recipe)
        for other in self._recipes.values():
            if other.output == recipe.output:
                raise AbilityError(
                    f"{other.node} and {found.name} print to one file, {recipe.output}, so "
                    "their lines cannot be told apart: give each a file of its own"
                )
        self._recipes[found.name] = recipe
        return written(recipe)

    def _adopted(self, spec: NodeSpec, found: Found) -> AttachedProcess:
        recipe = self._recipes[spec.name]
        past, printed = past_of(recipe)
        past.require_complete(spec.name, spec.role)
        identity = identify(int(found.handle))
        if identity is None:
            raise FleetError(f"{spec.name} ({found.where}) has ended")
        ran = Ran(identity=identity, printed={recipe.output: printed})
        life = AttachedProcess(spec, past.incarnation or 1, self._place, recipe=recipe, ran=ran)
        life.past = past
        return life

    def _begun(self, spec: NodeSpec, incarnation: int) -> AttachedProcess:
        """Next life, with its output since the last one if others started it."""
        recipe, printed = self._recipes[spec.name], self._lives[spec.name].printed
        process = None
        with alone(recipe):
            identity = running(recipe)
            if identity is None and self._restarts:
                process = begin(recipe)
                identity = identify(process.pid)
        if identity is None:
            raise FleetError(f"{spec.name} has ended as soon as it was started")
        return AttachedProcess(
            spec, incarnation, self._place,
            recipe=recipe,
            ran=Ran(
                identity=identity, process=process, printed=printed,
                started_by="" if process else "supervisor",
            ),
        )  # fmt: skip

    def _runs_again(self, name: str) -> bool:
        return running(self._recipes[name]) is not None

    def _restore(self, name: str) -> None:
        restore(self._recipes[name])
