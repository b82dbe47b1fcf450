"""Reserved ports: TCP ports that stay reserved, whether or not a proxy listens on them.

    ReservedPort: bound, never listening ──► connections are refused, the port is not given away
    a proxy that binds it with SO_REUSEADDR and listens ──► connections are accepted

Linux lets several sockets bind one port if all of them set SO_REUSEADDR and none listens yet. So a
proxy may stop listening and find its port free afterwards.
"""

import socket
from pathlib import Path

_ESTABLISHED = "01"


class ReservedPort:
    """A port of `host`, reserved until `close`."""

    def __init__(self, host: str = "127.0.0.1", number: int = 0) -> None:
        """Reserve port `number`; 0: a free one. OSError if there is none, or it is taken."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, number))
        except OSError:
            self._socket.close()
            raise
        self.host, self.number = self._socket.getsockname()

    @property
    def address(self) -> str:
        """The address as host:port."""
        return f"{self.host}:{self.number}"

    def close(self) -> None:
        """Release the port, which other programs may then use."""
        self._socket.close()


def established(port: int, net: Path = Path("/proc/net")) -> int | None:
    """Number of TCP connections on that local port now; None if it is unknown.

    `net` is the kernel's view of a network: of this process, or of another one.
    """
    try:
        lines = (net / "tcp").read_text().splitlines()[1:]
    except OSError:
        return None
    words = (line.split() for line in lines)
    suffix = f":{port:04X}"
    return sum(word[1].endswith(suffix) and word[3] == _ESTABLISHED for word in words)
