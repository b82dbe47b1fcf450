"""Unix socket of a host agent, by a path that the kernel takes, in a folder of this user alone.

    RUN/agent.sock, or if that is too long ─► /tmp/chaoslab-private-…/agent.sock

A home may have a long path, as on a cluster. The other folder has an undo entry of its own.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.local.private_folder import PrivateFolder
from chaoslab.undo.base import UndoLog

_NAME: Final = "agent.sock"
_BYTES_MOST: Final = 107
"""Of the path of a Unix socket."""


@contextmanager
def listening(folder: Path, undo_log: UndoLog) -> Iterator[tuple[socket.socket, Path]]:
    """A socket that only this user may connect to, and its path. FleetError or OSError if there
    can be none.
    """
    elsewhere = PrivateFolder(folder, undo_log)
    with ExitStack() as stack:
        stack.callback(elsewhere.close)
        path = folder / _NAME
        if _is_too_long(path):
            path = elsewhere.made() / _NAME
        if _is_too_long(path):
            raise FleetError(f"{path} is too long for the path of a socket")
        stack.callback(path.unlink, missing_ok=True)
        path.unlink(missing_ok=True)  # of an agent that was killed
        yield stack.enter_context(_bound(path)), path


def _is_too_long(path: Path) -> bool:
    return len(os.fsencode(path)) > _BYTES_MOST


def _bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen()
    return listener
