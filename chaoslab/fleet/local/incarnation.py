"""One incarnation of a local node: its process, its files, what it prints, its end.

    spawn guard ─► the node's program ─ pipe ─► observations      its files: see `life_files`

It knows one process; names, verbs and waiting are `local`'s. The process is reaped only after all
that it left behind was ended: until then its pid cannot belong to anybody else.
"""

import fcntl
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import IO

import psutil

from chaoslab.core import process_tree
from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Json, Kind, Observation, encode
from chaoslab.core.process_identity import NODE_MARK, identify, is_same, send
from chaoslab.core.process_tree import SPAWN_GUARD
from chaoslab.fleet.base import NodeSpec, probed
from chaoslab.fleet.incarnation_files import IncarnationFiles, Place, exited, signal_name
from chaoslab.fleet.node_output import NodeOutput
from chaoslab.record.exits import ENDING_SIGNALS
from chaoslab.undo.base import PendingUndos

_log = logging.getLogger(__name__)
_CHUNK_BYTES = 64 << 10
_PIPE_BYTES = 1 << 20
"""What a node can print while the harness is busy, without being held up."""
_LEFTOVERS_S = 1.0
"""How long the end of one node may hold up the harness until its tree is gone."""
_BIRTH_S = 5.0
"""How long a new process may take to become the node's program."""
_GOING_S = 1.0
"""How long a tree that was resumed may take until all of it was seen going on."""
_STOPPING_S = 0.5
"""How long a probe waits for a stopped process to show it: it may be inside the kernel."""


