"""Toxiproxy's client gets the same from the embedded proxy as from a real Toxiproxy server.

    say("add", name="p", toxic="t", …) ─► goclient/ ─► the server

It is Toxiproxy's own Go client, which its command line uses, too; it is built once with a Go
toolchain, at the version that chaoslab pins, into the cache. chaoslab itself uses the Python client
(`test_toxiproxy.py`).
"""

import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from chaoslab.links.base import Link
from chaoslab.links.effects import Direction
from chaoslab.links.ports import ReservedPort
from chaoslab.links.proxied.process import Server
from chaoslab.links.toxiproxy import server_binary
from chaoslab.undo.base import NoUndoLog
from tests.contracts.link_stage import Pair, Upstream, dial, how_it_ends, is_open, receive
from tests.links.public_proxy import public_proxy

pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.toxiproxy]
_BUILD_S: Final = 600
_STREAMS: Final = {"upstream": Direction.UP, "downstream": Direction.DOWN}
_TOXICS: Final = {
    "latency": ({"latency": 60, "jitter": 5}, ("is_late",)),
    "bandwidth": ({"rate": 1}, ("size", "is_late")),
    "slow_close": ({"delay": 80}, ("end", "closes_late")),
    "timeout": ({"timeout": 60}, ("size",)),
    "reset_peer": ({"timeout": 1}, ("end",)),
    "slicer": ({"average_size": 10, "size_variation": 5, "delay": 30_000}, ("in_pieces",)),
    "limit_data": ({"bytes": 50}, ("size",)),
}
"""The attributes of each, and what shows of 100 bytes that are sent through it."""
_CHANGED: Final = {"latency": 1, "jitter": 0, "rate": 5000, "delay": 1, "timeout": 10, "bytes": 70}


