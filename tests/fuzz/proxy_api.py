"""The embedded proxy's API: requests that are wrong in bytes, in HTTP, in JSON or in meaning.

    seed ─► a connection's bytes ─► converse ─► the answers ─► well formed, and none of them a 500

Without a socket for the API; the proxies that it makes do listen, on free ports of loopback.
"""

import asyncio
import atexit
import json
import random
from collections.abc import Mapping
from dataclasses import fields
from typing import Final, cast

from chaoslab.links.proxy.access import Guard
from chaoslab.links.proxy.api import Api
from chaoslab.links.proxy.http import converse
from chaoslab.links.proxy.toxics import KINDS, Json

SECONDS_MAX: Final = 5.0
_TOKEN: Final = "fuzz"
_LOOP: Final = asyncio.new_event_loop()
atexit.register(_LOOP.close)
_NAMES = ("p", "q", "", ".", "a b", "p/..", "é", "x" * 300)
_STATUSES = {200, 201, 204, 400, 401, 403, 404, 405, 409, 413, 415}
_ODD: tuple[Json, ...] = (
    None, True, False, 0, -1, 1, 0.5, 1e300, -1e300, 1 << 70, "", "p", "\ud800", [], {},
    [[[]]], {"a": {}}, float("nan"), float("inf"), "127.0.0.1:0", "1.2.3.4:99999", ":0", "::1:1",
    "localhost:0", "\u0661\u0662", "a" * 5000,
)  # fmt: skip


