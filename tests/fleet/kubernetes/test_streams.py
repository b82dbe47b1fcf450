"""The cluster's client, closed or left while others use it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

import httpx2
import wsproto
from wsproto.events import AcceptConnection, BytesMessage, Request

from chaoslab.fleet.kubernetes.streams import ClusterClient


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Address of a server that answers once on a websocket, and then neither speaks nor closes."""
    opened: list[socket.socket] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:  # the test is over
                return
            opened.append(connection)
            protocol = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
            protocol.receive_data(connection.recv(65536))
            assert isinstance(next(protocol.events()), Request)
            connection.sendall(protocol.send(AcceptConnection()))
            connection.recv(65536)
            connection.sendall(protocol.send(BytesMessage(b"an answer")))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join()
        for one in opened:
            one.close()


def test_a_websocket_is_closed_once_nobody_reads_it(
    silent_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, at_close = threading.Event(), list[bool]()
    with (
        ClusterClient() as client,
        client.websocket(silent_server, keepalive_ping_interval_seconds=None) as session,
    ):
        read, close = session.stream.read, session.stream.close

        def watched_read(max_bytes: int, timeout: float | None = None) -> bytes:
            reading.set()
            try:
                return read(max_bytes, timeout)
            finally:
                reading.clear()

        def watched_close() -> None:
            at_close.append(reading.is_set())
            close()

        monkeypatch.setattr(session.stream, "read", watched_read)
        monkeypatch.setattr(session.stream, "close", watched_close)
        session.send_bytes(b"a question")
        assert session.receive_bytes(timeout=30) == b"an answer"
        assert reading.wait(30)
    assert at_close
    assert not any(at_close)


def test_what_is_asked_of_a_closed_client_is_an_error_of_the_connection() -> None:
    client = ClusterClient(base_url="http://127.0.0.1:9/")
    client.close()
    with pytest.raises(httpx2.ConnectError):
        client.get("version")
    with pytest.raises(httpx2.ConnectError), client.stream("GET", "pods"):
        pass


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(httpx2.Client, "send", broken)
    with ClusterClient() as client, pytest.raises(RuntimeError, match="a bug"):
        client.get("http://127.0.0.1:9/")
