"""Bytes that have arrived at this process by TCP, as the kernel counts them for each connection.

    /proc/self/fd ─► connections ─► TCP_INFO: tcpi_bytes_received ─► their sum

For connections of a library that says nothing of what they carry, such as gloo's. Payload of TCP,
without the headers of TCP and IP; not of connections that have been closed.
"""

import os
import socket
import stat
import struct
import sys
from contextlib import suppress

_RECEIVED = struct.Struct("=128xQ")
"""The beginning of `struct tcp_info` of linux/tcp.h, up to `tcpi_bytes_received` (Linux 4.1)."""


def received_bytes(*, besides_port: int) -> int | None:
    """Received bytes of all open connections, except those with this port at either end.

    None where the kernel does not count them.
    """
    if sys.platform != "linux":
        return None
    try:
        return sum(_received(int(each), besides_port) for each in os.listdir("/proc/self/fd"))
    except struct.error:  # the struct of an older kernel is shorter
        return None


def _received(descriptor: int, besides_port: int) -> int:
    """0 of what is no such connection."""
    with suppress(OSError):  # closed meanwhile, or not connected
        own = os.dup(descriptor)
        if not stat.S_ISSOCK(os.fstat(own).st_mode):
            os.close(own)
            return 0
        with socket.socket(fileno=own) as one:
            if _is_tcp(one) and besides_port not in _ports(one):
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
                return int(_RECEIVED.unpack(info)[0])
    return 0


def _is_tcp(one: socket.socket) -> bool:
    return one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM


def _ports(one: socket.socket) -> tuple[int, int]:
    """Its own and the other end's; OSError if it is not connected."""
    return one.getsockname()[1], one.getpeername()[1]
