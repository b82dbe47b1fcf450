"""A proxy server as a process of ours: it is written down, answers, and ends with us.

    Server ── fork ──► spawn guard ── written down ──► exec ──► the proxy
       └── holds its standard input and its API port; asks /version until it answers

Its output goes to a log. It dies with the harness (parent-death signal, end of its input), and the
janitor knows it. Used from one thread, which must outlive it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from chaoslab.core.errors import FleetError
from chaoslab.core.process_identity import NODE_MARK, identify
from chaoslab.core.process_tree import SPAWN_GUARD, end_tree, import_path
from chaoslab.links.ports import HeldPort
from chaoslab.links.proxied.http_api import Endpoint, call
from chaoslab.undo.base import UndoLog

_READY_S = 20.0
"""How long a server may take until its API answers."""
_PAUSE_S = 0.01
_END_S = 5.0


class Server:
    """Running and answering once it is made. FleetError says why it is not."""

    def __init__(
        self,
        name: str,
        command: Callable[[HeldPort], Sequence[str]],
        directory: Path,
        undo_log: UndoLog,
        *,
        environment: Mapping[str, str] | None = None,
        token: str = "",
    ) -> None:
        """`command` is told where its API must listen; `name` is used in messages and files.

        `token` opens its API; the server has it from its `environment`.
        """
        self.name, self._token = name, token
        self.log = directory / f"{name}.log"
        self._undo_log = undo_log
        self._mark = f"{directory.resolve()}/links/{name}"
        self._obligation: int | None = None
        with ExitStack() as if_it_fails:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                self._port = HeldPort()
                if_it_fails.callback(self._port.close)
                self._process = self._spawn(command(self._port), environment or {})
            except OSError as error:
                raise FleetError(f"{name} cannot be started: {error}") from error
            if_it_fails.callback(self.stop)
            self._await_answer()
            if_it_fails.pop_all()

    @property
    def api(self) -> Endpoint:
        """Of its API."""
        return Endpoint(address=self._port.address, token=self._token)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def ended(self) -> str:
        """How it ended, as half a sentence; empty while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return f"process {self.pid} has ended with {how}{self._last_words()}"

    def stop(self) -> None:
        """End it and what it started, and close what was written down. Safe to repeat."""
        _input(self._process).close()
        with suppress(subprocess.TimeoutExpired):
            self._process.terminate()
            self._process.wait(_END_S)
        identity = identify(self.pid) if self._process.poll() is None else None
        if identity is not None:
            end_tree(identity, self._mark, limit_s=_END_S)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        self._port.close()
        if self._process.poll() is None:
            raise FleetError(f"{self.name} (process {self.pid}) cannot be ended")
        if self._obligation is not None:
            self._undo_log.close(self._obligation)
            self._obligation = None

    # ---------------------------------------------------------------- beginning

    def _spawn(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        read_end, write_end = os.pipe()
        guard = (sys.executable, "-I", "-S", str(SPAWN_GUARD), str(read_end), str(os.getpid()))
        try:
            with self.log.open("ab") as log:
                process = subprocess.Popen(
                    [*guard, *command],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env={
                        **os.environ,
                        "PYTHONPATH": import_path(),
                        NODE_MARK: self._mark,
                        **environment,
                    },
                    start_new_session=True,
                    pass_fds=(read_end,),
                )
            self._write_down(process)
            with suppress(BrokenPipeError):  # it was killed already, which is noticed next
                os.write(write_end, b"g")
        finally:
            os.close(read_end)
            os.close(write_end)
        return process

    def _write_down(self, process: "subprocess.Popen[bytes]") -> None:
        found = identify(process.pid)
        if found is not None:
            self._obligation = self._undo_log.open(
                "end_process", node=self.name, **found.facts, mark=self._mark
            )

    def _await_answer(self) -> None:
        deadline_s = time.monotonic() + _READY_S
        while True:
            if how := self.ended():
                raise FleetError(f"{self.name} does not run: {how}")
            try:
                call(self.api, "GET", "/version", within_s=_READY_S)
            except FleetError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return

    def _last_words(self) -> str:
        words = self.log.read_text(errors="replace").strip()[-500:]
        return f"; {self.log} ends with: {words}" if words else ""


def _input(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    if process.stdin is None:
        raise FleetError(f"process {process.pid} was started without standard input")
    return process.stdin
