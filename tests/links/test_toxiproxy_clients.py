"""Toxiproxy's clients get the same from the embedded proxy as from a real Toxiproxy server."""

import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from chaoslab.links.base import Link
from chaoslab.links.effects import Direction
from chaoslab.links.ports import HeldPort
from chaoslab.links.proxied.embedded import EmbeddedLinks
from chaoslab.links.proxied.process import Server
from chaoslab.links.toxiproxy import server_binary
from chaoslab.undo.base import NoUndoLog
from tests.contracts.link_stage import (
    Pair,
    Upstream,
    dial,
    how_it_ends,
    is_open,
    median_delay_s,
    receive,
)
from tests.links.public_proxy import public_proxy
from tests.links.toxiproxy_clients import (
    Client,
    NoSuchVerb,
    PythonClient,
    go_client,
)

pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.toxiproxy]
_STREAMS: Final = {"upstream": Direction.UP, "downstream": Direction.DOWN}
_TOXICS: Final = {
    "latency": {"latency": 60, "jitter": 5},
    "bandwidth": {"rate": 100},
    "slow_close": {"delay": 80},
    "timeout": {"timeout": 60},
    "reset_peer": {"timeout": 1},
    "slicer": {"average_size": 10, "size_variation": 5, "delay": 30_000},
    "limit_data": {"bytes": 50},
}
_CHANGED: Final = {"latency": 1, "rate": 5000, "delay": 1, "timeout": 10, "bytes": 70}


@contextmanager
def real_server(directory: Path) -> Iterator[Server]:
    binary = server_binary.find()
    assert binary is not None, "chaoslab doctor --fix"

    def command(port: HeldPort) -> tuple[str, ...]:
        return str(binary), "-host", port.host, "-port", str(port.number), "-proxy-metrics"

    server = Server(
        "toxiproxy", command, directory, NoUndoLog(), environment={"LOG_LEVEL": "error"}
    )
    server.open()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def client_of(kind: str, address: str, token: str = "") -> Iterator[Client]:
    user = f"anybody:{token}@" if token else ""
    host, _, port = address.rpartition(":")
    with ExitStack() as stack:
        match kind:
            case "go":
                yield stack.enter_context(go_client(f"http://{user}{address}"))
            case "python":
                yield PythonClient(f"{user}{host}", int(port))


CLIENTS: Final = ("go", "python")


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_gets_the_same_from_both_servers(kind: str, tmp_path: Path) -> None:
    told = []
    for server_of in (real_server, public_proxy):
        with (
            server_of(tmp_path) as server,
            client_of(kind, server.api.address) as client,
            closing(Upstream()) as upstream,
        ):
            told.append(Script(client, server.api.address, upstream).play())
    real, embedded = told
    for theirs, ours in zip(real, embedded, strict=True):
        assert ours == theirs
    assert len([one for one in real if one[0] == "acts"]) == 2 * len(_TOXICS)


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_that_has_the_token_is_served_and_no_other(kind: str, tmp_path: Path) -> None:
    with EmbeddedLinks(tmp_path) as links:
        with client_of(kind, links.api.address, links.api.token) as client:
            client.do("create", name="p", listen="127.0.0.1:0", upstream="127.0.0.1:9")
            assert "p" in str(client.do("list"))
        for token in ("", "guessed"):
            with client_of(kind, links.api.address, token) as stranger, suppress(TypeError):
                answer = stranger.do("create", name="q", listen="127.0.0.1:0", upstream="1.1.1.1:1")
                assert "error" in answer
        with client_of(kind, links.api.address, links.api.token) as client:
            assert "q" not in client.do("list")


