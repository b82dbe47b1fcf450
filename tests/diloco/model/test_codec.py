"""Codecs: byte layout, error bounds, values that are not finite, and hostile payloads."""

import struct

import ml_dtypes
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.diloco.arrays.threads import Threads
from chaoslab.diloco.model.codec import (
    INT4_BLOCK,
    INT8_BLOCK,
    Encoded,
    decode,
    digest,
    digest_decoded,
    encoded_bytes,
)
from chaoslab.diloco.model.codec import encode as encoded
from chaoslab.diloco.model.encodings import Codec, MalformedPayload, NotFinite

BLOCKS = {Codec.INT8: (INT8_BLOCK, 127), Codec.INT4: (INT4_BLOCK, 7), Codec.E3M0: (INT4_BLOCK, 64)}
POWERS = [0, 1, 2, 4, 8, 16, 32, 64, -1, -2, -4, -8, -16, -32, -64]
SIZES = [0, 1, 127, 129, 256, 257, 65_536, 65_537]

every_codec = pytest.mark.parametrize("codec", list(Codec))
block_codec = pytest.mark.parametrize("codec", list(BLOCKS))


def encode(flat: np.ndarray, codec: Codec) -> bytes:
    return bytes(encoded(flat, codec))


def normal(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, dtype=np.float32)


# ---------------------------------------------------------------- layout


@every_codec
@pytest.mark.parametrize("size", SIZES)
def test_a_payload_has_the_announced_length_and_comes_back_in_shape(
    codec: Codec, size: int
) -> None:
    payload = encode(normal(size), codec)
    assert len(payload) == encoded_bytes(size, codec)
    back = decode(payload, size, codec)
    assert back.shape == (size,)
    assert back.dtype == np.float32
    assert back.flags.writeable


def test_f32_is_little_endian_floats_bit_for_bit() -> None:
    flat = np.array([1.5, -0.0, 1e-45, 3.4e38], np.float32)
    assert encode(flat, Codec.F32) == struct.pack("<4f", *flat.tolist())
    assert decode(encode(flat, Codec.F32), 4, Codec.F32).tobytes() == flat.tobytes()


@pytest.mark.parametrize("size", [65_535, 1_100_001])
def test_bf16_is_bit_for_bit_what_ml_dtypes_makes_of_any_bits(size: int) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, size, np.uint32)
    bits[:4] = 0x7F800000, 0xFF800000, 0x7FFFFFFF, 0xFF800001  # infinities, then NaN
    bits[4:9] = 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x00008000, 0x80018000  # ties, overflow
    flat = bits.view(np.float32)
    with np.errstate(invalid="ignore"):  # of NaN that are made quiet
        wanted = flat.astype(ml_dtypes.bfloat16).tobytes()
    assert encode(flat, Codec.BF16) == wanted
    assert bytes(encoded(flat, Codec.BF16, Threads(3))) == wanted


def test_int8_is_scales_then_values() -> None:
    flat = np.zeros(INT8_BLOCK + 2, np.float32)
    flat[:3] = [127.0, -63.6, 0.4]  # scale 1
    flat[-2:] = [0.5, -254.0]  # scale 2
    payload = encode(flat, Codec.INT8)
    assert payload[:8] == struct.pack("<2f", 1.0, 2.0)
    assert struct.unpack("<3b", payload[8:11]) == (127, -64, 0)
    assert struct.unpack("<2b", payload[-2:]) == (0, -127)


def test_int4_packs_the_earlier_value_in_the_low_nibble() -> None:
    payload = encode(np.array([7, -7, 3, -1, 2], np.float32), Codec.INT4)
    assert payload == struct.pack("<f", 1.0) + bytes([0x97, 0xF3, 0x02])
    assert decode(payload, 5, Codec.INT4).tolist() == [7, -7, 3, -1, 2]


def test_e3m0_is_a_sign_and_an_exponent_of_two() -> None:
    payload = encode(np.array([64, -32, 3.1, -1, 0.4, 5.9, 6.1], np.float32), Codec.E3M0)
    assert payload == struct.pack("<f", 1.0) + bytes([0xE7, 0x93, 0x30, 0x04])
    assert decode(payload, 7, Codec.E3M0).tolist() == [64, -32, 4, -1, 0, 4, 8]


@block_codec
@pytest.mark.parametrize("size", [773, 65_537], ids=["small", "in two pieces"])
def test_blocks_are_quantised_as_by_hand(codec: Codec, size: int) -> None:
    block, largest = BLOCKS[codec]
    flat = normal(size) * np.float32(0.01)
    back = decode(encode(flat, codec), flat.size, codec)
    for start in range(0, flat.size, block):
        values = flat[start : start + block]
        scale = np.float32(max(abs(value) for value in values)) / np.float32(largest)
        for value, decoded in zip(values, back[start : start + block], strict=True):
            ratio = float(value / scale)
            code = nearest(ratio, POWERS) if codec is Codec.E3M0 else round(ratio)
            assert decoded == np.float32(code) * scale


def nearest(value: float, allowed: list[int]) -> int:
    return min(allowed, key=lambda one: abs(one - value))


# ---------------------------------------------------------------- not finite


