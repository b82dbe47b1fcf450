"""Compression of fragments: flat float32 vectors as f32, bf16, int8 or int4 bytes.

    encode: [n] f32 ──► payload (bytes) ──► decode: [n] f32, or MalformedPayload

Everything is little-endian. n is not in the payload; the receiver knows it from its layout.

    f32    n f32
    bf16   n bf16, rounded to nearest, ties to even
    int8   ⌈n/256⌉ f32 scales, then n int8
    int4   ⌈n/128⌉ f32 scales, then ⌈n/2⌉ bytes; value 2i is the low nibble of byte i, value 2i+1
           the high one, two's complement; the high nibble after an odd n is zero

A block of 256 (128) consecutive values x shares scale = max(max|x| / q, 2⁻¹²⁶), with q = 127 (7),
and x̂ = scale · round(x / scale), so that the error |x̂ - x| ≤ scale · (1/2 + 2⁻¹⁵), where 2⁻¹⁵ is
float32 rounding. bf16 is within |x| · 2⁻⁸ where |x| ≥ 2⁻¹²⁶.

NaN and infinity are preserved: f32 and bf16 carry them, in int8 and int4 the scale of their block
is not finite, so the receiver can refuse them with `NotFinite`. Magnitudes above 7/8 of the largest
float32 (above 2.9e38) may be refused as well. Source of per-block scales: Streaming DiLoCo, arXiv
2501.18512.
"""

from enum import StrEnum
from hashlib import blake2b

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from chaoslab.diloco.model.fragments import FloatArray, is_finite

INT8_BLOCK = 256
INT4_BLOCK = 128
_INT8_MAX = 127
_INT4_MAX = 7
_SCALE_MIN = np.finfo(np.float32).tiny
_CHUNK = 65_536
"""Floats processed at a time (whole blocks), so that scratch stays in the second-level cache."""


class Codec(StrEnum):
    """Compression of a fragment on the wire."""

    F32 = "f32"
    BF16 = "bf16"
    INT8 = "int8"
    INT4 = "int4"


class MalformedPayload(ValueError):
    """Bytes that `encode` cannot have produced for this size and codec."""


class NotFinite(MalformedPayload):
    """The payload contains NaN or infinity; it must not be merged or adopted."""


def encode(flat: FloatArray, codec: Codec) -> bytes:
    """Payload of `flat`, float32 [n]. ValueError for another shape or dtype."""
    if flat.ndim != 1 or flat.dtype != np.float32:
        raise ValueError(f"flat: must be float32 [n], got {flat.dtype} {flat.shape}")
    match codec:
        case Codec.F32:
            return flat.astype("<f4", copy=False).tobytes()
        case Codec.BF16:
            return flat.astype(ml_dtypes.bfloat16).view(np.uint16).astype("<u2").tobytes()
        case Codec.INT8 | Codec.INT4:
            return _encode_blocks(flat, codec)


def decode(payload: bytes | memoryview, size: int, codec: Codec) -> FloatArray:
    """A new float32 [size] from a payload of `encode`.

    MalformedPayload if `encode` cannot have produced the bytes, NotFinite if they contain NaN or
    infinity; no other error for any bytes.
    """
    raw = np.frombuffer(payload, np.uint8)
    if raw.size != encoded_bytes(size, codec):
        raise MalformedPayload(
            f"payload: must be {encoded_bytes(size, codec)} bytes for {size} floats as {codec}, "
            f"got {raw.size}"
        )
    flat: FloatArray
    match codec:
        case Codec.F32:
            flat = raw.view("<f4").astype(np.float32)
        case Codec.BF16:
            bits = raw.view("<u2").astype(np.uint16, copy=False)
            flat = bits.view(ml_dtypes.bfloat16).astype(np.float32)
        case Codec.INT8 | Codec.INT4:
            return _decode_blocks(raw, size, codec)
    if not is_finite(flat):
        raise NotFinite(f"payload of {size} floats as {codec}: contains NaN or infinity")
    return flat


