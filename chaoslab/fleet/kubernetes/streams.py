"""Streams of a cluster's client that one thread reads and another one ends.

A socket that is closed while a thread reads it leaves that thread the number of its descriptor, and
whatever file has the number next: OpenSSL reads from that file, and even writes an alert into it.
So the thread that ends a stream shuts its socket down (`wake`), and lets the reader close it.
"""

import queue
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketSession
from lightkube.core.exceptions import ConfigError

LINE_MOST: Final = 1 << 21
"""Bytes of a line in a log that are kept: one that counts is shorter, and one may never end."""
_ENDED_S: Final = 2.0
"""Time limit of the end of a websocket's thread once its socket is shut down."""


def split(chunks: Iterable[bytes], most: int, *, with_rest: bool) -> Iterator[bytes]:
    """Whole lines of a stream, of each its first `most` bytes.

    `with_rest`: what stands after the last end of a line comes, too; of a stream that was cut off
    it comes whole the next time.
    """
    begun: list[bytes] = []
    room = most
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*begun, end[:room]))
            begun, room = [], most
        if room and rest:
            begun.append(rest[:room])
            room -= len(begun[-1])
    if begun and with_rest:
        yield b"".join(begun)


class NetworkStream(Protocol):
    """Stream that an HTTP client reads, as httpcore has it."""

    def get_extra_info(self, info: str) -> object:
        """Further facts, such as its `socket`."""
        ...


def wake(stream: NetworkStream | None) -> None:
    """End a stream that another thread reads, which then closes it.

    To close it here would not wake that thread, and free the number of a descriptor it reads from.
    """
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):  # it has ended
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # beneath its TLS


class ClusterClient(httpx2.Client):
    """HTTP client that may be closed while other threads use it, and whose websockets let their own
    thread end before their socket is closed.
    """

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """A response; see `httpx2.Client.send`.

        ConnectError once the client is closed, and without credentials: then nothing was sent, or
        refused before, and a plugin that fails now may give some later.
        """
        try:
            return super().send(request, **options)
        except ConfigError as error:
            raise httpx2.ConnectError(f"no credentials: {error}", request=request) from error
        except RuntimeError as error:
            if not self.is_closed:
                raise
            raise httpx2.ConnectError(str(error), request=request) from error

    @contextmanager
    def websocket(  # type: ignore[override]  # its many options as they are
        self, url: str, **options: Any
    ) -> Iterator[WebSocketSession]:
        """A session; see `httpx2.Client.websocket`."""
        with super().websocket(url, **options) as session:
            try:
                yield session
            finally:
                wake(session.stream)
                with suppress(HTTPXWSException, queue.Empty):  # what its thread says last
                    while True:
                        session.receive(timeout=_ENDED_S)
