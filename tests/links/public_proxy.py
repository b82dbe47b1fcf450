"""The embedded proxy as a person starts it: on loopback, without a token."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaoslab.links.ports import ReservedPort
from chaoslab.links.proxied.process import Server
from chaoslab.undo.base import NoUndoLog


@contextmanager
def public_proxy(directory: Path) -> Iterator[Server]:
    """It runs for the time of the block."""

    def command(port: ReservedPort) -> tuple[str, ...]:
        module = "chaoslab.links.proxy"
        return sys.executable, "-m", module, "--port", str(port.number)

    server = Server("public-proxy", command, directory, NoUndoLog())
    server.open()
    try:
        yield server
    finally:
        server.close()