class _Writer:
    """Takes the answers."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        """There is room."""

    def close(self) -> None:
        self.is_closed = True


def one(seed: int) -> None:
    """One connection with up to ten requests."""
    chance = random.Random(seed)
    said, is_trusted = _conversation(chance)
    _LOOP.run_until_complete(_try(said, is_trusted=is_trusted))


async def _try(said: bytes, *, is_trusted: bool) -> None:
    api = Api()
    reader, writer = asyncio.StreamReader(), _Writer()
    reader.feed_data(said)
    reader.feed_eof()
    try:
        guard = Guard(token=_TOKEN)
        await converse(api.handle, guard, reader, cast("asyncio.StreamWriter", writer))
        statuses = _answers(bytes(writer.written))
        assert writer.is_closed
        assert _STATUSES.issuperset(statuses), statuses
        assert is_trusted or not any(status < 400 for status in statuses), statuses
        status, shown = api.handle("GET", "/proxies", {})
        assert status == 200
        json.dumps(shown, allow_nan=False)
        assert is_trusted or not shown
    finally:
        api.close()


def _answers(written: bytes) -> list[int]:
    """The status of each; ValueError or KeyError if one is no HTTP with JSON or text."""
    statuses = []
    while written:
        head, _, rest = written.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = int(headers["Content-Length"])
        assert len(rest) >= size
        status = int(first.split()[1])
        if size and headers["Content-Type"] == "application/json":
            answer = json.loads(rest[:size])
            is_taken = status == 500 and "cannot be listened on" in answer["error"]
            status = 409 if is_taken else status  # a changed byte can name any address
        statuses.append(status)
        written = rest[size:]
    return statuses


# ---------------------------------------------------------------- what is said


def _conversation(chance: random.Random) -> tuple[bytes, bool]:
    """The bytes, and whether anything in them may have been carried out."""
    is_trusted = chance.random() < 0.9
    said = b"".join(_request(chance, is_trusted) for _ in range(chance.randint(1, 10)))
    if chance.random() < 0.9:  # else there is hardly ever a proxy to speak of
        body = b'{"name": "p", "upstream": "127.0.0.1:9"}'
        said = _written("POST", "/proxies", body, is_trusted) + said
    if chance.random() < 0.2:
        said = _spoilt(chance, said)
        is_trusted = True  # a byte that changed may have made it so
    return said, is_trusted


def _request(chance: random.Random, is_trusted: bool) -> bytes:
    methods, path, make = chance.choice((
        (("POST",), "/proxies", _proxy),
        (("POST", "PATCH"), "/proxies/p", _proxy),
        (("POST",), "/proxies/p/toxics", _toxic),
        (("POST",), "/proxies/p/toxics", _toxic),
        (("POST", "PATCH"), "/proxies/p/toxics/t", _update),
        (("POST", "PATCH"), "/proxies/p/toxics/t", _update),
        (("POST",), "/populate", _populated),
        (("POST",), chance.choice(("/reset", "/proxies/p/reset")), _odd),
        (("DELETE",), chance.choice(("/proxies/p", "/proxies/p/toxics/t")), _odd),
        (("GET",), _path(chance), _odd),
        (("GET", "POST", "PATCH", "DELETE", "PUT", "\u00e9"), _path(chance), _odd),
    ))  # fmt: skip
    body = json.dumps(make(chance)).encode()
    if chance.random() < 0.02:
        body = chance.choice((b"[" * 20_000, b"9" * 6000, b'{"a":' * 3000, b"\xff\xfe", b"{"))
    more: dict[str, object] = {}
    if chance.random() < 0.05:
        more = chance.choice((
            {"Host": "example.com"}, {"Origin": "null"}, {"Content-Type": "text/plain"},
            {"Transfer-Encoding": "chunked"}, {"Connection": "close"}, {"Authorization": "Basic ="},
            {"Content-Length": chance.choice((-1, 10**30, "x", 3))},
        ))  # fmt: skip
    return _written(chance.choice(methods), path, body, is_trusted, more)


def _written(
    method: str, path: str, body: bytes, is_trusted: bool, more: Mapping[str, object] | None = None
) -> bytes:
    headers: dict[str, object] = {
        "Host": "localhost",
        "Content-Length": len(body),
        "Content-Type": "application/json",
        **({"Authorization": f"Bearer {_TOKEN}"} if is_trusted else {}),
        **(more or {}),
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


def _path(chance: random.Random) -> str:
    name, toxic = (chance.choice(_NAMES) for _ in range(2))
    paths = (
        "/proxies", "/proxies/p", "/proxies/p/toxics", "/proxies/p/toxics/t", "/metrics",
        "/proxies/p/counters", "/version", f"/proxies/{name}", f"/proxies/{name}/toxics/{toxic}",
        "/proxies/p/toxics/t/u", "/populate", "/", "//", "*",
    )  # fmt: skip
    return chance.choice(paths)


def _proxy(chance: random.Random) -> Json:
    value: dict[str, Json] = {"name": chance.choice(("p", "p", "q")), "upstream": "127.0.0.1:9"}
    value |= chance.choice((
        {}, {"listen": "127.0.0.1:0"}, {"enabled": False}, {"toxics": None}, {"toxics": []},
    ))  # fmt: skip
    return _bent(chance, value)


def _toxic(chance: random.Random) -> Json:
    kind = chance.choice(tuple(KINDS))
    value: dict[str, Json] = {"type": kind, "attributes": _attributes(chance, kind), "name": "t"}
    value |= chance.choice((
        {}, {"stream": "upstream"}, {"stream": "both"}, {"toxicity": 0.5}, {"name": ""},
    ))  # fmt: skip
    return _bent(chance, value)


def _update(chance: random.Random) -> Json:
    kind = chance.choice(tuple(KINDS))
    value: dict[str, Json] = {"attributes": _attributes(chance, kind)}
    return _bent(chance, value | chance.choice(({}, {"toxicity": chance.random()})))


def _attributes(chance: random.Random, kind: str) -> Json:
    """Mostly those of its kind."""
    names = [one.name for one in fields(KINDS[kind])] or ["latency"]
    return {
        chance.choice(names): (
            _odd(chance) if chance.random() < 0.1 else chance.choice((0, 1, 50, 1000, "link"))
        )
        for _ in range(chance.randint(0, 2))
    }


def _populated(chance: random.Random) -> Json:
    return [_proxy(chance) for _ in range(chance.randint(0, 3))]


def _bent(chance: random.Random, value: dict[str, Json]) -> Json:
    if chance.random() < 0.3:
        key = chance.choice((*value, "colour", "name", "attributes", "stream", "toxicity"))
        value[key] = _odd(chance)
    return value


def _odd(chance: random.Random) -> Json:
    return chance.choice(_ODD)


def _spoilt(chance: random.Random, said: bytes) -> bytes:
    """Some bytes changed, cut off or doubled."""
    spoilt = bytearray(said)
    for _ in range(chance.randint(1, 8)):
        where = chance.randrange(len(spoilt))
        spoilt[where] = chance.randrange(256)
    cut = chance.randrange(len(spoilt)) if chance.random() < 0.3 else len(spoilt)
    return bytes(spoilt[:cut])
