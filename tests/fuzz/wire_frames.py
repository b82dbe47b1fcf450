"""The bytes of one stream at the syncer's hub: cut, changed, swapped, repeated, out of turn.

    seed ─► frames of a conversation, damaged ─► Hub's reader ─► what it delivers, and how it ends

Without a socket: the reader is given the frames as grpc would give them.
"""

import queue
import random
from collections.abc import Callable, Iterator
from typing import Final, cast

from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import Assembler, frame_of, payload_frames
from chaoslab.diloco.wire.hub import Hub, _Session
from chaoslab.diloco.wire.identity import Tokens
from chaoslab.diloco.wire.mailbox import Gate, Outbox
from chaoslab.diloco.wire.pings import Pings
from chaoslab.diloco.wire.streams import Arrival, Closed, Limits, Received

SECONDS_MAX: Final = 2.0
_LEARNER: Final = "learner-0"
_PAYLOAD_BYTES_MAX: Final = 1 << 16
_HUB: Final = Hub("127.0.0.1:0", tokens=Tokens([_LEARNER]), limits=Limits(linger_s=0.0))
_EDGES: Final = (0, 1, 127, 128, 4095, 4096, 4097, _PAYLOAD_BYTES_MAX, _PAYLOAD_BYTES_MAX + 1)
_HUGE: Final = (1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 1)


def one(seed: int) -> None:
    """One stream, from its first frame to its end."""
    chance = random.Random(seed)
    session = _session(seed)
    _HUB._sessions[session.number] = session
    frames = _damaged(chance, _conversation(chance))
    welcome_at = chance.choice((1, 1, 1, 2, 3, 1000))
    _HUB._read(session, _given(frames, welcome_at, session.number))
    _look(session, list(_delivered()))


def _session(number: int) -> _Session:
    outbox = Outbox(controls_max=50)
    assembler: Assembler[pb.FromLearner] = Assembler(pb.FromLearner.FromString, 0)
    pings, gate = Pings(pb.ToLearner, outbox), Gate(_HUB.arrivals)
    return _Session(number, _LEARNER, "fuzz", assembler, outbox, pings, gate, _nothing)


def _nothing() -> None:
    """Nobody is on the line."""


def _given(frames: list[bytes], welcome_at: int, session: int) -> Iterator[bytes]:
    """As the learner sends them; it is welcomed before one of them."""
    for number, frame in enumerate(frames):
        if number == welcome_at:
            _HUB.admit(session, _PAYLOAD_BYTES_MAX)
        yield frame


def _look(session: _Session, arrivals: list[Arrival[pb.FromLearner]]) -> None:
    """What every stream must look like from inside."""
    *before, last = [arrival.event for arrival in arrivals]
    assert isinstance(last, Closed), last
    assert session.number not in _HUB._sessions
    assert all(isinstance(what, Received) for what in before), before
    received = cast("list[Received[pb.FromLearner]]", before)
    if received:
        assert received[0].message.hello.learner == _LEARNER
    for what in received:
        body = what.message.WhichOneof("body")
        content = getattr(what.message, str(body))
        if what.payload is not None:
            assert len(what.payload) == content.payload.bytes <= _PAYLOAD_BYTES_MAX
            assert session.is_admitted or not what.payload


def _delivered() -> Iterator[Arrival[pb.FromLearner]]:
    while True:
        try:
            yield _HUB.arrivals.get(timeout=0)
        except queue.Empty:
            return


# ---------------------------------------------------------------- what is said, and how it breaks


def _conversation(chance: random.Random) -> list[bytes]:
    name = _LEARNER if chance.random() < 0.9 else chance.choice(("", "learner-1", "é" * 99))
    frames = [frame_of(pb.FromLearner(hello=pb.Hello(learner=name, incarnation=1)))]
    for _ in range(chance.randrange(8)):
        frames += _said(chance)
    return frames


def _said(chance: random.Random) -> list[bytes]:
    kind = chance.randrange(6)
    if kind == 0:
        return [frame_of(pb.FromLearner(ping=pb.Ping(sent_s=_number(chance))))]
    if kind == 1:
        pong = pb.Pong(sent_s=_number(chance), held_s=_number(chance))
        return [frame_of(pb.FromLearner(pong=pong))]
    if kind == 2:
        return [frame_of(pb.FromLearner(progress=pb.Progress(step=chance.getrandbits(64))))]
    if kind == 3:
        chunk = pb.Chunk(offset=chance.choice((*_EDGES, *_HUGE)), data=b"abc")
        return [frame_of(pb.FromLearner(chunk=chunk))]
    size = chance.choice(_EDGES) if chance.random() < 0.1 else chance.randrange(9000)
    message = pb.FromLearner(push=pb.Push()) if kind == 4 else pb.FromLearner(
        checkpoint=pb.Checkpoint()
    )  # fmt: skip
    return list(payload_frames(message, chance.randbytes(size)))


def _number(chance: random.Random) -> float:
    return chance.choice((0.0, -1.0, 1e308, float("inf"), float("nan"), chance.random()))


def _damaged(chance: random.Random, frames: list[bytes]) -> list[bytes]:
    for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
        if frames:
            chance.choice(_WAYS)(chance, frames)
    return frames


def _flip(chance: random.Random, frames: list[bytes]) -> None:
    number = chance.randrange(len(frames))
    changed = bytearray(frames[number] or b"\0")
    head = min(len(changed), 24) if chance.random() < 0.7 else len(changed)  # where the fields are
    changed[chance.randrange(head)] ^= 1 << chance.randrange(8)
    frames[number] = bytes(changed)


def _cut(chance: random.Random, frames: list[bytes]) -> None:
    number = chance.randrange(len(frames))
    frames[number] = frames[number][: chance.randrange(len(frames[number]) + 1)]


def _lengthen(chance: random.Random, frames: list[bytes]) -> None:
    number = chance.randrange(len(frames))
    frames[number] += chance.randbytes(chance.randrange(1, 20))


def _drop(chance: random.Random, frames: list[bytes]) -> None:
    del frames[chance.randrange(len(frames))]


def _repeat(chance: random.Random, frames: list[bytes]) -> None:
    frames.insert(chance.randrange(len(frames) + 1), chance.choice(frames))


def _swap(chance: random.Random, frames: list[bytes]) -> None:
    one, other = chance.randrange(len(frames)), chance.randrange(len(frames))
    frames[one], frames[other] = frames[other], frames[one]


def _noise(chance: random.Random, frames: list[bytes]) -> None:
    frames.insert(chance.randrange(len(frames) + 1), chance.randbytes(chance.randrange(60)))


def _claim(chance: random.Random, frames: list[bytes]) -> None:
    """A payload of a size that nobody has."""
    size = pb.Payload(bytes=chance.choice((*_EDGES, *_HUGE)))
    message = pb.FromLearner(push=pb.Push(payload=size))
    frames.insert(chance.randrange(len(frames) + 1), frame_of(message))


_WAYS: Final[tuple[Callable[[random.Random, list[bytes]], None], ...]] = (
    _flip, _flip, _cut, _lengthen, _drop, _repeat, _swap, _noise, _claim,
)  # fmt: skip
