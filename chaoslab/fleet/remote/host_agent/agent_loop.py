"""Loop of a host agent: nodes, the harness that speaks to it, and its lease, on one thread.

    nodes ── observations ──► spool ──► clients          commands ──► verbs ──► nodes
                    no word for 5 s ─► what is overdue is undone
    lease: not renewed for this long ─► every node ended, or, of a training that ran already, left
                                        as it was found; all undone, the agent exits

The agent keeps its own undo log and janitor in its folder, so that what it did is undone also when
it is killed itself.
"""

import logging
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, encode
from chaoslab.core.process_identity import boot_id
from chaoslab.fleet.remote.host_agent.clients import Answers, Client, refusal
from chaoslab.fleet.remote.host_agent.fleet import HostedFleet, HostedScript
from chaoslab.fleet.remote.host_agent.spool import Spool
from chaoslab.fleet.remote.protocol.messages import Garbled
from chaoslab.undo.heartbeat import SILENT_S
from chaoslab.undo.janitor import Guard, Overdue

_log = logging.getLogger(__name__)
_TURN_S: Final = 0.25
_PARTING_S: Final = 2.0
"""Time limit of its last words."""
DISMISSED: Final = "dismissed"


@dataclass(slots=True, kw_only=True)
class AgentLoop:
    """The loop of one run's agent; `serve` returns when it is over."""

    listener: socket.socket
    fleet: HostedFleet | HostedScript
    spool: Spool
    answers: Answers
    guard: Guard
    overdue: Overdue
    lease_s: float
    session: str
    """Changes with every start of an agent: numbers count from 1 again."""
    _clients: list[Client] = field(default_factory=list)
    _renewed_s: float = field(default_factory=time.monotonic)
    _undone: list[str] = field(default_factory=list)
    """Undos by the agent without a harness, not reported yet."""
    _dismissed_by: tuple[Client, str] | None = None
    """Client that asked for its end, by which call; answered when nothing is left."""
    _is_told_to_end: bool = False

    def serve(self) -> str:
        """Serve until it is dismissed, told to end, or its lease is over; the reason, in words."""
        self.listener.setblocking(False)
        self.fleet.watch(self.listener.fileno())
        while True:
            self._take_in(_TURN_S)
            self._accept()
            for client in tuple(self._clients):
                self._attend(client)
            self._beat()
            now_s = time.monotonic()
            if self._dismissed_by is not None:
                self._end()
                return DISMISSED
            if self._is_told_to_end:
                self._end()
                return "told to end"
            if now_s - self._renewed_s > SILENT_S:
                self._let_go()
            if now_s - self._renewed_s > self.lease_s:
                self._end()
                return f"its lease of {self.lease_s:g} s was not renewed"

    def tell_end(self) -> None:
        """End at the next turn; for handlers of signals."""
        self._is_told_to_end = True

    def _take_in(self, limit_s: float) -> None:
        seen = self.fleet.attend(limit_s, is_full=self.spool.is_full)
        self.spool.append(seen, at_s=time.monotonic())

    def _end(self) -> None:
        if remaining := self.fleet.leave():
            _log.error("%s", remaining)
        self._take_in(0.0)

    def _let_go(self) -> None:
        """Undo what is overdue: its harness does not get to it."""
        try:
            self._undone += self.overdue.let_go()
        except (FleetError, OSError) as error:  # tried again at the next turn
            _log.warning("what is overdue cannot be undone: %s", error)

    def bid_farewell(self) -> None:
        """Tell the client that asked for it that nothing is left, and end all connections."""
        if self._dismissed_by is not None:
            client, name = self._dismissed_by
            client.stream.settimeout(_PARTING_S)
            with suppress(OSError):
                answer: dict[str, Json] = {"id": name, "value": None, "number": self.spool.last}
                client.stream.sendall(encode({"answer": answer}).encode() + b"\n")
        for client in self._clients:
            client.close()

    def _beat(self) -> None:
        self.guard.beat()
        if (lapse := self.guard.lapse()) is not None:
            _log.warning(
                "the janitor ended with %s; the next one is %s", lapse.how, lapse.successor
            )

    # ---------------------------------------------------------------- clients

    def _accept(self) -> None:
        try:
            stream, _ = self.listener.accept()
        except BlockingIOError:
            return
        self._clients.append(Client(stream, self.spool))
        self.fleet.watch(stream.fileno())

    def _attend(self, client: Client) -> None:
        try:
            for message in client.received():
                self._act(client, message)
        except FleetError as error:
            _log.warning("a client is dropped: %s", error)
            client.send(refusal(error))
            client.flush()
            client.is_over = True
        client.flush()
        if client.is_over:
            self._clients.remove(client)
            self.fleet.unwatch(client.stream.fileno())
            client.close()
        else:
            self.fleet.watch(client.stream.fileno(), writes=client.wants_to_write)

    def _act(self, client: Client, message: Mapping[str, Any]) -> None:
        self._renewed_s = time.monotonic()
        match message:
            case {"attach": {"after": after}}:
                client.send({"hello": self._hello()})
                client.attach(after)
                self._undone.clear()
            case {"call": {"do": "dismiss", "id": str() as name}}:
                self._dismissed_by = (client, name)
            case {"call": dict() as call}:
                answer = self.answers.to(call)
                self._take_in(0.0)
                number = self.spool.last  # with the answer the caller has its effects, too
                client.send({"answer": {"id": call["id"], "number": number, **answer}})
            case {"renew": {"has": int() as number}}:
                self.spool.acknowledge(number)
                client.send({"renewed": {}})
            case _:
                raise Garbled(f"{str(message)[:200]} is no message to a host agent")

    def _hello(self) -> dict[str, Json]:
        return {
            "session": self.session,
            "last": self.spool.last,
            "undone": list(self._undone),
            "pid": os.getpid(),
            "boot_id": boot_id(),
            "lease_s": self.lease_s,
            "now_s": time.monotonic(),
        }
