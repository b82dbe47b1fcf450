"""The embedded proxy's API: Toxiproxy's, strict, and bounded. Calls have deadlines."""

import http.client
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.links.proxied.embedded import EmbeddedLinks
from chaoslab.links.proxied.http_api import Endpoint, NoSuchName, Unreachable, an_object, call

pytestmark = pytest.mark.gate
UPSTREAM = "127.0.0.1:9"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with EmbeddedLinks(tmp_path_factory.mktemp("links")) as links:
        yield links.api


@pytest.fixture
def api(server: Endpoint) -> Iterator[Endpoint]:
    call(server, "POST", "/proxies", {"name": "p", "upstream": UPSTREAM})
    yield server
    call(server, "DELETE", "/proxies/p")


def test_a_proxy_is_shown_as_toxiproxy_shows_it(api: Endpoint) -> None:
    shown = an_object(call(api, "GET", "/proxies/p"))
    assert set(shown) == {"name", "listen", "upstream", "enabled", "toxics"}
    assert (shown["upstream"], shown["enabled"], shown["toxics"]) == (UPSTREAM, True, [])
    assert call(api, "GET", "/proxies") == {"p": shown}
    assert "2." in str(call(api, "GET", "/version"))


def test_a_toxic_is_added_shown_changed_and_removed(api: Endpoint) -> None:
    toxics = "/proxies/p/toxics"
    made = call(api, "POST", toxics, {"type": "latency", "attributes": {"latency": 5}})
    assert call(api, "GET", toxics) == [made]
    where = f"{toxics}/latency_downstream"
    assert call(api, "GET", where) == made
    changed = an_object(call(api, "POST", where, {"attributes": {"latency": 6}}))
    assert an_object(changed["attributes"])["latency"] == 6
    assert call(api, "DELETE", where) is None
    assert call(api, "GET", toxics) == []


def test_a_link_is_switched_off_and_on_at_the_same_port(api: Endpoint) -> None:
    listen = an_object(call(api, "GET", "/proxies/p"))["listen"]
    off = an_object(call(api, "POST", "/proxies/p", {"enabled": False}))
    assert (off["enabled"], off["listen"]) == (False, listen)
    host, _, port = str(listen).rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    on = an_object(call(api, "POST", "/proxies/p", {"enabled": True, "listen": listen}))
    assert (on["enabled"], on["listen"]) == (True, listen)


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", "/proxies", {"name": "p", "upstream": UPSTREAM}, "already"),
        ("POST", "/proxies", {"name": "a b", "upstream": UPSTREAM}, "name: must"),
        ("POST", "/proxies", {"name": "q"}, "IPv4"),
        ("POST", "/proxies", {"name": "q", "upstream": "d b:1"}, "IPv4"),
        ("POST", "/proxies", {"name": "q", "upstream": "127.0.0.1:99999"}, "upstream: port"),
        ("POST", "/proxies", {"name": "q", "upsteam": UPSTREAM}, "upstream"),
        ("POST", "/proxies", {"name": "q", "upstream": UPSTREAM, "listen": "9.9.9.9:1"}, "listen"),
        ("POST", "/proxies/p", {"enabled": "no"}, "true or false"),
        ("POST", "/proxies/p", {"name": "q"}, "delete"),
        ("POST", "/proxies/p/toxics", {"type": "latency", "toxicity": 2}, "toxicity: must"),
        ("POST", "/proxies/p/toxics", {"type": "bandwidth", "attributes": {"rate": -1}}, "rate"),
        ("POST", "/populate", {}, "a list of proxies"),
        ("POST", "/proxies", [], "JSON object"),
        ("PUT", "/proxies/p", None, "GET or POST or PATCH or DELETE"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_help(
    api: Endpoint, method: str, path: str, body: Json, says: str
) -> None:
    with pytest.raises(FleetError, match=says):
        call(api, method, path, body)


@pytest.mark.parametrize(
    "path", ["/proxies/q", "/proxies/p/toxics/q", "/proxies/p/nothing", "/resets", "/", "/a/b/c/d"]
)
def test_what_is_not_there_is_not_there(api: Endpoint, path: str) -> None:
    with pytest.raises(NoSuchName):
        call(api, "GET", path)


@pytest.mark.parametrize(
    "said",
    [b"hello\r\n\r\n", b"POST /proxies HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n",
     b"POST /proxies HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
     b"POST /proxies HTTP/1.1\r\nContent-Length: 3\r\n\r\n{x}"],
)  # fmt: skip
def test_what_is_no_request_is_answered_and_nobody_else_suffers(api: Endpoint, said: bytes) -> None:
    host, _, port = api.address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=10)) as client:
        client.sendall(said)
        assert client.recv(100).startswith(b"HTTP/1.1 4")
    assert an_object(call(api, "GET", "/proxies/p"))["name"] == "p"


def test_one_connection_serves_many_calls(api: Endpoint) -> None:
    connection = http.client.HTTPConnection(api.address, timeout=10)
    for _ in range(3):
        connection.request("GET", "/version", headers={"Authorization": f"Bearer {api.token}"})
        assert connection.getresponse().read()
    connection.close()


# ---------------------------------------------------------------- deadlines


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host, port = mute.getsockname()
        with pytest.raises(FleetError, match="GET /version"):
            call(Endpoint(address=f"{host}:{port}"), "GET", "/version", within_s=0.2)


def test_a_server_that_is_gone_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        host, port = gone.getsockname()
    with pytest.raises(Unreachable, match="any more"):
        call(Endpoint(address=f"{host}:{port}"), "GET", "/version")


@pytest.mark.deep
@pytest.mark.parametrize("_", range(10))
def test_what_ends_it_may_be_said_again_while_it_ends(_: int) -> None:
    command = [sys.executable, "-m", "chaoslab.links.proxy"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        assert proxy.stderr is not None
        assert proxy.stdout.readline(), "it serves"
        proxy.stdin.close()
        while proxy.poll() is None:
            proxy.terminate()
            with suppress(subprocess.TimeoutExpired):
                proxy.wait(0.0005)
        assert proxy.stderr.read() == b""
