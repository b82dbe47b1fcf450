"""A live page to test, and those who come to it over real sockets.

with opened() as stand:  ann = stand.operator();  ann.post("/act", {"action": "abort"})
    stand.tell(Kind.FAULT_HELD, …) ─► events, as the run would write them
    ann.stream().until("picture") ─► messages
"""

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any, Self

from chaoslab.core.events import Event, Json, Kind
from chaoslab.gameday.live.server import Listen, LivePage, serving
from chaoslab.plan.model import FaultPlan
from chaoslab.run.operators import Inbox, Order
from tests.contracts.fleet_kit import wait_until
from tests.gameday_room import plan_of

WITHIN_S = 60.0
"""The limit of all that is waited for."""


@dataclass
class Answer:
    """What a request got."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def error(self) -> str:
        return str(json.loads(self.text)["error"])


class Reader:
    """A stream of server-sent events, read message by message."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self._connection, self._response = connection, response
        self.seen: list[Mapping[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def next(self) -> Mapping[str, Any]:
        """The next message; AssertionError at the end of the stream, or if none comes."""
        end_s = time.monotonic() + WITHIN_S
        while line := self._response.readline():
            assert time.monotonic() < end_s, "nothing comes but heartbeats"
            if line.startswith(b"data: "):
                self.seen.append(json.loads(line[6:]))
                return self.seen[-1]
        raise AssertionError("the stream has ended")

    def until(self, kind: str, **wanted: object) -> Mapping[str, Any]:
        """The next message of this type with these values."""
        while True:
            message = self.next()
            if message["type"] == kind and wanted.items() <= message.items():
                return message

    def until_said(self, text: str) -> None:
        """A message that has this text."""
        while text not in str(self.next()):
            pass

    def until_over(self) -> Mapping[str, Any]:
        """The state when the run is over."""
        while not self.next().get("is_over"):
            pass
        return self.seen[-1]


@dataclass
class Visitor:
    """Somebody with a browser, as far as the server can tell."""

    page: LivePage
    cookie: str = ""
    trusts: str = ""
    """Certificate of an authority, in PEM."""

    def ask(
        self, method: str, path: str, body: object = None, *, raw: bytes | None = None,
        **headers: str | None,
    ) -> Answer:  # fmt: skip
        """One request as a browser sends it; `headers` change that, None leaves one out."""
        sent: dict[str, str | None] = {"Host": self._netloc, "Cookie": self.cookie or None}
        if method == "POST":
            sent |= {"Origin": self.page.address.url, "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        connection = self._connected()
        known = {key: value for key, value in sent.items() if value is not None}
        try:
            connection.putrequest(method, path, skip_host=True)
            for key, value in known.items():
                connection.putheader(key, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            response = connection.getresponse()
            answer = Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()
        return answer

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: object, **headers: str | None) -> Answer:
        return self.ask("POST", path, body, **headers)

    def enter(self, token: str, name: str = "") -> Answer:
        """Exchange a token; the cookie is kept."""
        answer = self.post("/enter", {"token": token, "name": name})
        if answer.status == 204:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def stream(self) -> Reader:
        connection = self._connected()
        try:
            connection.request("GET", "/stream", headers={"Cookie": self.cookie})
            response = connection.getresponse()
            assert response.status == 200, response.read()
        except BaseException:
            connection.close()
            raise
        return Reader(connection, response)

    @property
    def _netloc(self) -> str:
        return self.page.address.url.partition("//")[2]

    def _connected(self) -> HTTPConnection:
        address = self.page.address
        if not address.has_tls:
            return HTTPConnection(address.host, address.port, timeout=WITHIN_S)
        context = ssl.create_default_context(cadata=self.trusts)
        return HTTPSConnection(address.host, address.port, timeout=WITHIN_S, context=context)


@dataclass
class Stand:
    """A page that is served, and what its run would do."""

    page: LivePage
    inbox: Inbox
    _seq: int = 0
    orders: list[Order] = field(default_factory=list)

    def token(self, name: str = "") -> str:
        """The token of an operator, or of viewers."""
        (link,) = (one for one in self.page.links if one.name == name)
        return link.url.partition("#")[2]

    def operator(self, name: str = "Ann") -> Visitor:
        return self._entered(self.token(name), "")

    def viewer(self, name: str = "") -> Visitor:
        return self._entered(self.token(), name)

    def tell(self, kind: Kind, time_s: float = 1.0, **data: Json) -> None:
        """The run writes an event."""
        self.page.see(Event(seq=self._seq, time_s=time_s, source="harness", kind=kind, data=data))
        self._seq += 1

    def taken(self, number: int = 1) -> list[Order]:
        """All orders, once there are so many."""

        def are_there() -> bool:
            self.orders += self.inbox.take()
            return len(self.orders) >= number

        wait_until(are_there)
        return self.orders

    def _entered(self, token: str, name: str) -> Visitor:
        visitor = Visitor(self.page)
        answer = visitor.enter(token, name)
        assert answer.status == 204, answer.text
        return visitor


@contextmanager
def opened(
    *,
    plan: FaultPlan | None = None,
    listen: Listen | None = None,
    keep: bool = False,
) -> Iterator[Stand]:
    """The page of a plan with two faults, for the operators Ann and Bo."""
    inbox = Inbox(keep=keep)
    with serving(plan or plan_of(), inbox, listen or Listen(), operators=["Ann", "Bo"]) as page:
        yield Stand(page, inbox)


HELD: Mapping[str, Json] = {
    "spec": "half-dies",
    "fault": "process.kill",
    "trigger": "round 20",
    "injections": 1,
    "targets": ["learner-1", "learner-3"],
}
INJECTION: Mapping[str, Json] = {
    "injection": "injection-0",
    "spec": "half-dies",
    "fault": "process.kill",
    "targets": ["learner-1", "learner-3"],
}
BEGUN: Mapping[str, Json] = {
    **INJECTION, "settings": {}, "trigger": "round 20", "takes_away": True, "for_s": 5.0,
}  # fmt: skip
