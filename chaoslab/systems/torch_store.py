"""PyTorch's store on one address: by itself it listens on all interfaces."""

import os
import socket

from torch import distributed


def listen(host: str, port: int = 0) -> tuple[distributed.TCPStore, int]:
    """A store that serves `host` alone, and its port; OSError if the port is taken."""
    listener = socket.create_server((host, port))
    port = listener.getsockname()[1]
    store = distributed.TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        multi_tenant=True,
        master_listen_fd=listener.detach(),
    )
    return store, port


def keep_gloo_on_loopback(host: str) -> None:
    """Let gloo listen on loopback alone, where the others are; before any process group."""
    if host.startswith("127."):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
