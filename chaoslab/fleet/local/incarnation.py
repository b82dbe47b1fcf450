"""One incarnation of a local node: its process, what it prints, its end.

    spawn guard ─► the node's program ─ pipe ─► observations       LocalIncarnation
    spawn guard ─► wrapper ─► its child, the program ─ pipe ─►     WrappedIncarnation
    a launcher ─► its worker                                       `launched.LaunchedProcess`

A process of the fleet's own is reaped only after all that it left behind was ended: until then its
pid cannot belong to anybody else.
"""

import fcntl
import os
import signal
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from io import FileIO
from typing import ClassVar

import psutil

from chaoslab.core import process_tree
from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Json, Observation
from chaoslab.core.process_identity import (
    NODE_MARK,
    Identity,
    cpu_s,
    identify,
    is_running,
    is_same,
    send,
)
from chaoslab.core.spawning import SPAWN_GUARD, Gate, find_program
from chaoslab.core.terminal import ends_with
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.incarnation_files import Place, signal_name
from chaoslab.fleet.nodes.process import ProcessIncarnation, StrangersProcess

_CHUNK_BYTES = 64 << 10
_PIPE_BYTES = 1 << 20
"""Bytes that a node can print without waiting while the harness is busy."""
_LEFTOVERS_S = 1.0
"""Longest stall of the harness at the end of one node until its tree is gone."""
_KEEPER = (
    "sh",
    "-c",
    """exec 3<&0  # a shell gives what runs beside it no input, and lets it ignore these signals
    env --default-signal=INT,QUIT setpriv --pdeathsig KILL -- "$@" <&3 3<&- &
    exec sleep infinity </dev/null >/dev/null 2>&1 3<&-""",
    "sh",
)
_BIRTH_S = 5.0
"""Time in which a new process becomes the node's program."""


class LocalProcess(ProcessIncarnation):
    """A process that this fleet's undo log can name, independent of its starter."""

    undo_pause, undo_wedge = "resume_process", "unwedge_process"

    def __init__(self, spec: NodeSpec, incarnation: int, place: Place) -> None:
        super().__init__(spec, incarnation, place)
        self._receivers: process_tree.Receivers | None = None
        """Found beforehand, for the next signal to its tree."""

    @abstractmethod
    def finish(self) -> list[Observation]:
        """Once it has exited: its last lines, then NODE_EXITED."""

    @property
    def undo_facts(self) -> Mapping[str, Json]:
        """Identity of the main process, and the mark of all others."""
        return {"node": self.spec.name, **self.identity.facts, "mark": self.mark}

    def cpu_used(self) -> tuple[float, float]:
        """Now, and the CPU seconds that its main process has used by now; 0 when it is gone.

        Of a node of several hosts those of their processes.
        """
        if self.spec.hosts is not None:
            return self.place.clock.now_s(), self._look().cpu_s
        return self.place.clock.now_s(), 0.0 if self.is_over else cpu_s(self.identity)

    @property
    def pids(self) -> tuple[int, ...]:
        """All living processes of the node."""
        return process_tree.living(self.identity, self.mark)

    def prepare(self) -> None:
        self._receivers = process_tree.receivers(self.identity)

    def unprepare(self) -> None:
        self._receivers = None

    def take_receivers(self) -> process_tree.Receivers | None:
        """Take the receivers that were found beforehand, once."""
        found, self._receivers = self._receivers, None
        return found

    def signal(self, name: str) -> None:
        """Signal the main process alone; does nothing once it is over.

        Waits until the spawn guard has become the program: before that no hook is safe to use.
        """
        deadline = time.monotonic() + _BIRTH_S
        while not self.is_over and is_same(self.identity):
            if not self._is_in_spawn_guard():
                self.note_sent(name)
                send(self.identity, signal.Signals[name])
                return
            if time.monotonic() > deadline:
                raise FleetError(f"{self.spec.name} has not started after {_BIRTH_S:g} s")
            time.sleep(0.001)

    def _is_in_spawn_guard(self) -> bool:
        try:
            words = psutil.Process(self.identity.pid).cmdline()
        except psutil.NoSuchProcess:  # a zombie, which no signal reaches
            return False
        return not words or str(SPAWN_GUARD) in words[:4]  # none in the middle of an exec

    def _look(self) -> process_tree.ProcessStatus:
        if self.is_over:
            return process_tree.GONE
        whole = self.spec.hosts is not None
        return (process_tree.look_with_children if whole else process_tree.look)(self.identity)


