"""Proxy servers on this machine: one that runs already, or a process of ours that ends with us.

    Server ── fork ──► spawn guard ── undo entry ──► exec ──► the proxy
       └── holds its standard input and its API port; asks /version until it answers

Its output goes to a log. It ends with the harness (parent-death signal, end of its input), or by
the janitor. Used from one thread, which must outlive it.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.process_identity import NODE_MARK, identify
from chaoslab.core.process_tree import end_tree
from chaoslab.core.spawning import Gate, import_path
from chaoslab.core.terminal import ends_with
from chaoslab.links.netem.packet_rules import LocalPlace
from chaoslab.links.ports import ReservedPort, established
from chaoslab.links.proxied.http_api import Endpoint, await_answer, call
from chaoslab.undo.base import PendingUndos, UndoLog

_END_S = 5.0


class LocalServer(LocalPlace):
    """A server that runs on this machine already and is not stopped; see `host.ProxyHost`."""

    keeps_rules = True

    def __init__(self, api: Endpoint) -> None:
        self.api = api

    def open(self, kind: str) -> Endpoint:  # noqa: ARG002 - the protocol's signature
        """Its API; FleetError if it does not answer."""
        call(self.api, "GET", "/version")
        return self.api

    def ended(self) -> str:
        """Unknown, so never."""
        return ""

    def port(self) -> ReservedPort:
        """A free port, reserved until it is closed."""
        return ReservedPort()

    def established(self, number: int) -> int | None:
        """Number of connections in the kernel's table."""
        return established(number)

    def restart(self) -> None:
        """FleetError: it is somebody else's."""
        raise FleetError(
            f"the server at {self.api} is stuck: restart it, or leave `fleet.toxiproxy` out of the "
            "plan, and chaoslab starts one and restarts it itself"
        )

    def close(self) -> None:
        """Does nothing: it is somebody else's."""


class Server(LocalServer):
    """A server that `open` starts and `close` ends."""

    def __init__(
        self,
        name: str,
        command: Callable[[ReservedPort], Sequence[str]],
        directory: Path,
        undo_log: UndoLog,
        *,
        environment: Mapping[str, str] | None = None,
        token: str = "",
    ) -> None:
        """`command` is told where its API must listen; `name` is used in messages and files.

        `token` opens its API; the server has it from its `environment`.
        """
        super().__init__(Endpoint(address="", token=token))
        self.name, self._command, self._environment = name, command, environment or {}
        self.log = directory / f"{name}.log"
        self._pending_undos = PendingUndos(undo_log)
        self._mark = f"{directory.resolve()}/links/{name}"
        self._process: subprocess.Popen[bytes] | None = None

    def open(self, kind: str = "") -> Endpoint:  # noqa: ARG002 - the protocol's signature
        """Start it; its API, which answers. FleetError says why it does not."""
        with ExitStack() as if_it_fails:
            try:
                self.log.parent.mkdir(parents=True, exist_ok=True)
                self._port = ReservedPort()
                if_it_fails.callback(self._port.close)
            except OSError as error:
                raise FleetError(f"{self.name} cannot be started: {error}") from error
            self.api = replace(self.api, address=self._port.address)
            if_it_fails.callback(self.close)
            self._start()
            if_it_fails.pop_all()
        return self.api

    def restart(self) -> None:
        """Kill it and start it again on the same port."""
        if self._process is not None:
            self._process.kill()
            self._end(self._process)
        self._start()

    @property
    def pid(self) -> int | None:
        """Id of its process; None before it is started."""
        return self._process.pid if self._process is not None else None

    def ended(self) -> str:
        """How it ended, as a clause; empty while it runs."""
        code = self._process.poll() if self._process is not None else None
        if code is None:
            return ""
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return f"process {self.pid} has ended with {how}{ends_with(self.log)}"

    def close(self) -> None:
        """End it and what it started, and close its undo entry. May be repeated."""
        if self._process is not None:
            try:
                self._end(self._process)
            finally:
                self._port.close()

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdin is not None:
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.terminate()
            process.wait(_END_S)
        identity = identify(process.pid) if process.poll() is None else None
        if identity is not None:
            end_tree(identity, self._mark, limit_s=_END_S)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        if process.poll() is None:
            raise FleetError(f"{self.name} (process {process.pid}) cannot be ended")
        self._pending_undos.close_all()

    # ---------------------------------------------------------------- beginning

    def _start(self) -> None:
        try:
            self._process = self._spawn(self._command(self._port))
        except OSError as error:
            raise FleetError(f"{self.name} cannot be started: {error}") from error
        await_answer(self.api, self.ended)

    def _spawn(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        with closing(Gate()) as gate:
            with self.log.open("ab") as log:
                process = subprocess.Popen(
                    gate.guarded(command),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env={
                        **os.environ,
                        "PYTHONPATH": import_path(),
                        NODE_MARK: self._mark,
                        **self._environment,
                    },
                    start_new_session=True,
                    pass_fds=(gate.read_end,),
                )
            self._write_down(process)
            gate.go()
        return process

    def _write_down(self, process: "subprocess.Popen[bytes]") -> None:
        found = identify(process.pid)
        if found is not None:
            facts = {"node": self.name, **found.facts, "mark": self._mark}
            self._pending_undos.open("end_process", **facts)
