"""HTTP to a port in a pod, over channels of a websocket that break, split and fall silent."""

import json
import struct
from contextlib import ExitStack

import pytest

pytest.importorskip("lightkube")

from httpx2.websockets import WebSocketDisconnect, WebSocketNetworkError
from wsproto.utilities import LocalProtocolError

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster, PortStream
from chaoslab.links.proxied.http_api import Endpoint, NoSuchName, Unreachable, call

PORT = 8474
BEGIN = (b"\0" + struct.pack("<H", PORT), b"\1" + struct.pack("<H", PORT))
API = Endpoint(address=f"pod:{PORT}", token="word")


class Channels:
    """A server that has said all this, and then ends, breaks off or is silent."""

    def __init__(self, *said: bytes, then: Exception) -> None:
        self._said, self._then = [*BEGIN, *said], then
        self.heard = b""
        self.is_closed = False

    def send_bytes(self, data: bytes) -> None:
        assert data[0] == 0
        self.heard += data[1:]

    def receive_bytes(self, timeout: float | None = None) -> bytes:
        assert timeout is not None
        if not self._said:
            raise self._then
        return self._said.pop(0)

    def close(self) -> None:
        self.is_closed = True


class Closed(Channels):
    """A server that has closed the websocket before anything is sent."""

    def send_bytes(self, data: bytes) -> None:
        raise LocalProtocolError("it cannot be sent in state CLOSED")


class Forwarding(ForwardingCluster):
    """A cluster whose one port is this."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def open_port(self, pod: str, port: int, within_s: float) -> PortStream:
        assert (pod, port) == ("pod", PORT)
        opened = ExitStack()
        opened.callback(self._channels.close)
        return PortStream(self._channels, opened, within_s)


def answer(body: object, status: str = "200 OK") -> bytes:
    text = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


def asked(channels: Channels, within_s: float = 60.0) -> object:
    way = Forwarding(channels).way("pod", PORT)
    return call(API, "POST", "/proxies", {"name": "learner-0"}, within_s=within_s, way=way)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_answer_arrives_whole_however_it_is_split(size: int) -> None:
    whole = answer({"name": "learner-0"})
    pieces = [b"\0" + whole[at : at + size] for at in range(0, len(whole), size)]
    channels = Channels(*pieces, then=TimeoutError())
    assert asked(channels) == {"name": "learner-0"}
    assert channels.heard.startswith(b"POST /proxies HTTP/1.1\r\nHost: localhost:8474\r\n")
    assert b"Authorization: Bearer word" in channels.heard
    assert channels.is_closed


def test_the_servers_refusal_is_told_apart_from_a_port_where_nobody_listens() -> None:
    gone = answer({"error": "no such proxy"}, "404 Not Found")
    with pytest.raises(NoSuchName, match="no such proxy"):
        asked(Channels(b"\0" + gone, then=TimeoutError()))
    said = b"\1error forwarding port 8474: dial tcp4 127.0.0.1:8474: connect: connection refused"
    channels = Channels(said, then=WebSocketDisconnect())
    with pytest.raises(Unreachable):
        asked(channels)
    assert channels.is_closed
    with pytest.raises(FleetError, match="no such container"):
        asked(Channels(b"\1no such container", then=WebSocketDisconnect()))


@pytest.mark.parametrize("then", [
    TimeoutError("timed out"), WebSocketDisconnect(), WebSocketNetworkError(),
], ids=lambda one: type(one).__name__)  # fmt: skip
def test_an_answer_that_breaks_off_or_never_comes_is_an_error(then: Exception) -> None:
    part = answer({"name": "learner-0"})[:30]
    for said in ((), (b"\0" + part,)):
        channels = Channels(*said, then=then)
        with pytest.raises(FleetError, match="pod") as failed:
            asked(channels)
        assert not isinstance(failed.value, Unreachable)
        assert channels.is_closed


def test_nothing_is_read_after_the_deadline() -> None:
    channels = Channels(b"\0" + answer({}), then=AssertionError())
    with pytest.raises(FleetError, match="pod"):
        asked(channels, within_s=0.0)


def test_a_connection_that_the_server_closed_at_once_is_broken() -> None:
    with pytest.raises(FleetError):
        asked(Closed(then=TimeoutError()))