class Incarnation:
    """A started process. `is_over` once its exit was noticed and its tree ended."""

    def __init__(self, spec: NodeSpec, incarnation: int, place: Place) -> None:
        """Start it. Nothing runs before the way to undo that was written down."""
        self.spec = spec
        self.incarnation = incarnation
        self.is_ending = False
        """It was told to end."""
        self.sent: list[str] = []
        """The signals it was sent to end it."""
        self.is_paused = False
        self.is_silent = False
        """Nothing more will come from its standard output."""
        self.is_over = False
        self.remaining: tuple[int, ...] = ()
        """Processes of its tree that could not be ended."""
        self._place = place
        self._pending_undos = PendingUndos(place.undo_log)
        self._home = place.home(spec.name)
        self._mark = f"{place.run_directory}/{spec.name}/{incarnation}"
        try:
            self._begin(self._command())
        except OSError as error:
            raise FleetError(f"{spec.name} cannot be started: {error}") from error

    # ---------------------------------------------------------------- beginning

    def _command(self) -> list[str]:
        path = self.spec.environment.get("PATH", os.environ.get("PATH", os.defpath))
        words = [
            word.replace("{incarnation}", str(self.incarnation)).replace(
                "{directory}", str(self._home)
            )
            for word in self.spec.command
        ]
        if not words or shutil.which(words[0], path=path) is None:
            raise FleetError(
                f"{self.spec.name} cannot be started: there is no program {words[:1]} on PATH; "
                "write a full path or install it"
            )
        return words

    def _begin(self, command: list[str]) -> None:
        self._files = IncarnationFiles(self._home / str(self.incarnation), self._place.clock)
        self._output = NodeOutput(node=self.spec.name, role=self.spec.role, log=self._files.log)
        with ExitStack() as if_it_fails:
            if_it_fails.callback(self._files.log.close)
            read_end, write_end = os.pipe()
            try:
                self.process = self._spawn(command, read_end)
                if_it_fails.callback(self._abandon)
                self._write_down(command)
                with suppress(BrokenPipeError):  # it was killed already; its exit will be noticed
                    os.write(write_end, b"g")
            finally:
                os.close(read_end)
                os.close(write_end)
            if_it_fails.pop_all()

    def _abandon(self) -> None:
        self.process.kill()
        self.process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        _stdout(self.process).close()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _spawn(self, command: list[str], gate: int) -> "subprocess.Popen[bytes]":
        interpreter = (sys.executable, "-I", "-S", str(SPAWN_GUARD), str(gate), str(os.getpid()))
        with self._files.errors.open("wb") as errors:
            process = subprocess.Popen(
                [*interpreter, *command],
                stdin=subprocess.PIPE if self.spec.hears else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={
                    **os.environ,
                    **self.spec.environment,
                    **self.spec.secrets,
                    NODE_MARK: self._mark,
                },
                process_group=0,  # no session: see the spawn guard
                pass_fds=(gate,),
                bufsize=0,
            )
        pipe = _pipe(process)
        os.set_blocking(pipe, False)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
        with suppress(OSError, AttributeError):  # a smaller pipe serves, too
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return process

    def _write_down(self, command: list[str]) -> None:
        found = identify(self.process.pid)
        if found is None:
            raise HarnessBug(f"process {self.process.pid} was reaped by somebody else")
        self.identity = found
        self._files.begun(self.spec, command, found.facts)
        whose: dict[str, Json] = {"node": self.spec.name, "incarnation": self.incarnation}
        self.undo_entry = self._place.undo_log.open(
            "end_process", **whose, **found.facts, mark=self._mark
        )

    def started(self) -> Observation:
        """That it began."""
        return Observation(
            source=self.spec.name,
            kind=Kind.NODE_STARTED,
            data={
                "node": self.spec.name,
                "role": self.spec.role.value,
                "incarnation": self.incarnation,
                **self.identity.facts,
                "labels": dict(self.spec.labels),
            },
        )

    # ---------------------------------------------------------------- while it lives

    @property
    def mark(self) -> str:
        """What marks all its processes in their environment."""
        return self._mark

    def cpu_used(self) -> tuple[float, float]:
        """Now, and the CPU seconds that its main process has used by now; 0 when it is gone."""
        return self._place.clock.now_s(), self._look().cpu_s

    @property
    def pipe(self) -> int:
        """The file descriptor of its standard output."""
        return _pipe(self.process)

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

    def _chunk(self) -> bytes:
        """What is in the pipe now; empty when there is nothing."""
        try:
            chunk = os.read(self.pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        self.is_silent = not chunk
        return chunk

    def owe(self, do: str) -> None:
        """Write down, before it is held up in some way, how it is let go again."""
        self._pending_undos.owe(do, node=self.spec.name, **self.identity.facts, mark=self._mark)

    def settle(self, do: str) -> None:
        """It was let go. With its end it owed nothing more."""
        if not self.is_over:
            self._pending_undos.settle(do)

    def resume(self) -> None:
        """Let its whole tree go on; FleetError names what does not. Nothing if it is over."""
        self.is_paused = False
        left = (
            ()
            if self.is_over
            else process_tree.resume_tree(self.identity, self._mark, limit_s=_GOING_S)
        )
        if left:
            raise FleetError(f"{self.spec.name} cannot be resumed: still stopped are {left}")

    def signal_main(self, number: int) -> None:
        """To the main process alone; to nobody when it is over.

        Waits until the spawn guard has become the program: before that no hook is safe to use.
        """
        deadline = time.monotonic() + _BIRTH_S
        while not self.is_over and is_same(self.identity):
            if not self._is_in_spawn_guard():
                self.note_sent(number)
                send(self.identity, number)
                return
            if time.monotonic() > deadline:
                raise FleetError(f"{self.spec.name} has not started after {_BIRTH_S:g} s")
            time.sleep(0.001)

    def note_sent(self, number: int) -> None:
        """Remember a signal that is sent to end it; others are left out."""
        if (name := signal_name(number)) in ENDING_SIGNALS:
            self.sent.append(name)

    def tell(self, facts: Mapping[str, Json]) -> None:
        """One line on its standard input; FleetError if nobody reads there."""
        hearing, line = self.process.stdin, encode(facts).encode() + b"\n"
        if hearing is None:
            raise FleetError(f"{self.spec.name} was started without test hooks")
        try:
            written = hearing.write(line)
        except BrokenPipeError:
            written = None
        if written != len(line):
            raise FleetError(f"{self.spec.name} does not take in what it is told")

    def _is_in_spawn_guard(self) -> bool:
        try:
            words = psutil.Process(self.identity.pid).cmdline()
        except psutil.NoSuchProcess:  # a zombie, which no signal reaches
            return False
        return not words or str(SPAWN_GUARD) in words[:4]  # none in the middle of an exec

    def probe(self) -> Observation:
        """Its main process now, as the kernel shows it; a stopped one is given time to show it."""
        deadline = time.monotonic() + _STOPPING_S
        seen = self._look()
        while self.is_paused and seen.state in ("R", "S", "D") and time.monotonic() < deadline:
            time.sleep(0.001)
            seen = self._look()
        return probed(
            self.spec.name,
            incarnation=self.incarnation,
            pid=self.identity.pid,
            state=seen.state,
            rss_bytes=seen.rss_bytes,
            cpu_s=seen.cpu_s,
        )

    def _look(self) -> process_tree.Look:
        return process_tree.GONE if self.is_over else process_tree.look(self.identity)

    # ---------------------------------------------------------------- its end

    def finish(self) -> list[Observation]:
        """Once it has exited: its last lines, then NODE_EXITED. Ends what it left running."""
        last = self._drain()
        self.end_leftovers(_LEFTOVERS_S)
        code = self.process.wait()
        self.is_over = True
        self._close_pipes()
        self._files.log.close()
        ending: dict[str, Json] = {
            "exit_code": code if code >= 0 else None,
            "signal": signal_name(-code) if code < 0 else None,
            "refused_lines": self._output.refused_lines,
            "sent": list(self.sent),
        }
        self._note_exit(ending)
        ending |= self._files.last_words(ending)
        return [*last, exited(self.spec, self.incarnation, self.identity.pid, ending)]

    def end_leftovers(self, limit_s: float) -> None:
        """Kill what is left of its tree; the obligation is closed once all of it is gone."""
        self.remaining = process_tree.end_tree(self.identity, self._mark, limit_s=limit_s)
        if not self.remaining:
            self._pending_undos.settle_all()
            self._place.undo_log.close(self.undo_entry)

    def _drain(self) -> list[Observation]:
        """All that the main process can have left in the pipe; a child may hold it open."""
        found: list[Observation] = []
        for _ in range(2 * _PIPE_BYTES // _CHUNK_BYTES):
            chunk = self._chunk()
            if not chunk:
                break
            found += self._output.take(chunk)
        return found + self._output.end()

    def _note_exit(self, ending: Mapping[str, Json]) -> None:
        try:
            self._files.ended({**ending, "lost_log_bytes": self._output.lost_log_bytes})
        except OSError as error:  # the journal says the same, and the others must end, too
            _log.warning("the end of %s cannot be recorded: %s", self.spec.name, error)


def signal_trees(lives: Iterable[Incarnation], number: int) -> None:
    """To all their processes, as close together as possible; to none of a life that is over."""
    reached = [life for life in lives if not life.is_over]
    for life in reached:
        life.note_sent(number)
    process_tree.signal_trees([life.identity for life in reached], number)


def _stdout(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    if process.stdout is None:
        raise HarnessBug("a node was started without a pipe")
    return process.stdout


def _pipe(process: "subprocess.Popen[bytes]") -> int:
    return _stdout(process).fileno()
