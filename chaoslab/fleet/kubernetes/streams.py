"""Streams of a cluster's client that one thread reads and another one ends."""

import socket
from contextlib import suppress
from typing import Protocol


class NetworkStream(Protocol):
    """What an HTTP client reads from, as httpcore has it."""

    def get_extra_info(self, info: str) -> object:
        """Such as its `socket`."""
        ...


def wake(stream: NetworkStream | None) -> None:
    """End a stream that another thread reads, which then closes it.

    To close it here would not wake that thread, and free the number of a descriptor it reads from.
    """
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):  # it has ended
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # beneath its TLS
