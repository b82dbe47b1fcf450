"""A TCP relay whose connections can be cut, frozen and forgotten, for tests of the runtime's links.

    learner ◄──► relay ◄──► syncer      one thread for each connection and direction

It knows nothing of what it carries. `chaoslab.links` is the real thing; this one is small enough to
be believed.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class _Pair:
    learner: socket.socket
    syncer: socket.socket
    is_forgotten: bool = False
    """Nothing is handed on any more, and nobody is told."""

    def ends(self) -> Iterator[socket.socket]:
        yield self.learner
        yield self.syncer


@dataclass
class TcpProxy:
    """`address` leads to `upstream`, as long as the proxy lets it."""

    upstream: str
    address: str = ""
    _pairs: list[_Pair] = field(default_factory=list)
    _moves: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _up_left: int | None = None
    _is_refusing: bool = False
    _is_over: bool = False

    def __enter__(self) -> Self:
        self._moves.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._moves.set()
        self._listener.close()
        self.reset()

    # ---------------------------------------------------------------- what can be done to it

    def cut_after(self, up_bytes: int) -> None:
        """Hand on so many more bytes to the syncer, then break all connections off."""
        with self._lock:
            self._up_left = up_bytes

    def reset(self) -> None:
        """Break all connections off."""
        for pair in list(self._pairs):
            self._break(pair, *pair.ends())

    def freeze(self) -> None:
        """Nothing moves and nothing is lost."""
        self._moves.clear()

    def thaw(self) -> None:
        self._moves.set()

    def refuse(self) -> None:
        """Break everything off, and every new connection at once."""
        self.refuse_new()
        self.reset()

    def refuse_new(self) -> None:
        """Break every new connection off at once."""
        self._is_refusing = True

    def relent(self) -> None:
        self._is_refusing = False

    def forget(self, *, break_learner: bool = False, break_syncer: bool = False) -> None:
        """Open connections lose their other end; only the ends named here are told."""
        for pair in list(self._pairs):
            pair.is_forgotten = True
            ends = [pair.learner] * break_learner + [pair.syncer] * break_syncer
            self._break(pair, *ends)

    # ---------------------------------------------------------------- inside

    def _accept(self) -> None:
        host, port = self.upstream.rsplit(":", 1)
        while not self._is_over:
            try:
                learner, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                learner.close()
                continue
            try:
                syncer = socket.create_connection((host, int(port)))
            except OSError:
                learner.close()
                continue
            for end in (learner, syncer):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(learner, syncer)
            self._pairs.append(pair)
            for way in ("up", "down"):
                threading.Thread(target=self._carry, args=(pair, way), daemon=True).start()

    def _carry(self, pair: _Pair, way: str) -> None:
        source, target = (pair.learner, pair.syncer) if way == "up" else (pair.syncer, pair.learner)
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._moves.wait()
                if pair.is_forgotten:
                    continue
                allowed = self._allow(data) if way == "up" else data
                target.sendall(allowed)
                if len(allowed) < len(data) or self._up_left == 0:
                    self.reset()
        if not pair.is_forgotten:
            self._break(pair, *pair.ends())

    def _allow(self, data: bytes) -> bytes:
        with self._lock:
            if self._up_left is None:
                return data
            allowed = data[: self._up_left]
            self._up_left -= len(allowed)
            return allowed

    def _break(self, pair: _Pair, *ends: socket.socket) -> None:
        with self._lock:
            if self._up_left == 0:
                self._up_left = None
            if len(ends) == 2 and pair in self._pairs:
                self._pairs.remove(pair)
        for end in ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                end.shutdown(socket.SHUT_RDWR)
            end.close()
