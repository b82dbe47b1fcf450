"""A system for tests: a server averages the parameters of all learners that are connected.

`python -m tests.systems.averaging learner FLAGS`, or `syncer`, as `chaoslab.systems.node` does it.
"""

import json
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from chaoslab.systems import recorder
from chaoslab.systems.learner import Learner


class Averages:
    """Learners wait for each other at each version; whoever joins is given the newest one first."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._present: dict[Any, str] = {}
        self._given: dict[Any, np.ndarray] = {}
        self.version, self._values = 0, np.empty(0, np.float32)
        self._names: list[str] = []

    def serve(self, connection: socket.socket) -> None:
        lines = connection.makefile("rwb")
        try:
            name = lines.readline().decode().strip()
            with self._turn:
                self._present[lines] = name
                self._answer(lines)
            while header := lines.readline():
                values = np.frombuffer(lines.read(int(header)), np.float32)
                with self._turn:
                    self._given[lines] = values
                    wanted = self.version + 1
                    self._combine()
                    self._turn.wait_for(lambda wanted=wanted: self.version >= wanted)
                    self._answer(lines)
        finally:
            with self._turn:
                self._present.pop(lines, None)
                self._given.pop(lines, None)
                self._combine()

    def _combine(self) -> None:
        """The mean, once all that are present have given theirs."""
        if self._given and set(self._given) == set(self._present):
            self._values = np.mean(list(self._given.values()), axis=0, dtype=np.float32)
            self._names = [self._present[lines] for lines in self._given]
            self._given.clear()
            self.version += 1
            self._turn.notify_all()

    def _answer(self, lines: Any) -> None:
        facts = {"version": self.version, "names": self._names, "bytes": self._values.nbytes}
        lines.write(json.dumps(facts).encode() + b"\n" + self._values.tobytes())
        lines.flush()


@contextmanager
def coordinator(host: str, _folder: Path, _settings: Mapping[str, Any]) -> Iterator[str]:
    averages, server = Averages(), socket.create_server((host, 0))

    def serve(connection: socket.socket) -> None:
        with suppress(OSError, ValueError):  # a learner was killed
            averages.serve(connection)

    def accept() -> None:
        with suppress(OSError):  # the server is closed
            while True:
                connection, _ = server.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with server:
        yield "{}:{}".format(*server.getsockname()[:2])


def train(learner: Learner) -> None:
    values = learner.parameters()
    host, _, port = learner.coordinator.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        lines = connection.makefile("rwb")
        lines.write(learner.name.encode() + b"\n")
        lines.flush()
        version, names, given = _read(lines)
        if version:
            learner.set_parameters(given)
        learner.joined(version, names[0] if version else None)
        while not learner.is_over:
            for _ in range(int(learner.settings["sync_every"])):
                learner.step()
            values = learner.parameters()
            lines.write(f"{values.nbytes}\n".encode() + values.tobytes())
            lines.flush()
            version, names, given = _read(lines)
            learner.set_parameters(given)
            learner.committed(version, names)


def _read(lines: Any) -> tuple[int, list[str], np.ndarray]:
    facts = json.loads(lines.readline())
    return facts["version"], facts["names"], np.frombuffer(lines.read(facts["bytes"]), np.float32)


if __name__ == "__main__":
    role, *flags = sys.argv[1:]
    this: Any = sys.modules[__name__]
    sys.exit(recorder.main(this, flags) if role == "syncer" else Learner(flags).run(train))