class Script:
    """What is done with each server, and what came of it."""

    def __init__(self, client: Client, address: str, upstream: Upstream) -> None:
        self._client, self._address, self._upstream = client, address, upstream
        self._told: list[tuple[str, Any]] = []
        self._listen = ""

    def play(self) -> list[tuple[str, Any]]:
        """All of it, in order."""
        self._say("version")
        self._say("inspect", name="p")
        with closing(HeldPort()) as held:
            self._listen = held.address
            self._say("create", name="p", listen=self._listen, upstream=self._upstream.address)
            self._say("create", name="p", listen=self._listen, upstream=self._upstream.address)
            self._proxy()
            for kind in _TOXICS:
                for stream in _STREAMS:
                    self._toxic(kind, stream)
            self._chance()
            self._metrics()
            self._many()
        return self._told

    def _say(self, verb: str, **words: Any) -> None:
        with suppress(NoSuchVerb):
            self._note(verb, self._client.do(verb, **words))

    def _note(self, what: str, value: Any) -> None:
        self._told.append((what, self._without_addresses(value)))

    def _without_addresses(self, value: Any) -> Any:
        match value:
            case str():
                for address in (self._listen, self._upstream.address):
                    value = value.replace(address, "ADDRESS") if address else value
                return value
            case dict():
                return {
                    key: self._without_addresses(one)
                    for key, one in value.items()
                    if key != "api_consumer"
                }
            case list():
                return [self._without_addresses(one) for one in value]
        return value

    def _connect(self) -> Pair:
        return self._upstream.connect(cast("Link", SimpleNamespace(address=self._listen)))

    # ---------------------------------------------------------------- scenes

    def _proxy(self) -> None:
        """Shown, switched off, on, and led elsewhere and back."""
        self._say("list")
        self._say("inspect", name="p")
        self._say("disable", name="p")
        with pytest.raises(ConnectionRefusedError):
            dial(self._listen)
        self._say("enable", name="p")
        assert is_open(self._connect())
        self._say("move", name="p", upstream="127.0.0.1:9")
        self._say("move", name="p", upstream=self._upstream.address)
        assert is_open(self._connect())

    def _toxic(self, kind: str, stream: str) -> None:
        words = {"name": "p", "toxic": "t"}
        attributes = _TOXICS[kind]
        added = {**words, "type": kind, "stream": stream, "toxicity": 1, "attributes": attributes}
        self._say("add", **added)
        self._say("add", **added)
        self._say("inspect", name="p")
        self._note("acts", (kind, stream, _acts(kind, self._connect(), _STREAMS[stream])))
        changed = {key: _CHANGED[key] for key in attributes if key in _CHANGED}
        if kind == "latency":
            changed["jitter"] = 0
        self._say("update", **words, toxicity=0.5, attributes=changed)
        self._say("inspect", name="p")
        self._say("remove", **words)
        self._say("remove", **words)
        assert is_open(self._connect())

    def _chance(self) -> None:
        """A toxicity of 0 lets every connection alone."""
        late = {"type": "latency", "stream": "upstream", "attributes": {"latency": 600}}
        self._say("add", name="p", toxic="t", toxicity=0, **late)
        self._note("toxicity 0", median_delay_s(self._connect(), Direction.UP, 3) < 0.5)
        self._say("remove", name="p", toxic="t")
        self._say("add", name="p", toxic="", toxicity=1, **late)
        self._say("inspect", name="p")
        self._say("remove", name="p", toxic="latency_upstream")
        self._say("add", name="p", toxic="t", toxicity=1, **{**late, "type": "no such"})
        self._say("remove", name="q", toxic="t")

    def _metrics(self) -> None:
        with urllib.request.urlopen(f"http://{self._address}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        samples = {line.rpartition(" ")[0] for line in lines if line.startswith("toxiproxy_proxy")}
        self._note("metrics", sorted(one for one in samples if '"127.0.0.1:9"' not in one))

    def _many(self) -> None:
        """Populated, reset, deleted."""
        proxies = [
            {"name": "p", "listen": self._listen, "upstream": self._upstream.address},
            {"name": "q", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:9"},
        ]
        self._say("populate", proxies=proxies[:1])
        with suppress(NoSuchVerb):
            self._note("populate", len(self._client.do("populate", proxies=proxies)))
            self._say("disable", name="p")
            attributes = {"latency": 1000}
            self._say(
                "add", name="p", toxic="t", type="latency", stream="upstream", toxicity=1,
                attributes=attributes,
            )  # fmt: skip
            self._say("reset")
            assert is_open(self._connect())
            self._client.do("delete", name="q")
        self._say("list")
        self._say("delete", name="p")
        self._say("delete", name="p")
        self._say("list")


# ---------------------------------------------------------------- what a toxic does


def _acts(kind: str, pair: Pair, way: Direction) -> str:
    """What this toxic does to this connection, in a word."""
    try:
        return _LOOK[kind](pair, way)
    finally:
        pair.close()


def _is_late(pair: Pair, way: Direction) -> str:
    return "late" if median_delay_s(pair, way, 2) > 0.04 else "in time"


def _is_slow(pair: Pair, way: Direction) -> str:
    sender, receiver = pair.ends(way)
    began_s = time.perf_counter()
    sender.sendall(bytes(10_000))
    size = receive(receiver, 10_000).size
    return f"{size} bytes, {'slow' if time.perf_counter() - began_s > 0.08 else 'fast'}"


def _closes_late(pair: Pair, way: Direction) -> str:
    sender, receiver = pair.ends(way)
    began_s = time.perf_counter()
    sender.close()
    end = how_it_ends(receiver)
    return f"{end} {'late' if time.perf_counter() - began_s > 0.06 else 'soon'}"


def _loses(pair: Pair, way: Direction) -> str:
    sender, receiver = pair.ends(way)
    sender.sendall(b"lost")
    try:
        return f"{receive(receiver, 4).size} bytes, ended"
    except ConnectionResetError:
        return "0 bytes, ended"


def _resets(pair: Pair, way: Direction) -> str:
    sender, receiver = pair.ends(way)
    with suppress(ConnectionError):
        sender.sendall(b"?")
    return how_it_ends(receiver)


def _cuts(pair: Pair, way: Direction) -> str:
    sender, receiver = pair.ends(way)
    sender.sendall(bytes(100))
    arrived = receive(receiver, 100)
    return "in pieces" if len(arrived.pieces) > 1 and arrived.seconds > 0.02 else "at once"


def _limits(pair: Pair, way: Direction) -> str:
    sender, receiver = pair.ends(way)
    sender.sendall(bytes(100))
    return f"{receive(receiver, 100).size} bytes"


_LOOK: Final[dict[str, Callable[[Pair, Direction], str]]] = {
    "latency": _is_late, "bandwidth": _is_slow, "slow_close": _closes_late, "timeout": _loses,
    "reset_peer": _resets, "slicer": _cuts, "limit_data": _limits,
}  # fmt: skip
