"""Stands in for the ssh client: forwards `-L HERE:THERE` on this machine, then runs the command.

With FAKE_SSH_SAYS it does not get in, and says that instead; with FAKE_SSH_TRIPS_AT, a file that is
not there yet, only the first time.
"""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

Address = str | tuple[str, int]


def main(arguments: list[str]) -> int:
    """As ssh: 255 if it does not get in, else the exit code of the command."""
    trips_at = os.environ.get("FAKE_SSH_TRIPS_AT")
    if (says := os.environ.get("FAKE_SSH_SAYS")) and not (trips_at and Path(trips_at).exists()):
        if trips_at:
            Path(trips_at).touch()
        sys.stderr.write(f"{says}\n")
        return 255
    here, there = _ends(arguments[arguments.index("-L") + 1])
    listening = _socket(here)
    listening.bind(here)
    listening.listen()
    threading.Thread(target=_serve, args=(listening, there), daemon=True).start()
    return subprocess.run(("/bin/sh", "-c", arguments[-1]), check=False).returncode


def _serve(listening: socket.socket, there: Address) -> None:
    while True:
        near, _ = listening.accept()
        far = _socket(there)
        far.connect(there)
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:  # the other direction has ended
        return


def _ends(forward: str) -> tuple[Address, Address]:
    parts = forward.split(":")
    if len(parts) == 2:
        return parts[0], parts[1]
    return (parts[0], int(parts[1])), (parts[2], int(parts[3]))


def _socket(address: Address) -> socket.socket:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
