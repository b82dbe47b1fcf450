"""Tunnels to an engine that only ssh reaches: its socket, and ports of its machine.

    Docker SDK ─► unix://FOLDER/engine.sock ────┐
    harness    ─► 127.0.0.1:PORT ───────────────┴─ ssh ─► the engine's socket, 127.0.0.1:PORT there

By the ssh client of this machine, with its configuration, keys, agent and known hosts; no
passphrase is asked for. The other machine needs an sshd that forwards, and no Docker client. ssh
lives as long as its standard input, so it ends with the harness, in whatever way that ends.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from select import select
from typing import Final, Self
from urllib.parse import urlsplit

from chaoslab.core.errors import FleetError

_ENGINE: Final = "/var/run/docker.sock"
_LOGIN_S: Final = 30.0
_END_S: Final = 5.0
_TRIES: Final = 3
"""A port that is free when we look may be taken when ssh does."""
_GREETING: Final = b"chaoslab is in"
_OVER_THERE: Final = f"echo {_GREETING.decode()}; exec cat"
"""Says that we are in, and ends when our end of it is closed."""
_IN_FOLDER: Final = 'mkdir -m 700 -- "$0" || exit; ssh "$@"; code=$?; rm -rf -- "$0"; exit $code'
"""The shell makes the folder for the socket and removes it: it outlives us if we are killed."""
_OPTIONS: Final = (
    "-T", "-x",
    "-o", "BatchMode=yes",
    "-o", "ControlMaster=no",
    "-o", "ControlPath=none",
    "-o", "ExitOnForwardFailure=yes",
    "-o", "RemoteCommand=none",
    "-o", "ServerAliveInterval=5",
    "-o", "ServerAliveCountMax=6",
    "-o", f"ConnectTimeout={_LOGIN_S:.0f}",
)  # fmt: skip


class Tunnel:
    """One ssh that forwards one address of this machine until it is closed."""

    def __init__(self, destination: str, address: str, there: str, folder: Path) -> None:
        """FleetError if ssh does not get in. `folder` is made, and goes when ssh ends."""
        here = address.removeprefix("unix://")
        self.address = address
        """Its address on this machine."""
        self._folder = folder
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._ssh = subprocess.Popen(
            (
                "/bin/sh", "-c", _IN_FOLDER, str(folder),
                *_OPTIONS, "-L", f"{here}:{there}", "--", destination, _OVER_THERE,
            ),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            start_new_session=True,  # Ctrl-C is meant for us, and what is broken is healed by this
        )  # fmt: skip
        if not self._is_greeted():
            reason = self.error_text or "no answer"
            self.close()
            raise FleetError(f"{reason} (`ssh {destination} true` must work and ask nothing)")

    @classmethod
    def to_engine(cls, url: str) -> Self:
        """Tunnel to the socket of `ssh://user@host:port/path`. FleetError, or ValueError."""
        destination, path = _destination(url), urlsplit(url).path
        folder = _new_folder()
        there = path if path.strip("/") else _ENGINE
        return cls(destination, f"unix://{folder / 'engine.sock'}", there, folder)

    @classmethod
    def to_port(cls, url: str, port: int) -> Self:
        """Tunnel to a port of the remote loopback. FleetError."""
        for left in reversed(range(_TRIES)):
            try:
                return cls(_destination(url), _free_address(), f"127.0.0.1:{port}", _new_folder())
            except FleetError as error:
                if not left or "in use" not in str(error):
                    raise
        raise AssertionError("unreachable")

    @property
    def error_text(self) -> str:
        """Error output of ssh; empty without any."""
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        return " ".join(self._errors.read().decode(errors="replace").split())[-300:]

    def close(self) -> None:
        """End it. May be done twice."""
        for pipe in (self._ssh.stdin, self._ssh.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._ssh.wait(_END_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._ssh.pid, signal.SIGKILL)
            self._ssh.wait()
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _is_greeted(self) -> bool:
        """Whether the other side let us in; what its shell prints besides is passed over."""
        deadline, heard, piece = time.monotonic() + _LOGIN_S, b"", b""
        while _GREETING not in heard:
            left_s = max(0.0, deadline - time.monotonic())
            if self._ssh.stdout is not None and select([self._ssh.stdout], [], [], left_s)[0]:
                piece = os.read(self._ssh.stdout.fileno(), 4096)
            if not piece:
                return False
            heard, piece = heard + piece, b""
        return True


def _destination(url: str) -> str:
    """Arguments of ssh for `ssh://user@host:port/path`. ValueError if it names no host."""
    parts = urlsplit(url)
    if not parts.hostname or parts.password or parts.port == 0:  # no number: ValueError by itself
        raise ValueError("write ssh://user@host; a password is not taken, a key is")
    return f"ssh://{parts.netloc}"


def _new_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"chaoslab-ssh-{secrets.token_hex(6)}"


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as trying:
        return f"127.0.0.1:{trying.getsockname()[1]}"
