"""How the process of a local node begins: as a program of its own, or as a fork.

    Start ─┬─► executed: fork ─► spawn guard ─► exec              (any program, takes imports)
           └─► ForkServer.fork: a request ─► a fork that has imported the program already

Both give a child of this process that leads a group, has the mark of its node, and waits at its
gate. A fork server runs one program with one environment. It is started with the first node that
could use it and serves later ones, so the first processes of a run start as on any machine; while
it is not ready, or once it has ended, nodes are executed.
"""

import ctypes
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from chaoslab.core.errors import HarnessBug
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.core.process_identity import NODE_MARK, Identity, identify
from chaoslab.core.process_tree import end_tree, living
from chaoslab.core.spawn_guard import PR_SET_CHILD_SUBREAPER, ask_the_kernel
from chaoslab.core.spawning import SPAWN_GUARD
from chaoslab.fleet.local import fork_server
from chaoslab.fleet.local.fork_server import MESSAGE_BYTES, ROOM
from chaoslab.undo.base import PendingUndos, UndoLog

_log = logging.getLogger(__name__)
_NAME = "fork-server"
_ROOM_CHARS = 4000
"""Room for the command line of a node, and for what is added to its environment."""
_ANSWER_S = 2.0
"""How long a fork may take until the server counts as hanging."""
_END_S = 5.0
_PR_GET_CHILD_SUBREAPER = 37
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy's BLAS otherwise starts threads when it is imported."""


class Process(Protocol):
    """A started child of this process; `subprocess.Popen` is one."""

    pid: int

    @property
    def stdin(self) -> IO[bytes] | None:
        """Our end of its standard input, if that is a pipe."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """Our end of its standard output."""
        ...

    def kill(self) -> None:
        """SIGKILL it, if it was not reaped."""
        ...

    def wait(self) -> int:
        """Reap it: its exit code, or the negative number of the signal that ended it."""
        ...


class Gate:
    """A pipe on which a new process waits for "g" before it runs anything."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()

    def go(self) -> None:
        """Let the process that waits there run."""
        with suppress(BrokenPipeError):  # it was killed already; its exit will be noticed
            os.write(self._write_end, b"g")

    def close(self) -> None:
        """A process that was not told to go then reads the end of the pipe, and exits."""
        os.close(self.read_end)
        os.close(self._write_end)

    def renew(self) -> None:
        """Another pipe for another process; whatever waits at this one exits."""
        ends = os.pipe()
        self.close()
        self.read_end, self._write_end = ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What one process of a node begins with."""

    command: Sequence[str]
    environment: Mapping[str, str]
    """All of it, the mark of the node included."""
    errors: Path
    """File for its standard error."""
    gate: Gate
    """Where it waits before it runs anything."""
    hears: bool
    """Whether its standard input is a pipe; else there is nothing on it."""


def executed(start: Start) -> Process:
    """A process that executes the spawn guard, then the command. OSError if it cannot begin."""
    gate = start.gate.read_end
    guard = (sys.executable, "-I", "-S", str(SPAWN_GUARD), str(gate), str(os.getpid()))
    with start.errors.open("wb") as errors:
        return subprocess.Popen(
            [*guard, *start.command],
            stdin=subprocess.PIPE if start.hears else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=dict(start.environment),
            process_group=0,  # no session: see the spawn guard
            pass_fds=(gate,),
            bufsize=0,
        )


class Forked:
    """A process that a fork server made and that is a child of ours."""

    def __init__(
        self, pid: int, stdin: IO[bytes] | None, stdout: IO[bytes], imports_cpu_s: float
    ) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.imports_cpu_s = imports_cpu_s
        """CPU time that the imports took which it began with."""
        self._code: int | None = None

    def kill(self) -> None:
        """SIGKILL it, if it was not reaped."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Reap it: its exit code, or the negative number of the signal that ended it."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code


