"""PyTorch's store on one address: by itself it listens on all interfaces."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import distributed

_LEAVE_S = 30.0
"""Time for which a served store waits, after the end, for its clients to hang up."""


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


@contextmanager
def served(host: str, folder: Path) -> Iterator[int]:
    """A store in this process during the block: its port, the same as before in `folder`."""
    kept = folder / "port"
    store, port = listen(host, int(kept.read_text()) if kept.exists() else 0)
    kept.write_text(str(port))
    yield port
    over_s = time.monotonic() + _LEAVE_S
    while _connections(port) > 1 and time.monotonic() < over_s:  # one is its own
        time.sleep(0.1)
    del store


def _connections(port: int) -> int:
    """Number of clients of the store, by the kernel."""
    lines = [
        line.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()
    ]
    return sum(line[1].endswith(f":{port:04X}") and line[3] == "01" for line in lines)


def place() -> tuple[int, int]:
    """Rank and number of learners, as the environment says at this moment."""
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def keep_gloo_on_loopback(host: str) -> None:
    """Let gloo listen on loopback alone, where the others are; before any process group."""
    if host.startswith("127."):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
