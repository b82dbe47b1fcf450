"""Calls of a proxy's HTTP API, each with a deadline: JSON in, JSON out.

    call ─► request ─► answer, or FleetError with what the server said, or that it said nothing

No retries: a call that got lost may have been carried out, which its caller finds out. The token is
sent with each call and never shown, neither in an error nor in the text of an `Endpoint`.
"""

import http.client
import json
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json

CALL_S = 5.0
"""Time limit of one call: all are on loopback or in one data centre."""
_READY_S: Final = 20.0
"""Time until the API of a new server answers."""
_PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address of a proxy's API, and its token."""

    address: str
    """host:port."""
    token: str = field(default="", repr=False)
    """Empty for a server that asks for none."""

    def __str__(self) -> str:
        return self.address

    @property
    def facts(self) -> dict[str, Json]:
        """Facts of an undo entry, which only its owner can read: `api`, `token` if there is one."""
        return {"api": self.address, **({"token": self.token} if self.token else {})}


class NoSuchName(FleetError):
    """The server has nothing of that name (404)."""


class Unreachable(FleetError):
    """Nobody listens at that address, or behind the gate there (502): whatever a server had there
    is gone with it.
    """


Way: TypeAlias = Callable[[str, float], http.client.HTTPConnection]
"""Makes a connection to an API's address, with a deadline for each read; not connected yet."""


def over_tcp(address: str, within_s: float) -> http.client.HTTPConnection:
    """The usual way."""
    return http.client.HTTPConnection(address, timeout=within_s)


def call(
    api: Endpoint,
    method: str,
    path: str,
    body: Json = None,
    *,
    within_s: float = CALL_S,
    way: Way = over_tcp,
) -> Json:
    """One call. The answer is None when it has no body.

    FleetError: nobody answered within `within_s`, or the answer was an error.
    """
    text = None if body is None else json.dumps(body)
    headers = {"Content-Type": "application/json"}
    if api.token:
        headers["Authorization"] = f"Bearer {api.token}"
    try:
        with closing(way(api.address, within_s)) as connection:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            status, answer = response.status, response.read().decode(errors="replace")
    except ConnectionRefusedError as error:
        raise Unreachable(f"no proxy listens at {api} any more") from error
    except (OSError, OverflowError, http.client.HTTPException) as error:
        raise FleetError(
            f"the proxy at {api} does not answer {method} {path}: {error or type(error)!r}"
        ) from error
    if status >= 400:
        kind = {404: NoSuchName, 502: Unreachable}.get(status, FleetError)
        raise kind(f"the proxy at {api} refused {method} {path}: {_reason(answer)}")
    return decoded(answer)


def await_answer(api: Endpoint, ended: Callable[[], str], way: Way = over_tcp) -> None:
    """Wait for the first answer of a server that was just started. FleetError if it does not come
    up; `ended` says how it has ended, as a clause.
    """
    deadline_s = time.monotonic() + _READY_S
    while True:
        try:
            call(api, "GET", "/version", way=way)
        except FleetError as error:
            if how := ended():
                raise FleetError(f"the proxy for links did not come up: {how}") from error
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def an_object(value: Json) -> Mapping[str, Json]:
    """The object that an answer must be; FleetError otherwise."""
    if not isinstance(value, Mapping):
        raise FleetError(f"the proxy answered {value!r}, which is no object")
    return value


def decoded(answer: str) -> Json:
    """The JSON of an answer, None if it is empty; a text that is no JSON as it is."""
    try:
        value: Json = json.loads(answer) if answer else None
    except ValueError:
        return answer
    return value


def _reason(answer: str) -> str:
    value = decoded(answer)
    return str(value.get("error", answer)) if isinstance(value, Mapping) else answer


def address_of(host: str) -> str:
    """Address of a host, IPv4 if it has one. OSError if it has none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return str(min(found, key=lambda one: one[0] is not socket.AF_INET)[4][0])