class ForkServer:
    """The fork server of one fleet: one program, one environment."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], home: Path, undo_log: UndoLog
    ) -> None:
        """Start it for nodes with this command and environment; it is ready some time later.

        It writes its errors to `home`. FleetError or OSError if it cannot be started.
        """
        self.imports_cpu_s: float | None = None
        """CPU time that its imports took; None until it is ready."""
        self._program, self._environment = tuple(command[:3]), dict(environment)
        self._mark = f"{home}/{_NAME}"
        self._pending_undos = PendingUndos(undo_log)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWER_S)
        with ExitStack() as if_it_fails, theirs, closing(Gate()) as gate:
            if_it_fails.callback(self._control.close)
            self._process = self._spawn(home / f"{_NAME}.log", theirs.fileno(), gate.read_end)
            if_it_fails.callback(self._process.wait)
            if_it_fails.callback(self._process.kill)
            self._identity = self._write_down()
            gate.go()
            if_it_fails.pop_all()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    @staticmethod
    def why_not() -> str:
        """What this machine lacks for a fork server; empty if nothing."""
        if not can_adopt():
            return "this kernel gives orphaned processes to init alone (no PR_SET_CHILD_SUBREAPER)"
        if not Path("/proc/self/stat").exists():
            return "no /proc, in which a fork shows its command line and environment"
        return ""

    @staticmethod
    def can_run(command: Sequence[str]) -> bool:
        """Whether a fork server could run this command: a module, by the interpreter of ours."""
        return len(command) > 2 and (command[0], command[1]) == (sys.executable, "-m")

    def serves(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether it is ready to fork a node with this command and environment.

        Libraries read their settings from the environment when they are imported.
        """
        is_same = (tuple(command[:3]), dict(environment)) == (self._program, self._environment)
        return is_same and self._is_ready()

    def fork(self, start: Start) -> Process | None:
        """A fork that begins like this; None if the server does not answer, which ends it.

        The gate is renewed then, so that a fork that comes too late takes no other's "g".
        """
        with ExitStack() as ours, ExitStack() as theirs:
            stdin, stdout, handles = _standard_files(start, ours, theirs)
            pid = self._pid_of(start, handles)
            if pid is None or self.imports_cpu_s is None:
                return None
            ours.pop_all()
            return Forked(pid, stdin, stdout, self.imports_cpu_s)

    def close(self) -> tuple[int, ...]:
        """End it and its spare. May be repeated. Returns the pids that remain."""
        self.imports_cpu_s = None
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        remaining = end_tree(self._identity, self._mark, limit_s=_END_S)
        if not remaining:
            self._process.wait()
            self._pending_undos.settle_all()
        return remaining

    # ---------------------------------------------------------------- inside

    def _pid_of(self, start: Start, handles: Sequence[int]) -> int | None:
        """The fork's, once it is a child of ours."""
        request = {"argv": list(start.command), "environment": dict(start.environment)}
        message = json.dumps(request).encode()
        if len(message) > MESSAGE_BYTES:
            return None
        try:
            with _adopting():
                socket.send_fds(self._control, [message], handles)
                pid = int(json.loads(self._control.recv(MESSAGE_BYTES))["pid"])
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except (OSError, ValueError, KeyError) as error:
            _log.warning("nodes are executed from now on, no longer forked: %r", error)
            self._give_up(start)
            return None
        return pid

    def _give_up(self, start: Start) -> None:
        """End the server and what it made for this start, whoever's child that is by now."""
        mark = start.environment[NODE_MARK]
        made = {*living(self._identity, self._mark), *living(self._identity, mark)} - {self.pid}
        start.gate.renew()  # before the server can learn that nobody waits for its answer
        self.close()
        end_tree(self._identity, mark, limit_s=_END_S)
        for adopted in (*made, -self.pid):  # a fork may have left the server's process group
            with suppress(ChildProcessError):
                while os.waitpid(adopted, os.WNOHANG)[0]:
                    pass

    def _is_ready(self) -> bool:
        if self._control.fileno() < 0:
            return False
        if self.imports_cpu_s is None and select.select([self._control], [], [], 0)[0]:
            message = self._control.recv(MESSAGE_BYTES)
            if not message:
                _log.warning("nodes are executed, not forked: the fork server has ended")
                self.close()
                return False
            self.imports_cpu_s = float(json.loads(message)["imports_cpu_s"])
        return self.imports_cpu_s is not None

    def _spawn(self, log: Path, control: int, gate: int) -> "subprocess.Popen[bytes]":
        guard = (sys.executable, "-I", "-S", str(SPAWN_GUARD), str(gate), str(os.getpid()))
        server = (sys.executable, "-m", fork_server.__name__, str(control), str(os.getpid()))
        room = "-" * _ROOM_CHARS
        with log.open("wb") as errors:
            return subprocess.Popen(
                [*guard, *server, self._program[2], room],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={
                    **os.environ,
                    **_ONE_THREAD,
                    **self._environment,
                    NODE_MARK: self._mark,
                    ROOM: room,
                },
                process_group=0,  # no session: its forks have the same
                pass_fds=(control, gate),
            )

    def _write_down(self) -> Identity:
        found = identify(self._process.pid)
        if found is None:
            raise HarnessBug(f"process {self._process.pid} was reaped by somebody else")
        facts = {"node": _NAME, **found.facts, "mark": self._mark}
        self._pending_undos.owe("end_process", **facts)
        return found


def _standard_files(
    start: Start, ours: ExitStack, theirs: ExitStack
) -> tuple[IO[bytes] | None, IO[bytes], list[int]]:
    """Our ends of standard input and output; the fork's three standard files and its gate."""
    read_end, write_end = os.pipe()
    theirs.callback(os.close, write_end)
    stdout = ours.enter_context(os.fdopen(read_end, "rb", buffering=0))
    errors = os.open(start.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    theirs.callback(os.close, errors)
    stdin = None
    if start.hears:
        hearing, telling = os.pipe()
        stdin = ours.enter_context(os.fdopen(telling, "wb", buffering=0))
    else:
        hearing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    theirs.callback(os.close, hearing)
    return stdin, stdout, [hearing, write_end, errors, start.gate.read_end]


def can_adopt() -> bool:
    """Whether this kernel can make orphaned descendants children of this process."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    is_adopting = ctypes.c_int()
    return prctl is not None and not prctl(
        _PR_GET_CHILD_SUBREAPER, ctypes.byref(is_adopting), 0, 0, 0
    )


@contextmanager
def _adopting() -> Iterator[None]:
    """Adopt orphaned descendants meanwhile, as this process may do anyway."""
    was = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    ask_the_kernel(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        ask_the_kernel(PR_SET_CHILD_SUBREAPER, was.value)
