"""Both ends of a link in one process: what a learner sends, what the syncer gets, and when.

    Learner ── dials link.address ──► link ──► Upstream.accept() ── Syncer's end

Everything is measured where it arrives: what a sender believes lies in buffers. One clock serves
both ends, so a delay one way can be told from one on the way back.
"""

import hashlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from chaoslab.links.base import Link
from chaoslab.links.effects import Direction

LIMIT_S = 30.0
"""No wait for a byte takes longer; then the test fails."""
_STAMP = struct.Struct("!d")
_BLOCK = bytes(range(256)) * 1024


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One connection: the learner's socket and the syncer's."""

    learner: socket.socket
    syncer: socket.socket

    def ends(self, way: Direction) -> tuple[socket.socket, socket.socket]:
        """Who sends and who receives that way."""
        up = (self.learner, self.syncer)
        return up if way is Direction.UP else (up[1], up[0])

    def close(self) -> None:
        """Both sockets."""
        self.learner.close()
        self.syncer.close()


class Upstream:
    """Where the syncer would listen."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        """`host` is the address of this machine at which the links reach it."""
        self._listener = socket.create_server((host, 0))
        self._listener.settimeout(LIMIT_S)
        self._pairs: list[Pair] = []

    @property
    def address(self) -> str:
        """host:port."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def connect(self, link: Link) -> Pair:
        """A new connection through the link, both ends of it."""
        learner = dial(link.address)
        syncer, _ = self._listener.accept()
        for end in (learner, syncer):
            end.settimeout(LIMIT_S)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = Pair(learner=learner, syncer=syncer)
        self._pairs.append(pair)
        return pair

    def close(self) -> None:
        """The listener and all connections."""
        for pair in self._pairs:
            pair.close()
        self._listener.close()


def dial(address: str) -> socket.socket:
    """A learner's connection."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT_S)


# ---------------------------------------------------------------- delays


def one_way_delays_s(pair: Pair, way: Direction, count: int) -> list[float]:
    """Delays of small messages, each sent when the one before it has arrived."""
    sender, receiver = pair.ends(way)
    found = []
    for _ in range(count):
        sender.sendall(_STAMP.pack(time.perf_counter()))
        (sent_s,) = _STAMP.unpack(read_exactly(receiver, _STAMP.size))
        found.append(time.perf_counter() - sent_s)
    return found


def fastest_delay_s(pair: Pair, way: Direction, count: int = 15) -> float:
    """The shortest of them: a busy machine delays most, but hardly all."""
    return min(one_way_delays_s(pair, way, count))


# ---------------------------------------------------------------- transfers


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """What a receiver saw of one transfer."""

    size: int
    seconds: float
    """From the first byte to the last."""
    digest: str
    pieces: tuple[int, ...]
    """What each read returned."""

    @property
    def bytes_per_s(self) -> float:
        """Of all that came after the first piece, whose sending nobody timed."""
        return (self.size - self.pieces[0]) / self.seconds if self.seconds else float("inf")


def transfer(pair: Pair, way: Direction, size: int) -> Arrived:
    """Send so many bytes one way and look at what arrives."""
    sender, receiver = pair.ends(way)
    with sending(sender, size):
        return receive(receiver, size)


@contextmanager
def sending(sender: socket.socket, size: int) -> Iterator[threading.Thread]:
    """A thread sends so many bytes meanwhile; a link that breaks ends it early."""

    def work() -> None:
        with suppress(OSError):
            left = size
            while left:
                block = _BLOCK[: min(left, len(_BLOCK))]
                sender.sendall(block)
                left -= len(block)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield thread
    thread.join(LIMIT_S)


@contextmanager
def receiving(receiver: socket.socket, size: int) -> Iterator[list[Arrived]]:
    """A thread reads meanwhile; what it saw is in the list afterwards."""
    found: list[Arrived] = []
    thread = threading.Thread(target=lambda: found.append(receive(receiver, size)), daemon=True)
    thread.start()
    yield found
    thread.join(LIMIT_S)


def receive(receiver: socket.socket, size: int) -> Arrived:
    """Read until so many bytes have come, or no more come."""
    digest, got = hashlib.sha256(), 0
    pieces = []
    began_s = ended_s = 0.0
    while got < size:
        data = receiver.recv(1 << 18)
        ended_s = time.perf_counter()
        began_s = began_s or ended_s
        if not data:
            break
        digest.update(data)
        got += len(data)
        pieces.append(len(data))
    return Arrived(
        size=got, seconds=ended_s - began_s, digest=digest.hexdigest(), pieces=tuple(pieces)
    )


def together(pairs: list[Pair], way: Direction, size: int) -> float:
    """Bytes per second of equal transfers on all pairs at once, first byte to last of them all."""
    done: list[tuple[float, float]] = []

    def one(pair: Pair) -> None:
        sender, receiver = pair.ends(way)
        with sending(sender, size):
            receiver.recv(1)
            began_s = time.perf_counter()
            receive(receiver, size - 1)
            done.append((began_s, time.perf_counter()))

    threads = [threading.Thread(target=one, args=(pair,), daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    seconds = max(end for _, end in done) - min(begin for begin, _ in done)
    return len(pairs) * size / seconds


def digest_of(size: int) -> str:
    """Of what `sending` sends."""
    digest = hashlib.sha256()
    for start in range(0, size, len(_BLOCK)):
        digest.update(_BLOCK[: min(size - start, len(_BLOCK))])
    return digest.hexdigest()


# ---------------------------------------------------------------- single reads


def read_exactly(end: socket.socket, size: int) -> bytes:
    """So many bytes; EOFError if the connection ends first."""
    data = b""
    while len(data) < size:
        more = end.recv(size - len(data))
        if not more:
            raise EOFError(f"the connection ended after {len(data)} of {size} bytes")
        data += more
    return data


def is_silent(end: socket.socket, seconds: float = 0.3) -> bool:
    """Whether nothing comes for so long: no byte and no end."""
    end.settimeout(seconds)
    try:
        end.recv(1)
    except TimeoutError:
        return True
    except OSError:
        return False
    finally:
        end.settimeout(LIMIT_S)
    return False


def how_it_ends(end: socket.socket) -> str:
    """`reset` or `closed`, whatever bytes come before that."""
    try:
        while end.recv(1 << 16):
            pass
    except ConnectionError:
        return "reset"
    return "closed"


def is_open(pair: Pair) -> bool:
    """Whether a byte gets through both ways."""
    for way in (Direction.UP, Direction.DOWN):
        sender, receiver = pair.ends(way)
        sender.sendall(b"?")
        if read_exactly(receiver, 1) != b"?":
            return False
    return True
