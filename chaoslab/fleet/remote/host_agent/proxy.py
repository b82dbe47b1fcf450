"""Proxy of a host: one process for all links of the learners there, started when it is asked for.

open ─► the embedded proxy, on loopback ── its API and token ─► harness
port ─► a port of loopback, reserved for one link
"""

from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.links.ports import ReservedPort
from chaoslab.links.proxied.embedded import local_server
from chaoslab.links.proxied.process import Server
from chaoslab.undo.base import UndoLog


class HostProxy:
    """The proxy of one agent."""

    def __init__(self, folder: Path, undo_log: UndoLog) -> None:
        self._folder, self._undo_log = folder, undo_log
        self._server: Server | None = None
        self._ports: list[ReservedPort] = []

    def open(self) -> Json:
        """Start it: its API and the token. FleetError if it does not run."""
        if self._server is None:
            self._server = local_server(self._folder, self._undo_log)
            self._server.open()
        api = self._server.api
        return {"api": api.address, "token": api.token}

    def port(self, *, number: int) -> str:
        """Reserve that port until the end, or with 0 a free one; its address. FleetError."""
        try:
            port = ReservedPort(number=number)
        except OSError as error:
            raise FleetError(f"port {number} cannot be reserved: {error}") from error
        self._ports.append(port)
        return port.address

    def ended(self) -> str:
        """How it ended, as a clause; empty while it runs."""
        return self._server.ended() if self._server is not None else "it was not started"

    def close(self) -> None:
        """End it, if it runs. Safe to repeat."""
        for port in self._ports:
            port.close()
        self._ports.clear()
        if self._server is not None:
            self._server.close()
            self._server = None