@contextmanager
def real_server(directory: Path) -> Iterator[Server]:
    binary = server_binary.find()
    assert binary is not None, "chaoslab doctor --fix"

    def command(port: ReservedPort) -> tuple[str, ...]:
        return str(binary), "-host", port.host, "-port", str(port.number), "-proxy-metrics"

    server = Server(
        "toxiproxy", command, directory, NoUndoLog(), environment={"LOG_LEVEL": "error"}
    )
    server.open()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def go_client() -> Path:
    cache = os.environ.get("CHAOSLAB_CACHE") or Path.home() / ".cache" / "chaoslab"
    made = Path(cache).absolute() / f"toxiproxy-{server_binary.VERSION}-clients" / "goclient"
    environment = {**os.environ, "CGO_ENABLED": "0"}
    try:
        subprocess.run(
            ("go", "build", "-o", made, "."), cwd=Path(__file__).parent / "goclient",
            env=environment, timeout=_BUILD_S, check=True, capture_output=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        if "toxiproxy" in os.environ.get("CHAOSLAB_REQUIRE", ""):
            raise
        pytest.skip(f"Toxiproxy's client cannot be built: {error}")
    return made


def test_a_client_gets_the_same_from_both_servers(go_client: Path, tmp_path: Path) -> None:
    told = []
    for server_of in (real_server, public_proxy):
        with (
            server_of(tmp_path) as server,
            closing(Upstream()) as upstream,
            closing(ReservedPort()) as held,
            subprocess.Popen(
                go_client, env={"TOXIPROXY_URL": f"http://{server.api.address}"}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            ) as client,
        ):  # fmt: skip
            told.append(Script(client, held.address, upstream).play(server.api.address))
    real, embedded = told
    for theirs, ours in zip(real, embedded, strict=True):
        assert ours == theirs
    assert len([one for one in real if one[0] == "acts"]) == 2 * len(_TOXICS)


class Script:
    """What is done with each server, and what came of it."""

    def __init__(self, client: "subprocess.Popen[str]", listen: str, upstream: Upstream) -> None:
        self._client, self._listen, self._upstream = client, listen, upstream
        self._told: list[tuple[str, Any]] = []

    def play(self, address: str) -> list[tuple[str, Any]]:
        """All of it, in order."""
        self._say("inspect", name="p")
        for _ in range(2):
            self._say("create", name="p", listen=self._listen, upstream=self._upstream.address)
        self._say("list")
        self._say("disable", name="p")
        with pytest.raises(ConnectionRefusedError):
            dial(self._listen)
        self._say("enable", name="p")
        assert is_open(self._connect())
        self._say("move", name="p", upstream="127.0.0.1:9")
        self._say("move", name="p", upstream=self._upstream.address)
        for kind in _TOXICS:
            for stream in _STREAMS:
                self._toxic(kind, stream)
        self._say("add", name="p", toxic="", toxicity=0, type="latency", stream="upstream",
                  attributes={"latency": 6000})  # fmt: skip
        assert is_open(self._connect()), "a toxicity of 0 lets every connection alone"
        self._say("remove", name="p", toxic="latency_upstream")
        self._say("add", name="p", toxic="t", toxicity=1, type="no such", stream="upstream")
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        samples = {line.rpartition(" ")[0] for line in lines if line.startswith("toxiproxy_proxy")}
        self._note("metrics", sorted(one for one in samples if '"127.0.0.1:9"' not in one))
        self._say("disable", name="p")
        self._say("reset")
        assert is_open(self._connect())
        proxies = [
            {"name": "p", "listen": self._listen, "upstream": self._upstream.address},
            {"name": "q", "listen": self._listen, "upstream": "127.0.0.1:9", "enabled": False},
        ]
        self._say("populate", proxies=proxies)
        for _ in range(2):
            self._say("delete", name="p")
        self._say("list")
        return self._told

    def _toxic(self, kind: str, stream: str) -> None:
        """Added, repeated, seen at work, changed, removed."""
        attributes, looked_at = _TOXICS[kind]
        added = {"type": kind, "stream": stream, "toxicity": 1, "attributes": attributes}
        for _ in range(2):
            self._say("add", name="p", toxic="t", **added)
        self._say("inspect", name="p")
        seen = acts(self._connect(), _STREAMS[stream], looked_at)
        self._note("acts", (kind, stream, seen))
        changed = {key: _CHANGED[key] for key in attributes if key in _CHANGED}
        self._say("update", name="p", toxic="t", toxicity=0.5, attributes=changed)
        for _ in range(2):
            self._say("remove", name="p", toxic="t")
        assert is_open(self._connect())

    def _say(self, verb: str, **words: Any) -> None:
        """One line to the client and one back; of an error only its status counts."""
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        asked = {key.capitalize(): value for key, value in {"verb": verb, **words}.items()}
        self._client.stdin.write(json.dumps(asked) + "\n")
        self._client.stdin.flush()
        self._note(verb, re.sub(r"HTTP (\d+): .*", r'HTTP \1"}', self._client.stdout.readline()))

    def _note(self, what: str, value: Any) -> None:
        text = json.dumps(value).replace(self._listen, "LISTEN")
        self._told.append((what, text.replace(self._upstream.address, "UPSTREAM")))

    def _connect(self) -> Pair:
        return self._upstream.connect(cast("Link", SimpleNamespace(address=self._listen)))


def acts(pair: Pair, way: Direction, looked_at: Collection[str]) -> dict[str, object]:
    """What becomes of 100 bytes, and of the connection after them."""
    sender, receiver = pair.ends(way)
    began_s = time.perf_counter()
    seen: dict[str, object] = {"size": 0, "end": "reset"}
    with closing(pair), suppress(ConnectionError):
        with suppress(ConnectionError):  # by a reset, which the receiver is told as well
            sender.sendall(bytes(100))
        arrived = receive(receiver, 100)
        came_s = time.perf_counter()
        seen = {"size": arrived.size, "is_late": came_s - began_s > 0.04}
        seen["in_pieces"] = len(arrived.pieces) > 1 and arrived.seconds > 0.02
        if "closes_late" in looked_at:
            sender.close()
        if "end" in looked_at:
            seen["end"] = how_it_ends(receiver)
        seen["closes_late"] = time.perf_counter() - came_s > 0.06
    return {key: seen.get(key) for key in looked_at}
