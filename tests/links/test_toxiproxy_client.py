"""Toxiproxy's client against servers of another kind, and numbers it cannot send."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.links.effects import Bandwidth, Effect, Latency, Slice
from chaoslab.links.proxied.http_api import Endpoint
from chaoslab.links.proxied.toxics import whole_numbers
from chaoslab.links.toxiproxy.client import ToxiproxyClient
from chaoslab.links.toxiproxy.links import ToxiproxyLinks


def refusing_server(status: int, body: bytes) -> tuple[socket.socket, str]:
    """Answers everything like that."""
    listener = socket.create_server(("127.0.0.1", 0))
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client:
                    client.recv(65536)
                    client.sendall(head.encode() + body)

    threading.Thread(target=serve, daemon=True).start()
    host, port = listener.getsockname()
    return listener, f"{host}:{port}"


def test_a_server_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        host, port = gone.getsockname()
    for address in (f"{host}:{port}", "127.0.0.1:99999"):
        with pytest.raises(AbilityError, match=address):
            ToxiproxyLinks(tmp_path, address=address)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>welcome</html>"),
        (200, b"17"),
        (200, b"2.5.0"),
        (200, b'{"version": "2.5.0", "names": {}}'),
        (404, b"<p>not\nfound</p>" * 1000),
    ],
)
def test_another_server_is_no_toxiproxy(tmp_path: Path, status: int, body: bytes) -> None:
    listener, api = refusing_server(status, body)
    with listener, pytest.raises(AbilityError, match=api):
        ToxiproxyLinks(tmp_path, address=api)


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host, port = mute.getsockname()
        proxy_client = ToxiproxyClient(Endpoint(address=f"{host}:{port}"))
        for method in ("GET", "POST", "DELETE"):
            with pytest.raises(FleetError, match=f"{method} /proxies"):
                proxy_client.ask(method, "/proxies", within_s=0.05)


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b'{"error": "boom"}'), (500, b"boom"), (409, b"taken"), (400, b"what?"), (200, b"{}")],
)
def test_whatever_the_library_makes_of_an_answer_is_an_error_that_says_what_was_asked(
    status: int, body: bytes
) -> None:
    listener, api = refusing_server(status, body)
    with listener, pytest.raises(FleetError, match="Toxiproxy"):
        ToxiproxyClient(Endpoint(address=api)).create("p", "127.0.0.1:1", "127.0.0.1:2")


@pytest.mark.parametrize(
    "effect",
    [
        Latency(mean_s=0.0004),
        Latency(mean_s=0.01, jitter_s=0.0004),
        Bandwidth(rate_bytes_per_s=400),
        Bandwidth(rate_bytes_per_s=1600),
        Slice(size_bytes=10, delay_s=0.0000004),
    ],
)
def test_what_whole_numbers_cannot_say_is_refused(effect: Effect) -> None:
    with pytest.raises(AbilityError, match="embedded"):
        whole_numbers(effect)


def test_what_is_near_a_whole_number_is_taken() -> None:
    assert whole_numbers(Latency(mean_s=0.0201))[1] == {"latency": 20, "jitter": 0}
    assert whole_numbers(Bandwidth(rate_bytes_per_s=2e6))[1] == {"rate": 2000}