@every_codec
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [1, 300, 65_537])
def test_a_value_that_is_not_finite_is_refused_by_the_receiver(
    codec: Codec, value: float, size: int
) -> None:
    for position in {0, size // 2, size - 1}:
        flat = normal(size)
        flat[position] = value
        with pytest.raises(NotFinite):
            decode(encode(flat, codec), size, codec)


@every_codec
def test_the_largest_carried_magnitude_is_as_stated(codec: Codec) -> None:
    flat = np.array([2.9e38, -2.9e38], np.float32)
    assert np.isfinite(decode(encode(flat, codec), 2, codec)).all()


@block_codec
@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, 3.3e38])
def test_a_scale_that_gives_values_that_are_not_finite_is_refused(
    codec: Codec, scale: float
) -> None:
    payload = struct.pack("<f", scale) + bytes(encoded_bytes(8, codec) - 4)
    with pytest.raises(NotFinite):
        decode(payload, 8, codec)


# ---------------------------------------------------------------- hostile payloads


@every_codec
@pytest.mark.parametrize("size", [1, 2, 129, 257, 70_000])
def test_truncated_and_overlong_payloads_are_refused(codec: Codec, size: int) -> None:
    payload = encode(normal(size), codec)
    for wrong in (b"", payload[:-1], payload[: len(payload) // 2], payload + b"\0", payload * 2):
        with pytest.raises(MalformedPayload):
            decode(wrong, size, codec)


@block_codec
@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, 1e-40])
def test_a_scale_that_encode_never_writes_is_refused(codec: Codec, scale: float) -> None:
    payload = struct.pack("<f", scale) + bytes(encoded_bytes(8, codec) - 4)
    with pytest.raises(MalformedPayload, match="scale"):
        decode(payload, 8, codec)


@pytest.mark.parametrize("codec", [Codec.INT4, Codec.E3M0])
def test_bits_after_the_last_value_of_four_bits_are_refused(codec: Codec) -> None:
    with pytest.raises(MalformedPayload, match="nibble"):
        decode(struct.pack("<f", 1.0) + bytes([0x10]), 1, codec)


@every_codec
@settings(max_examples=25)
@given(data=st.data(), size=st.integers(0, 300), more=st.sampled_from([0, 0, 0, 1, -1, 60]))
def test_garbage_is_malformed_or_finite(
    codec: Codec, data: st.DataObject, size: int, more: int
) -> None:
    length = max(0, encoded_bytes(size, codec) + more)
    payload = data.draw(st.binary(min_size=length, max_size=length))
    try:
        back = decode(payload, size, codec)
    except MalformedPayload:
        return
    assert back.shape == (size,)
    assert np.isfinite(back).all()


@every_codec
def test_a_view_at_an_odd_address_is_read(codec: Codec) -> None:
    payload = encode(normal(300), codec)
    view = memoryview(b"x" + payload)[1:]
    np.testing.assert_array_equal(decode(view, 300, codec), decode(payload, 300, codec))


@pytest.mark.parametrize("flat", [np.zeros(4), np.zeros((2, 2), np.float32)])
def test_only_a_flat_float32_vector_is_encoded(flat: np.ndarray) -> None:
    with pytest.raises(ValueError, match="flat"):
        encode(flat, Codec.F32)


@every_codec
def test_a_strided_vector_is_encoded_as_its_copy(codec: Codec) -> None:
    strided = normal(1200)[::2]
    assert encode(strided, codec) == encode(strided.copy(), codec)


# ---------------------------------------------------------------- part by part


@every_codec
@settings(max_examples=25)
@given(ends=st.tuples(st.integers(0, 1000), st.integers(0, 1000)))
def test_any_part_is_that_of_the_whole(codec: Codec, ends: tuple[int, int]) -> None:
    payload, at = encode(normal(1000), codec), slice(*sorted(ends))
    part = Encoded(payload, 1000, codec).part(at)
    assert part.tobytes() == decode(payload, 1000, codec)[at].tobytes()


@every_codec
@pytest.mark.parametrize("size", [0, 1, 256, 700, 20_000])
@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_squares_are_those_of_the_floats(codec: Codec, size: int, factor: float) -> None:
    payload, scratch = encode(np.float32(factor) * normal(size), codec), np.empty(size, np.float32)
    wanted = np.square(decode(payload, size, codec).astype(np.float64)).sum()
    found = Encoded(payload, size, codec).squares(slice(0, size), scratch)
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-40)


def test_values_that_are_not_finite_are_left_to_whoever_reads_part_by_part() -> None:
    flat = np.array([1.0, np.inf, np.nan], np.float32)
    for codec in (Codec.F32, Codec.BF16):
        read = Encoded(encode(flat, codec), 3, codec).part(slice(0, 3))
        assert np.array_equal(read, flat, equal_nan=True)


# ---------------------------------------------------------------- digest


@every_codec
@pytest.mark.parametrize("size", [0, 1, 65_537, 524_289])
def test_the_digest_of_a_payload_is_that_of_what_is_decoded(codec: Codec, size: int) -> None:
    payload = encoded(normal(size), codec)
    assert digest_decoded(payload, size, codec) == digest(decode(payload, size, codec))


def test_the_digest_is_over_the_little_endian_bytes() -> None:
    flat = np.array([1.0, -2.5, 3.25], np.float32)
    bytes_by_hand = struct.pack("<3f", 1.0, -2.5, 3.25)
    assert digest(flat) == xxhash.xxh3_128(bytes_by_hand).hexdigest()
    assert digest(np.repeat(flat, 2)[::2]) == digest(flat)
    assert digest(flat.reshape(3, 1)) == digest(flat)


def test_the_digest_of_another_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="float32"):
        digest(np.zeros(3))
