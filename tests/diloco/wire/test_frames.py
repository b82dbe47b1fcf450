"""Framing: what is cut comes together again, and nothing else does."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import (
    CHUNK_BYTES,
    FRAME_BYTES_MAX,
    Assembler,
    GarbledFrame,
    checksum,
    frame_of,
    payload_frames,
)

PUSH = pb.FromLearner(epoch=3, push=pb.Push(round=7, fragment=2, codec="int8"))
PAYLOAD_BYTES_MAX = 8 * CHUNK_BYTES


def assembler() -> Assembler[pb.FromLearner]:
    return Assembler(pb.FromLearner.FromString, PAYLOAD_BYTES_MAX)


def some_bytes(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def header(size: int) -> bytes:
    return pb.FromLearner(push=pb.Push(payload=pb.Payload(bytes=size))).SerializeToString()


def chunk(offset: int, data: bytes, *, check: int | None = None) -> bytes:
    expected = checksum(data) if check is None else check
    return pb.FromLearner(
        chunk=pb.Chunk(offset=offset, checksum=expected, data=data)
    ).SerializeToString()


@pytest.mark.parametrize(
    "size", [0, 1, 4095, 4096, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES + 77]
)
def test_a_payload_of_any_size_comes_together_again(size: int) -> None:
    sent = some_bytes(size)
    taking = assembler()
    *before, last = [taking.take(frame) for frame in payload_frames(PUSH, sent)]
    assert all(nothing is None for nothing in before)
    assert last is not None
    message, payload = last
    assert payload is not None
    assert payload.readonly
    assert bytes(payload) == sent
    assert (message.epoch, message.push.round, message.push.payload.bytes) == (3, 7, size)


CHECKPOINT = pb.FromLearner(epoch=3, checkpoint=pb.Checkpoint(request=5))


@pytest.mark.parametrize("size", [0, 1, 20_000])
def test_a_payload_passes_a_checkpoint_between_any_two_of_its_frames(size: int) -> None:
    state, sent = some_bytes(3 * CHUNK_BYTES + 77, seed=1), some_bytes(size)
    taking, taken = assembler(), []
    for frame in payload_frames(CHECKPOINT, state):
        taken.append(taking.take(frame))
        taken += map(taking.take, payload_frames(PUSH, sent) if taken[-1] is None else ())
    whole = [(m.WhichOneof("body"), bytes(p or b"")) for m, p in filter(None, taken)]
    assert whole[-1] == ("checkpoint", state)
    assert set(whole[:-1]) == {("push", sent)}


def test_nothing_passes_a_payload_but_a_checkpoint_and_no_checkpoint_does() -> None:
    for passed, passing in ((PUSH, PUSH), (PUSH, CHECKPOINT), (CHECKPOINT, CHECKPOINT)):
        taking = assembler()
        taking.take(next(payload_frames(passed, b"12")))
        with pytest.raises(GarbledFrame):
            taking.take(next(payload_frames(passing, b"34")))


def test_sending_changes_neither_the_message_nor_copies_the_payload_at_once() -> None:
    before = PUSH.SerializeToString()
    frames = payload_frames(PUSH, memoryview(some_bytes(3 * CHUNK_BYTES)))
    assert len(next(frames)) < 100
    assert all(len(frame) <= FRAME_BYTES_MAX for frame in frames)
    assert PUSH.SerializeToString() == before


def test_hand_written_chunks_are_protobuf() -> None:
    sent = some_bytes(4 * CHUNK_BYTES + 5)
    _, *chunks = payload_frames(PUSH, sent)
    read = [pb.ToLearner.FromString(frame).chunk for frame in chunks]
    assert [piece.offset for piece in read] == [0, *(n * CHUNK_BYTES for n in (1, 2, 3, 4))]
    assert b"".join(piece.data for piece in read) == sent
    assert [piece.checksum for piece in read] == [checksum(piece.data) for piece in read]


@pytest.mark.parametrize(("size", "chunks"), [(4096, 1), (4097, 2), (20_000, 3), (40_000, 4)])
def test_small_payloads_are_cut_into_a_few_chunks_of_whole_pages(size: int, chunks: int) -> None:
    _, *frames = payload_frames(PUSH, bytes(size))
    offsets = [pb.FromLearner.FromString(frame).chunk.offset for frame in frames]
    assert len(offsets) == chunks
    assert all(offset % 4096 == 0 for offset in offsets)


def test_chunks_that_protobuf_wrote_are_read_too() -> None:
    sent = some_bytes(100)
    taking = assembler()
    taking.take(header(100))
    taking.take(chunk(0, sent[:40]))
    complete = taking.take(chunk(40, sent[40:]))
    assert complete is not None
    assert bytes(complete[1] or b"") == sent


def test_a_message_without_payload_passes_between_chunks() -> None:
    sent = some_bytes(5000)
    start, first, second = payload_frames(PUSH, sent)
    goodbye = pb.FromLearner(goodbye=pb.Goodbye(reason="enough"))
    taking = assembler()
    assert taking.take(start) is None
    assert taking.take(first) is None
    assert taking.take(frame_of(goodbye)) == (goodbye, None)
    complete = taking.take(second)
    assert complete is not None
    assert bytes(complete[1] or b"") == sent


def test_the_checksum_is_the_one_in_the_protocol() -> None:
    data = some_bytes(3 * 4096 + 123)
    padded = data.ljust(4 * 4096, b"\0")
    total = [0] * 512
    for row in range(4):
        for column in range(512):
            at = row * 4096 + column * 8
            total[column] += int.from_bytes(padded[at : at + 8], "little")
    summed = b"".join((value % 2**64).to_bytes(8, "little") for value in total)
    assert checksum(data) == zlib.crc32(summed)


@given(st.integers(0, 4 * 4096 - 1), st.integers(0, 7))
def test_a_flipped_bit_changes_the_checksum(place: int, bit: int) -> None:
    data = bytearray(some_bytes(4 * 4096))
    before = checksum(data)
    data[place] ^= 1 << bit
    assert checksum(data) != before


@pytest.mark.parametrize(
    "frames",
    [
        [b"\xff\xff\xff\xff"],
        [b""],
        [b"\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"],
        [pb.FromLearner(epoch=4).SerializeToString()],
        [chunk(0, b"abc")],
        [header(PAYLOAD_BYTES_MAX + 1)],
        [header(2**63)],
        [header(10), header(10)],
        [header(10), chunk(0, b"abc"), chunk(0, b"abc")],
        [header(10), chunk(5, b"abc")],
        [header(10), chunk(0, b"")],
        [header(2), chunk(0, b"abc")],
        [header(3), chunk(0, b"abc", check=1)],
    ],
)
def test_what_the_protocol_does_not_know_is_garbled(frames: list[bytes]) -> None:
    taking = assembler()
    *before, last = frames
    for frame in before:
        taking.take(frame)
    with pytest.raises(GarbledFrame):
        taking.take(last)


@given(st.lists(st.one_of(st.binary(max_size=60), st.just(header(5)), st.just(chunk(0, b"a")))))
def test_no_bytes_do_worse_than_being_garbled(frames: list[bytes]) -> None:
    taking = assembler()
    try:
        for frame in frames:
            taking.take(frame)
    except GarbledFrame:
        pass


def test_a_message_too_large_for_a_frame_is_refused_by_its_sender() -> None:
    message = pb.FromLearner(goodbye=pb.Goodbye(reason="x" * FRAME_BYTES_MAX))
    with pytest.raises(ValueError, match="payload"):
        frame_of(message)