class LocalIncarnation(LocalProcess):
    """A started process. `is_over` once its exit was noticed and its tree ended."""

    def __init__(self, spec: NodeSpec, incarnation: int, place: Place, private: str = "") -> None:
        """Start it. Nothing runs before the way to undo that was written down.

        `private` is the folder of its private files.
        """
        super().__init__(spec, incarnation, place)
        self.is_silent = False
        """Nothing more will come from its standard output."""
        self.remaining: tuple[int, ...] = ()
        """Processes of its tree that could not be ended."""
        try:
            self._begin(self._checked_command(private))
        except OSError as error:
            raise FleetError(f"{spec.name} cannot be started: {error}") from error

    # ---------------------------------------------------------------- beginning

    def _checked_command(self, private: str) -> list[str]:
        path = self.spec.environment.get("PATH", os.environ.get("PATH", os.defpath))
        words = self._command(str(self._directory.parent), private)
        if not words or find_program(words[0], self.spec.workdir, path) is None:
            raise FleetError(
                f"{self.spec.name} cannot be started: there is no program {words[:1]} on PATH; "
                "write a full path or install it"
            )
        return words

    def _begin(self, command: list[str]) -> None:
        with ExitStack() as if_it_fails:
            with self._open_files(if_it_fails) as errors, closing(Gate()) as gate:
                self.process = self._spawn(command, gate, errors)
                if_it_fails.callback(self._abandon)
                self._write_down()
                if_it_fails.callback(self.end_leftovers, _LEFTOVERS_S)
                gate.go()
            self.identity = self._main()
            self._files.begun(self.spec, command, self.identity.facts)
            if_it_fails.pop_all()

    def _main(self) -> Identity:
        """Its main process: the one that was started. FleetError if another does not come up."""
        return self.identity

    def _abandon(self) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Nothing is read of it any more."""
        self._files.log.close()
        self._stdout.close()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _spawn(self, command: list[str], gate: Gate, errors: FileIO) -> "subprocess.Popen[bytes]":
        spec = self.spec
        process = subprocess.Popen(
            gate.guarded(command),
            stdin=subprocess.PIPE if spec.hears else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors if spec.reads is None else subprocess.STDOUT,
            env={**os.environ, **spec.environment, **spec.secrets, NODE_MARK: self.mark},
            process_group=0,  # no session: see the spawn guard
            cwd=spec.workdir or None,
            pass_fds=(gate.read_end,),
            bufsize=0,
        )
        if process.stdout is None:
            raise HarnessBug("a node was started without a pipe")
        self._stdout = process.stdout
        os.set_blocking(self.pipe, False)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
        with suppress(OSError, AttributeError):  # a smaller pipe serves, too
            fcntl.fcntl(self.pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return process

    def _write_down(self) -> None:
        found = identify(self.process.pid)
        if found is None:
            raise HarnessBug(f"process {self.process.pid} was reaped by other code")
        self.identity = found
        self.undo_entry = self.place.undo_log.open(
            "end_process", incarnation=self.incarnation, **self.undo_facts
        )

    # ---------------------------------------------------------------- while it runs

    @property
    def pipe(self) -> int:
        """The file descriptor of its standard output."""
        return self._stdout.fileno()

    @property
    def has_exited(self) -> bool:
        """Whether the process ended, noticed or not; it is not reaped by asking."""
        if self.is_over:
            return True
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, how) is not None

    def read(self) -> list[Observation]:
        """The observations in what it printed since, at most 64 KiB at a time."""
        return self._output.take(self._chunk())

    def read_all(self) -> list[Observation]:
        """Read all bytes that it can have left in the pipe; a child may hold it open."""
        found: list[Observation] = []
        for _ in range(2 * _PIPE_BYTES // _CHUNK_BYTES):
            chunk = self._chunk()
            if not chunk:
                break
            found += self._output.take(chunk)
        return found

    def _chunk(self) -> bytes:
        """Bytes in the pipe now; empty without any."""
        try:
            chunk = os.read(self.pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        self.is_silent = not chunk
        return chunk

    def _write(self, line: bytes) -> None:
        """OSError also where only a part of it fits."""
        hearing = self.process.stdin
        if hearing is None or hearing.write(line) != len(line):
            raise BlockingIOError(f"{self.spec.name} does not read its standard input")

    # ---------------------------------------------------------------- its end

    def finish(self) -> list[Observation]:
        """Once it has exited: its last lines, then NODE_EXITED. Ends what it left running; but the
        workers of a launcher may go on, and print, until the fleet ends them and closes it.
        """
        last = [*self.read_all(), *self._output.end()]
        if not self.spec.launches:
            self.end_leftovers(_LEFTOVERS_S)
        ending = self._ending()
        self.process.kill()  # what stayed beside its main process
        self.process.wait()
        self.is_over = True
        if not self.spec.launches:
            self.close()
        return self._report_exit(last, ending, self._output.lost_log_bytes)

    def _ending(self) -> dict[str, Json]:
        """Exit code and signal; reaped by asking."""
        code = self.process.wait()
        return {
            "exit_code": code if code >= 0 else None,
            "signal": signal_name(-code) if code < 0 else None,
        }

    def end_leftovers(self, limit_s: float) -> None:
        """Kill what is left of its tree; its undo entry is closed once all of it is gone."""
        self.remaining = process_tree.end_tree(self.identity, self.mark, limit_s=limit_s)
        if not self.remaining:
            self.pending_undos.close_all()
            self.place.undo_log.close(self.undo_entry)


class WrappedIncarnation(StrangersProcess, LocalIncarnation):
    """A process in a place that another program makes for its children, such as a namespace.

        spawn guard ─ exec ─► wrapper ─ exec ─► keeper ─ fork ─► the node's program

    The keeper does not ask how its child has ended, so that the kernel keeps that to be read here;
    when it is ended itself, so is its child.
    """

    wrapper: ClassVar[tuple[str, ...]]
    """Words that execute the words after them in that place: `unshare --pid`."""

    def _checked_command(self, private: str) -> list[str]:
        return [*self.wrapper, *_KEEPER, *super()._checked_command(private)]

    def _main(self) -> Identity:
        """The only child of the keeper, also one that has ended already."""
        deadline = time.monotonic() + _BIRTH_S
        while is_running(self.identity.pid) and time.monotonic() < deadline:
            for child in psutil.Process(self.identity.pid).children():
                if found := identify(child.pid):
                    return found
            time.sleep(0.001)
        raise FleetError(f"{self.spec.name} cannot be started{ends_with(self._files.errors)}")
