"""Reports of a learner to the recorder: JSON lines over one TCP connection, both ways.

    learner ── token, hello, holds, committed, written, goodbye ──► recorder
            ◄── names, settings, coordinator; epoch, noted, snapshot, stop, released ──

Only `ask`, `join` and `leave` wait for answers. A connection that is lost is made again at the next
report, and versions that the recorder has not noted are told again, so that one that is started
again misses none. A goodbye is said until it is heard.
"""

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, TypeVar

_T = TypeVar("_T")
_PATIENCE_S = 90.0
"""Time for which a learner that begins tries to reach a recorder that is away."""
_PAUSE_S = 0.5
_ANSWER_S = 20.0
_AGAIN_S = 0.3
"""Time for which a learner waits, in mid-training, for a recorder that does not accept."""
_SEND_LIMIT = struct.pack("ll", 5, 0)
"""Longest time in which a line is handed to the kernel: seconds, microseconds."""
_RELEASED_S = 20.0
"""Time for which a learner that leaves waits for a recorder that may be restarting."""
_KEPT = 64
"""Versions that are told again, at most."""
_GOODBYE: Mapping[str, Any] = {"goodbye": True}


def ask(address: str, token: str) -> Mapping[str, Any]:
    """Everything that a learner needs to begin. OSError if the recorder cannot be reached."""
    return _retried(lambda: _ask(address, token))


class Reports:
    """The learner's side of the connection."""

    def __init__(self, address: str, token: str, incarnation: int) -> None:
        self._address = address
        self._hello: dict[str, Any] = {"token": token, "incarnation": incarnation}
        self._connection: _Connection | None = None
        self._unnoted: deque[Mapping[str, Any]] = deque(maxlen=_KEPT)
        self._news = threading.Condition()
        self.epoch = 0
        """Epoch of the membership, by the recorder."""
        self._stop_at: int | None = None
        self._snapshot: Mapping[str, Any] | None = None
        self._is_released = False

    def join(self, donor: str | None) -> int:
        """Say hello; the epoch of the membership. OSError if there is no answer."""
        self._close()
        self.epoch = 0
        self._hello |= {"source": "donor" if donor else "initial", "donor": donor}
        _retried(lambda: self._connect(_ANSWER_S))
        with self._news:
            if not self._news.wait_for(lambda: self.epoch, _ANSWER_S):
                raise TimeoutError(f"the recorder at {self._address} does not answer")
        self._hello |= {"source": "resumed", "donor": None}
        return self.epoch

    def adopt(self, version: int, digest: str) -> None:
        """Say which values it begins with."""
        self._send({"holds": version, "digest": digest})

    def committed(
        self, version: int, digest: str, contributors: Sequence[str], work: Mapping[str, Any]
    ) -> None:
        """Say that it holds `version`; `work`: its own contribution, with its epoch, if any."""
        said = {
            "committed": version, "digest": digest, "contributors": list(contributors),
            "work": dict(work),
        }  # fmt: skip
        self._send(said)
        self._unnoted.append(said)

    def leave(self, write: Callable[[Mapping[str, Any]], None]) -> None:
        """Say goodbye until that is heard, and `write` a last snapshot if one is asked for."""
        self._send(_GOODBYE)
        until_s = time.monotonic() + _RELEASED_S
        with self._news:
            while not self._is_released and (left_s := until_s - time.monotonic()) > 0:
                if (asked := self.take_snapshot(None)) is not None:
                    write(asked)
                if self._connection is None:
                    self._send(_GOODBYE)
                    left_s = min(left_s, _PAUSE_S)
                self._news.wait(left_s)
        self._close()

    def is_over(self, version: int) -> bool:
        """Whether training ends at this version or before."""
        return self._stop_at is not None and version >= self._stop_at

    def take_snapshot(self, version: int | None) -> Mapping[str, Any] | None:
        """A snapshot that is asked for of this version; None: of any."""
        asked, self._snapshot = self._snapshot, None
        is_due = asked is not None and version in (None, asked["version"])
        return asked if is_due else None

    # ------------------------------------------------------------ inside

    def _connect(self, patience_s: float) -> "_Connection":
        connection = _Connection(self._address, patience_s)
        try:
            for said in (self._hello, *self._unnoted):
                connection.send(said)
        except OSError:
            connection.close()
            raise
        self._connection = connection
        threading.Thread(target=self._hear, args=(connection,), daemon=True).start()
        return connection

    def _send(self, said: Mapping[str, Any]) -> None:
        try:
            (self._connection or self._connect(_AGAIN_S)).send(said)
        except OSError:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.end()

    def _hear(self, connection: "_Connection") -> None:
        with closing(connection), suppress(OSError, ValueError):  # ended, or within a line
            while (said := connection.receive()) is not None:
                with self._news:
                    self._take(said)
                    self._news.notify_all()
        with self._news:
            if self._connection is connection:
                self._connection = None
            self._news.notify_all()

    def _take(self, said: Mapping[str, Any]) -> None:
        self.epoch = said.get("epoch", self.epoch)
        self._stop_at = said.get("stop_at", self._stop_at)
        self._snapshot = said.get("snapshot", self._snapshot)
        self._is_released = said.get("released", self._is_released)
        noted = said.get("noted", -1)
        while self._unnoted and self._unnoted[0]["committed"] <= noted:
            self._unnoted.popleft()


class _Connection:
    """JSON lines over a socket; one thread sends, another receives."""

    def __init__(self, address: str, patience_s: float, answer_s: float | None = None) -> None:
        """`answer_s`: how long it waits for a line; None: until the end of the connection."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=patience_s)
        self._socket.settimeout(answer_s)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_LIMIT)
        self._lines = self._socket.makefile("rb")

    def send(self, said: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(said).encode() + b"\n")

    def receive(self) -> Mapping[str, Any] | None:
        """The next line; None at the end."""
        line = self._lines.readline()
        said: Mapping[str, Any] | None = json.loads(line) if line else None
        return said

    def end(self) -> None:
        """End the reader, which may be reading and closes the connection afterwards."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def _ask(address: str, token: str) -> Mapping[str, Any]:
    with closing(_Connection(address, _ANSWER_S, _ANSWER_S)) as connection:
        connection.send({"token": token, "ask": True})
        answer = connection.receive()
    if answer is None:
        raise ConnectionRefusedError(f"the recorder at {address} does not know this learner")
    return answer


def _retried(dial: Callable[[], _T]) -> _T:
    """Again and again, while a recorder is started again."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return dial()
        except OSError:
            if time.monotonic() >= until_s:
                raise
            time.sleep(_PAUSE_S)
