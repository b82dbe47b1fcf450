"""Hosts on this machine without ssh: each is a home folder of its own, reached directly."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from chaoslab.core.process_identity import NODE_MARK
from chaoslab.core.spawning import import_path
from chaoslab.fleet.remote.protocol.messages import LINE_BYTES_MOST
from chaoslab.fleet.remote.protocol.reach import RUN_S, Ran, Streams


class DirectReach:
    """A way to a host that is this machine with another home."""

    def __init__(self, name: str, home: Path) -> None:
        self.name, self.home = name, home
        self.writers: list[asyncio.StreamWriter] = []
        self.is_blocked = False
        """Whether no connection can be made."""

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", within_s: float = RUN_S
    ) -> Ran:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(self.home)},
        )
        out, err = await asyncio.wait_for(process.communicate(stdin), within_s)
        return Ran(code=process.returncode or 0, stdout=out, stderr=err)

    async def connect(self, socket: str) -> Streams:
        if self.is_blocked:
            raise ConnectionRefusedError(f"{self.name} cannot be reached")
        streams = await asyncio.open_unix_connection(socket, limit=LINE_BYTES_MOST)
        self.writers = [*self.writers[-1:], streams[1]]
        return streams

    async def forward(self, port: int) -> int:
        return port

    async def close(self) -> None:
        """Nothing is kept open."""

    def cut(self) -> None:
        """Break the newest connection; to be called on the loop."""
        if self.writers:
            self.writers[-1].transport.abort()


@contextmanager
def home_folder() -> Iterator[Path]:
    """A home with a short path, which the path of a socket must have."""
    folder = Path(tempfile.mkdtemp(prefix="host-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def marked(*marks: str) -> list[psutil.Process]:
    """Processes of nodes and links whose marks begin like one of these."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(NODE_MARK, "").startswith(marks):
                found.append(process)
    return found


class ThisPython:
    """The interpreter of these tests, with this very code."""

    def command(self, *words: str) -> tuple[str, ...]:
        return ("env", f"PYTHONPATH={import_path()}", sys.executable, *words)
