"""What a learner tells the recorder, and is told by it: JSON lines over one TCP connection.

    learner ── hello, joined, committed, goodbye ─────────────► recorder
            ◄── names, settings, coordinator; epoch; snapshot, stop ──

Nothing here makes the learner wait, except the answers to `ask` and `join`: what breaks is the
recorder's record of the training, never the training. A connection that is lost is made again at
the next report.
"""

import json
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

_ANSWER_S = 20.0
_AGAIN_S = 0.3
"""How long a learner waits for a recorder that does not answer, in mid-training."""


def ask(address: str, name: str) -> Mapping[str, Any]:
    """What a learner needs to begin. OSError if the recorder cannot be reached."""
    with _dial(address, _ANSWER_S) as connection, connection.makefile("rwb") as lines:
        _write(lines, {"ask": name})
        answer: Mapping[str, Any] = json.loads(lines.readline())
        return answer


class Reports:
    """The learner's side of the connection."""

    def __init__(self, address: str, name: str, incarnation: int) -> None:
        self._address, self._who = address, {"hello": name, "incarnation": incarnation}
        self._lines: Any = None  # a file of the connection; None while there is none
        self._socket: socket.socket | None = None
        self._turn = threading.Lock()
        self.epoch = 0
        """Of the membership, as the recorder says."""
        self._has_epoch = threading.Event()
        self._stop_at: int | None = None
        self._snapshot: Mapping[str, Any] | None = None

    def join(self, donor: str | None) -> int:
        """Say hello; the epoch of the membership. OSError if nobody answers."""
        self._who = {**self._who, "source": "donor" if donor else "initial", "donor": donor}
        self._connect(_ANSWER_S)
        if not self._has_epoch.wait(_ANSWER_S):
            raise TimeoutError(f"the recorder at {self._address} does not answer")
        self._who = {**self._who, "source": "resumed", "donor": None}
        return self.epoch

    def hold(self, version: int, digest: str) -> None:
        """Say which values it begins with."""
        self._send({"holds": version, "digest": digest})

    def committed(
        self, version: int, digest: str, contributors: Sequence[str], work: Mapping[str, Any]
    ) -> None:
        """Say that it holds `version`; `work`: what it contributed, if it did."""
        said = {
            "committed": version, "digest": digest, "contributors": list(contributors),
            "work": dict(work),
        }  # fmt: skip
        self._send(said)

    def leave(self) -> None:
        """Say goodbye."""
        self._send({"goodbye": True})
        self._close()

    def is_over(self, version: int) -> bool:
        """Whether training ends at this version or before."""
        return self._stop_at is not None and version >= self._stop_at

    def take_snapshot(self, version: int) -> Mapping[str, Any] | None:
        """A snapshot that is asked for of the version that is held."""
        asked, self._snapshot = self._snapshot, None
        return asked if asked is not None and asked["version"] == version else None

    # ------------------------------------------------------------ inside

    def _connect(self, patience_s: float) -> None:
        connection = _dial(self._address, patience_s)
        connection.settimeout(None)
        self._socket = connection
        self._lines = connection.makefile("rwb")
        threading.Thread(target=self._hear, args=(self._lines,), daemon=True).start()
        self._write(self._who)

    def _send(self, said: Mapping[str, Any]) -> None:
        for _ in range(2):  # a connection that was lost is noticed by the first
            try:
                if self._lines is None:
                    self._connect(_AGAIN_S)
                self._write(said)
            except OSError:
                self._close()
            else:
                return

    def _write(self, said: Mapping[str, Any]) -> None:
        with self._turn:
            _write(self._lines, said)

    def _close(self) -> None:
        self._lines = None
        if self._socket is not None:
            with suppress(OSError):  # its reader is in the middle of it, so closing would wait
                self._socket.shutdown(socket.SHUT_RDWR)

    def _hear(self, lines: Any) -> None:
        with suppress(OSError, ValueError):  # closed, or a line that was cut off
            for line in lines:
                said = json.loads(line)
                self.epoch = said.get("epoch", self.epoch)
                self._stop_at = said.get("stop_at", self._stop_at)
                self._snapshot = said.get("snapshot", self._snapshot)
                if self.epoch:
                    self._has_epoch.set()


def _dial(address: str, patience_s: float) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=patience_s)


def _write(lines: Any, said: Mapping[str, Any]) -> None:
    lines.write(json.dumps(said).encode() + b"\n")
    lines.flush()