def encoded_bytes(size: int, codec: Codec) -> int:
    """Length in bytes of the payload of `size` floats."""
    match codec:
        case Codec.F32:
            return 4 * size
        case Codec.BF16:
            return 2 * size
        case Codec.INT8:
            return 4 * -(-size // INT8_BLOCK) + size
        case Codec.INT4:
            return 4 * -(-size // INT4_BLOCK) + -(-size // 2)


def digest(array: FloatArray) -> str:
    """32 hex digits of BLAKE2b of the little-endian float32 bytes, to compare replicas."""
    if array.dtype != np.float32:
        raise ValueError(f"digest: must be of float32, got {array.dtype}")
    little = np.ascontiguousarray(array.astype("<f4", copy=False))
    return blake2b(little.reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()


# ---------------------------------------------------------------- int8 and int4


def _encode_blocks(flat: FloatArray, codec: Codec) -> bytes:
    block, largest = _block(codec)
    payload = np.empty(encoded_bytes(flat.size, codec), np.uint8)
    scales, codes = _parts(payload, flat.size, block)
    scratch = np.empty((_CHUNK // block, block), np.float32)
    quantised = np.empty((_CHUNK // block, block), np.int8)
    for start in range(0, flat.size, _CHUNK):
        blocks = _whole_blocks(flat[start : start + _CHUNK], block)
        count = len(blocks)
        scales[start // block :][:count] = _quantise(
            blocks, largest, scratch[:count], quantised[:count]
        )
        values = quantised[:count].reshape(-1)
        length = min(_CHUNK, flat.size - start)
        if codec is Codec.INT4:
            half = -(-length // 2)
            codes[start // 2 :][:half] = _pack(values)[:half]
        else:
            codes[start:][:length] = values[:length].view(np.uint8)
    return payload.tobytes()


def _quantise(
    blocks: FloatArray, largest: int, scratch: FloatArray, quantised: NDArray[np.int8]
) -> FloatArray:
    """Fill `quantised` int8 [k, block] from `blocks` f32 [k, block]; return the scales f32 [k]."""
    np.abs(blocks, out=scratch)
    scales: FloatArray = scratch.max(axis=1)
    np.divide(scales, largest, out=scales)
    np.maximum(scales, _SCALE_MIN, out=scales)  # keeps NaN
    is_bad = ~np.isfinite(scales)
    divisors = np.where(is_bad, np.float32(1), scales)
    np.divide(blocks, divisors[:, None], out=scratch)
    scratch[is_bad] = 0
    np.rint(scratch, out=scratch)
    np.copyto(quantised, scratch, casting="unsafe")
    return scales


def _decode_blocks(raw: NDArray[np.uint8], size: int, codec: Codec) -> FloatArray:
    block, largest = _block(codec)
    scales, codes = _parts(raw, size, block)
    scales = scales.astype(np.float32)
    _check_scales(scales, largest, codec)
    if codec is Codec.INT4 and size % 2 and codes[-1] & 0xF0:
        raise MalformedPayload("int4 payload: the padding nibble at the end must be zero")
    flat = np.empty(size, np.float32)
    for start in range(0, size, _CHUNK):
        out = flat[start : start + _CHUNK]
        if codec is Codec.INT4:
            out[:] = _unpack(codes[start // 2 :][: _CHUNK // 2])[: out.size]
        else:
            out[:] = codes[start:][: out.size].view(np.int8)
        _scale(out, scales[start // block :], block)
    return flat


def _check_scales(scales: FloatArray, largest: int, codec: Codec) -> None:
    is_bad = ~np.isfinite(scales)
    if is_bad.any():
        raise NotFinite(f"{codec} block {int(is_bad.argmax())}: contains NaN or infinity")
    if (scales > np.finfo(np.float32).max / (largest + 1)).any():
        raise NotFinite(f"{codec} scale {scales.max():g}: values would exceed float32")
    if (scales < _SCALE_MIN).any():
        raise MalformedPayload(
            f"{codec} scale: must be at least {_SCALE_MIN:g}, got {scales.min():g}"
        )


def _scale(out: FloatArray, scales: FloatArray, block: int) -> None:
    whole = out.size // block
    blocks = out[: whole * block].reshape(whole, block)
    np.multiply(blocks, scales[:whole, None], out=blocks)
    if whole * block < out.size:
        out[whole * block :] *= scales[whole]


def _block(codec: Codec) -> tuple[int, int]:
    return (INT4_BLOCK, _INT4_MAX) if codec is Codec.INT4 else (INT8_BLOCK, _INT8_MAX)


def _parts(
    payload: NDArray[np.uint8], size: int, block: int
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """The scales f32 [blocks] and the codes u8 in a payload, both views."""
    head = 4 * -(-size // block)
    return payload[:head].view("<f4"), payload[head:]


def _whole_blocks(piece: FloatArray, block: int) -> FloatArray:
    """`piece` as [k, block]; the last block is padded with zeros."""
    missing = -piece.size % block
    return (np.pad(piece, (0, missing)) if missing else piece).reshape(-1, block)


def _pack(values: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Two values of -8 … 7 per byte, the earlier one in the low nibble."""
    pairs = values.view("<u2")
    return ((pairs & 0x0F) | ((pairs >> 4) & 0xF0)).astype(np.uint8)


def _unpack(packed: NDArray[np.uint8]) -> NDArray[np.int8]:
    """The inverse of `_pack`: int8 [2 * len(packed)]."""
    wide = packed.astype("<u2")
    nibbles = ((wide | (wide << 4)) & 0x0F0F).view(np.int8)
    values: NDArray[np.int8] = (nibbles ^ 8) - 8
    return values
