"""Connections to ports in pods by the cluster's port-forward, and HTTP over them.

    http_api.call ─► PodConnection ─► PortStream ─ websocket ─► API server ─► kubelet ─► the pod's
                                      channel 0: bytes, 1: errors                        loopback

So what listens on a pod's loopback is reached by users with the right to it, and by no other pod.
One connection is one websocket of the protocol `v4.channel.k8s.io`; lightkube has none for it.
"""

import http.client
import io
import socket
import time
from contextlib import ExitStack
from typing import Final, Protocol, cast

from httpx2.websockets import HTTPXWSException, WebSocketSession
from wsproto.utilities import ProtocolError

from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.links.proxied.http_api import Way

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA: Final = 0
_ERROR: Final = 1
_PORT_BYTES: Final = 2
"""Each channel begins with the number of its port."""
_BREAKS: Final = (
    HTTPXWSException,
    ProtocolError,  # such as a server that has closed it before anything was sent
)


class Channels(Protocol):
    """A websocket of the protocol, once it is open."""

    def send_bytes(self, data: bytes) -> None:
        """Send one message; its first byte is the channel."""
        ...

    def receive_bytes(self, timeout: float | None = None) -> bytes:
        """The next message. TimeoutError."""
        ...


class PortStream:
    """One connection, with the part of a socket's interface that `http.client` uses."""

    def __init__(self, channels: Channels, opened: ExitStack, within_s: float) -> None:
        """Nothing is read later than `within_s` from now; `opened` is closed with it."""
        self._channels, self._opened = channels, opened
        self._deadline = time.monotonic() + within_s
        self._arrived = {_DATA: b"", _ERROR: b""}
        """Received bytes by channel, from its beginning."""
        self._taken = _PORT_BYTES
        self._users = 1

    def sendall(self, data: bytes) -> None:
        """See `socket.sendall`."""
        try:
            self._channels.send_bytes(bytes((_DATA,)) + data)
        except _BREAKS as error:
            raise _broken(error) from error

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - `http.client` reads alone
        """See `socket.makefile`: what is read from outlives `close`, until it is closed itself."""
        self._users += 1
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """End the connection, once for itself and for each of its files."""
        self._users -= 1
        if self._users == 0:
            self._opened.close()

    def take(self, most: int) -> bytes:
        """Take at least one byte. An end is an error: an answer says how long it is."""
        while len(self._arrived[_DATA]) <= self._taken:
            self._receive()
        found = self._arrived[_DATA][self._taken : self._taken + most]
        self._taken += len(found)
        return found

    def _receive(self) -> None:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        try:
            message = self._channels.receive_bytes(left_s)
        except _BREAKS as error:
            raise _broken(error) from error
        if message and message[0] in self._arrived:
            self._arrived[message[0]] += message[1:]
        if said := self._arrived[_ERROR][_PORT_BYTES:].decode(errors="replace"):
            raise (ConnectionRefusedError if "connection refused" in said else ConnectionError)(
                said
            )


class _Reader(io.RawIOBase):
    """Received bytes of a stream."""

    def __init__(self, stream: PortStream) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        found = self._stream.take(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream.close()


def _broken(error: Exception) -> ConnectionError:
    return ConnectionError(f"the way to the pod broke off: {error!r}")


class PodConnection(http.client.HTTPConnection):
    """HTTP to a port in a pod. FleetError where the cluster cannot be asked for it."""

    def __init__(self, cluster: "ForwardingCluster", pod: str, port: int, within_s: float) -> None:
        super().__init__("localhost", port, timeout=within_s)
        self._cluster, self._pod, self._within_s = cluster, pod, within_s

    def connect(self) -> None:
        """Connect by the cluster."""
        stream = self._cluster.open_port(self._pod, self.port, self._within_s)
        self.sock = cast("socket.socket", stream)


class ForwardingCluster(Cluster):
    """A namespace whose pods' ports can be reached."""

    def open_port(self, pod: str, port: int, within_s: float) -> PortStream:
        """A connection. Missing if the pod is gone; ConnectionRefusedError comes with the first
        read, where no process listens.
        """
        url, opened = f"{self._url(PODS)}/{pod}/portforward", ExitStack()

        def asked() -> WebSocketSession:
            return opened.enter_context(
                self._http.websocket(
                    url, params={"ports": str(port)}, subprotocols=[_PROTOCOL],
                    keepalive_ping_interval_seconds=None,
                )
            )  # fmt: skip

        channels = self._ask(f"reach port {port} of pod {pod}", asked)
        return PortStream(channels, opened, within_s)

    def way(self, pod: str, port: int) -> Way:
        """Connection to an API in a pod, for `http_api.call`."""
        return lambda _, within_s: PodConnection(self, pod, port, within_s)
