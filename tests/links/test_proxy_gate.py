"""A gate before an API without a token: who has the token passes, and nobody else."""

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.links.proxied.http_api import Endpoint, NoSuchName, Unreachable, call
from chaoslab.links.proxied.undo_verbs import EffectFacts, toxics_of
from chaoslab.links.proxy.gate import gate

TOKEN = "the-token-of-this-run"
_PATIENCE_S = 60.0


class Behind(BaseHTTPRequestHandler):
    """An API without a token: answers with what it was asked."""

    protocol_version = "HTTP/1.1"
    asked: list[str]
    may_answer: threading.Event
    is_asked_to_wait: threading.Event

    def _answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/held":
            self.is_asked_to_wait.set()
            assert self.may_answer.wait(_PATIENCE_S)
        status = 404 if self.path == "/nobody" else 200
        said = {"method": self.command, "body": json.loads(body or b"null")}
        content = b"" if self.command == "DELETE" else json.dumps(said).encode()
        self.send_response(204 if self.command == "DELETE" else status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - as the library calls them

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def api() -> Iterator[type[Behind]]:
    """The API behind the gate; what it was asked."""
    behind = type("Api", (Behind,), {
        "asked": [], "may_answer": threading.Event(), "is_asked_to_wait": threading.Event(),
    })  # fmt: skip
    with ThreadingHTTPServer(("127.0.0.1", 0), behind) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        behind.port = server.server_address[1]
        yield behind
        server.shutdown()


@pytest.fixture
def endpoint(api: type[Behind]) -> Iterator[Endpoint]:
    """The gate, as the harness calls it."""
    with gate("127.0.0.1", 0, api.port, TOKEN) as server:  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Endpoint(address=f"127.0.0.1:{server.server_address[1]}", token=TOKEN)
        server.shutdown()


def test_with_the_token_requests_pass_as_they_are(endpoint: Endpoint, api: type[Behind]) -> None:
    body = {"name": "learner-0", "enabled": True}
    assert call(endpoint, "POST", "/proxies", body) == {"method": "POST", "body": body}
    assert call(endpoint, "GET", "/proxies/learner-0") == {"method": "GET", "body": None}
    assert call(endpoint, "DELETE", "/proxies/learner-0") is None
    with pytest.raises(NoSuchName):
        call(endpoint, "GET", "/nobody")
    assert api.asked == [
        "POST /proxies", "GET /proxies/learner-0", "DELETE /proxies/learner-0", "GET /nobody",
    ]  # fmt: skip


@pytest.mark.parametrize("token", ["", "another", TOKEN[:-1], TOKEN.upper()])
def test_without_it_nothing_passes(endpoint: Endpoint, api: type[Behind], token: str) -> None:
    stranger = Endpoint(address=endpoint.address, token=token)
    for method in ("GET", "POST", "DELETE"):
        with pytest.raises(FleetError, match="token"):
            call(stranger, method, "/proxies", {} if method == "POST" else None)
    assert not api.asked


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://localhost"}, 403),
        ({"User-Agent": "Mozilla/5.0"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Transfer-Encoding": "chunked"}, 413),
    ],
)
def test_browsers_and_odd_bodies_do_not_pass(
    endpoint: Endpoint, api: type[Behind], headers: dict[str, str], status: int
) -> None:
    sent = {
        "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers,
    }  # fmt: skip
    with closing(http.client.HTTPConnection(endpoint.address, timeout=_PATIENCE_S)) as connection:
        connection.request("POST", "/proxies", "{}", sent)
        assert connection.getresponse().status == status
    assert not api.asked


def test_a_path_that_no_client_sends_is_answered(endpoint: Endpoint, api: type[Behind]) -> None:
    host, _, port = endpoint.address.rpartition(":")
    with socket.create_connection((host, int(port)), _PATIENCE_S) as stream:
        token = f"Authorization: Bearer {TOKEN}".encode()
        stream.sendall(b"GET /proxies/\xe9 HTTP/1.1\r\nHost: gate\r\n" + token + b"\r\n\r\n")
        assert stream.makefile("rb").readline().split()[1] == b"400"
    assert not api.asked


def test_a_slow_request_delays_no_other(endpoint: Endpoint, api: type[Behind]) -> None:
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(call, endpoint, "GET", "/held", within_s=_PATIENCE_S)
        assert api.is_asked_to_wait.wait(_PATIENCE_S)
        assert call(endpoint, "GET", "/version") == {"method": "GET", "body": None}
        assert not held.done()
        api.may_answer.set()
        assert held.result(_PATIENCE_S) == {"method": "GET", "body": None}


def test_an_api_that_is_gone_counts_as_gone_with_all_it_had() -> None:
    """An undo of a link asks for no more."""
    with gate("127.0.0.1", 0, 1, TOKEN) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        port = server.server_address[1]
        near = Endpoint(address=f"127.0.0.1:{port}", token=TOKEN)
        with pytest.raises(Unreachable):
            call(near, "GET", "/version")
        facts = EffectFacts(directory=Path("/"), api=near.address, token=TOKEN, proxy="learner-0",
                            injection="injection-0")  # fmt: skip
        assert not toxics_of(facts)
        server.shutdown()


def test_an_api_that_does_not_answer_may_still_have_it(
    endpoint: Endpoint, api: type[Behind], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.links.proxy.gate._API_S", 0.05)
    with pytest.raises(FleetError) as refusal:
        call(endpoint, "GET", "/held", within_s=_PATIENCE_S)
    assert not isinstance(refusal.value, Unreachable)
    api.may_answer.set()


@pytest.mark.deep
def test_a_gate_without_a_token_does_not_open() -> None:
    command = (sys.executable, "-m", "chaoslab.links.proxy.gate", "--host", "127.0.0.1")
    done = subprocess.run(
        (*command, "--port", "0", "--api-port", "1"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "needs a token" in done.stderr
