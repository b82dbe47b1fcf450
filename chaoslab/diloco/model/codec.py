"""Compression of fragments: flat float32 vectors as f32, bf16, int8, int4 or e3m0 bytes.

    encode: [n] f32 ──► payload (bytes) ─┬─► decode: [n] f32, or MalformedPayload
                                         └─► Encoded: read part by part, as floats

Everything is little-endian. n is not in the payload; the receiver knows it from its layout.

    f32    n f32
    bf16   n bf16, rounded to nearest, ties to even
    int8   ⌈n/256⌉ f32 scales, then n int8
    int4   ⌈n/128⌉ f32 scales, then ⌈n/2⌉ bytes; value 2i is the low nibble of byte i, value 2i+1
           the high one, two's complement; the high nibble after an odd n is zero
    e3m0   as int4, but a nibble is a sign (its high bit) and three bits e: 0 for e = 0, else ± 2ᵉ⁻¹

A block of 256 (int4, e3m0: 128) consecutive values x shares scale = max(max|x| / q, 2⁻¹²⁶), with
q = 127 (7; 64), and x̂ = scale · round(x / scale), to the nearest of the values that the codes stand
for. The error |x̂ - x| ≤ scale · (1/2 + 2⁻¹⁵), where 2⁻¹⁵ is float32 rounding; with e3m0 it is at
most the larger of that and |x| · (1/3 + 2⁻¹⁵). So e3m0 is coarser than int4 near the maximum of a
block and finer below a fifth of it. bf16 is within |x| · 2⁻⁸ where |x| ≥ 2⁻¹²⁶.

NaN and infinity are preserved: f32 and bf16 carry them, in the others the scale of their block is
not finite, so the receiver can refuse them with `NotFinite`. Magnitudes above 7/8 of the largest
float32 (above 2.9e38) may be refused as well. Source of per-block scales, and of e3m0 for outer
gradients: Streaming DiLoCo, arXiv 2501.18512.
"""

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128

from chaoslab.diloco.arrays.threads import INLINE, Threads, blocks
from chaoslab.diloco.model.encodings import Codec, MalformedPayload, NotFinite
from chaoslab.diloco.model.fragments import FloatArray, is_finite, squares

INT8_BLOCK = 256
INT4_BLOCK = 128
READ_ALIGNMENT = 256
"""Multiple of all blocks: `Encoded.read` begins there."""
_INT8_MAX = 127
_INT4_MAX = 7
_E3M0_MAX = 64
_E3M0 = np.array([0, 1, 2, 4, 8, 16, 32, 64, 0, -1, -2, -4, -8, -16, -32, -64], np.float32)
"""Value of each nibble."""
_E3M0_PAIRS = np.stack([np.tile(_E3M0, 16), np.repeat(_E3M0, 16)], axis=1).view(np.uint64).ravel()
"""Values of each byte's two nibbles, as the bits of two float32."""
_SCALE_MIN = np.finfo(np.float32).tiny
_CHUNK = 65_536
"""Floats processed at a time (whole blocks), so that scratch stays in the second-level cache."""
_SHARED_CHUNK = 524_288
"""As `_CHUNK`, where several threads work: a NumPy call on fewer floats is over so soon that the
threads wait for each other's interpreter lock; with an eighth of it two are as slow as one."""
_BF16_NAN, _SIGN = 0x7FC0, 0x8000


def encode(flat: FloatArray, codec: Codec, threads: Threads = INLINE) -> memoryview:
    """Payload of `flat`, float32 [n]. ValueError for another shape or dtype."""
    if flat.ndim != 1 or flat.dtype != np.float32:
        raise ValueError(f"flat: must be float32 [n], got {flat.dtype} {flat.shape}")
    payload = np.empty(encoded_bytes(flat.size, codec), np.uint8)
    match codec:
        case Codec.F32:
            payload.view("<f4")[:] = flat
        case Codec.BF16:
            _encode_bf16(flat, payload.view("<u2"), threads)
        case Codec.INT8 | Codec.INT4 | Codec.E3M0:
            _encode_blocks(flat, codec, payload)
    return payload.data


class Encoded:
    """A payload of `encode`, decoded part by part whenever it is read. Thread-safe.

    So the floats of a large vector pass through the cache only, and its bytes through memory.
    """

    def __init__(self, payload: bytes | memoryview, size: int, codec: Codec) -> None:
        """A payload of `size` floats. MalformedPayload if `encode` cannot have produced the bytes.

        NotFinite for NaN or infinity, except in f32 and bf16: readers of those look for them.
        """
        raw = np.frombuffer(payload, np.uint8)
        if raw.size != encoded_bytes(size, codec):
            raise MalformedPayload(
                f"payload: must be {encoded_bytes(size, codec)} bytes for {size} floats as "
                f"{codec}, got {raw.size}"
            )
        self.size = size
        self.block: int | None = None
        """Consecutive floats that share a scale; None in f32 and bf16."""
        self._codec = codec
        self._scales, self._codes = np.empty(0, np.float32), raw
        if codec not in (Codec.F32, Codec.BF16):
            self.block, _ = _block(codec)
            scales, self._codes = _parts(raw, size, self.block)
            self._scales = scales.astype(np.float32)
            _check_blocks(self._scales, self._codes, size, codec)

    def read(self, at: slice, out: FloatArray) -> FloatArray:
        """The floats of a slice that begins at a multiple of `READ_ALIGNMENT`.

        They are in the first part of `out`, or, with f32, a view of the payload.
        """
        flat = out[: at.stop - at.start]
        match self._codec:
            case Codec.F32:
                floats = self._codes[4 * at.start : 4 * at.stop].view("<f4")
                if floats.flags.aligned:
                    return floats.astype(np.float32, copy=False)
                flat[:] = floats
            case Codec.BF16:
                bits = flat.view(np.uint32)
                bits[:] = self._codes[2 * at.start : 2 * at.stop].view("<u2")
                np.left_shift(bits, 16, out=bits)
            case Codec.INT8 | Codec.INT4 | Codec.E3M0:
                block, _ = _block(self._codec)
                _scale(self._read_codes(at, flat), self._scales[at.start // block :], block)
        return flat

    def part(self, at: slice) -> FloatArray:
        """The floats of any slice, at once."""
        start = at.start - at.start % READ_ALIGNMENT
        scratch = np.empty(at.stop - start, np.float32)
        return self.read(slice(start, at.stop), scratch)[at.start - start :]

    def squares(self, at: slice, scratch: FloatArray) -> float:
        """Sum of squares of the floats that `read` gives, a few parts in 10⁷ aside."""
        size = at.stop - at.start
        if self.block is None or size % self.block:
            return squares(self.read(at, scratch))
        codes, scales = self.factors(at, scratch[:size].reshape(-1, self.block))
        of_codes = np.vecdot(codes, codes).astype(np.float64)  # exact: below 2²⁴
        wide = scales.astype(np.float64)
        return float(np.vecdot(of_codes, wide * wide))

    def factors(self, at: slice, out: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The floats of a slice, before they are scaled, in `out` [k, block]; the scales, [k].

        The slice begins at a multiple of `READ_ALIGNMENT`; its length is k · block. Not for f32
        and bf16, which have no scales.
        """
        k, block = out.shape
        self._read_codes(at, out.reshape(-1))
        return out, self._scales[at.start // block :][:k]

    def _read_codes(self, at: slice, flat: FloatArray) -> FloatArray:
        """The values of the codes before they are scaled, in `flat`."""
        if self._codec is Codec.INT8:
            flat[:] = self._codes[at].view(np.int8)
        else:
            pairs = self._codes[at.start // 2 : -(-at.stop // 2)]
            is_int4 = self._codec is Codec.INT4
            values = _unpack(pairs) if is_int4 else _E3M0_PAIRS[pairs].view(np.float32)
            flat[:] = values[: flat.size]
        return flat


def decode(payload: bytes | memoryview, size: int, codec: Codec) -> FloatArray:
    """A new float32 [size] from a payload of `encode`.

    MalformedPayload if `encode` cannot have produced the bytes, NotFinite if they contain NaN or
    infinity; no other error for any bytes.
    """
    encoded, flat = Encoded(payload, size, codec), np.empty(size, np.float32)
    for piece in blocks(size, _CHUNK):  # each is checked while it is in cache
        values = encoded.read(piece, flat[piece])
        if codec is Codec.F32:
            flat[piece] = values
        if not is_finite(flat[piece]):
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
        case Codec.INT4 | Codec.E3M0:
            return 4 * -(-size // INT4_BLOCK) + -(-size // 2)


def digest(array: FloatArray) -> str:
    """32 hex digits of XXH3-128 of the little-endian float32 bytes, to compare replicas."""
    if array.dtype != np.float32:
        raise ValueError(f"digest: must be of float32, got {array.dtype}")
    found = xxh3_128()
    found.update(np.ascontiguousarray(array.astype("<f4", copy=False)).data)
    return found.hexdigest()


def digest_decoded(payload: memoryview, size: int, codec: Codec) -> str:
    """`digest` of what `decode` makes of a payload of `encode`, without keeping it."""
    found, encoded = xxh3_128(), Encoded(payload, size, codec)
    scratch = np.empty(min(size, _SHARED_CHUNK), np.float32)
    for piece in blocks(size, _SHARED_CHUNK):
        found.update(encoded.read(piece, scratch).astype("<f4", copy=False).data)
    return found.hexdigest()


# ---------------------------------------------------------------- bf16


def _encode_bf16(flat: FloatArray, payload: NDArray[np.uint16], threads: Threads) -> None:
    def fill(piece: slice) -> None:
        _round_bf16(np.ascontiguousarray(flat[piece]), payload[piece])

    threads.each(fill, blocks(flat.size, _SHARED_CHUNK))


def _round_bf16(piece: FloatArray, out: NDArray[np.uint16]) -> None:
    """The upper halves of the bits, rounded by what the lower halves carry: ties to even."""
    bits, rounded = piece.view(np.uint32), np.empty(piece.size, np.uint32)
    np.right_shift(bits, 16, out=rounded)
    np.bitwise_and(rounded, 1, out=rounded)
    np.add(rounded, 0x7FFF, out=rounded)
    np.add(rounded, bits, out=rounded)
    np.right_shift(rounded, 16, out=rounded)
    if not is_finite(piece):  # the carry could make NaN a number
        is_nan = np.isnan(piece)
        rounded[is_nan] = bits[is_nan] >> 16 & _SIGN | _BF16_NAN
    out[:] = rounded


# ---------------------------------------------------------------- int8, int4 and e3m0


def _encode_blocks(flat: FloatArray, codec: Codec, payload: NDArray[np.uint8]) -> None:
    block, largest = _block(codec)
    scales, codes = _parts(payload, flat.size, block)
    scratch = np.empty((_CHUNK // block, block), np.float32)
    quantised = np.empty((_CHUNK // block, block), np.int8)
    for start in range(0, flat.size, _CHUNK):
        blocks = _whole_blocks(flat[start : start + _CHUNK], block)
        count = len(blocks)
        scales[start // block :][:count] = _scaled(blocks, largest, scratch[:count])
        if codec is Codec.E3M0:
            _round_to_powers(scratch[:count], quantised[:count])
        else:
            np.rint(scratch[:count], out=scratch[:count])
            np.copyto(quantised[:count], scratch[:count], casting="unsafe")
        values = quantised[:count].reshape(-1)
        length = min(_CHUNK, flat.size - start)
        if codec is not Codec.INT8:
            half = -(-length // 2)
            codes[start // 2 :][:half] = _pack(values)[:half]
        else:
            codes[start:][:length] = values[:length].view(np.uint8)


def _scaled(blocks: FloatArray, largest: int, out: FloatArray) -> FloatArray:
    """Divide `blocks` f32 [k, block] by their scales, into `out`; return the scales, f32 [k]."""
    np.abs(blocks, out=out)
    scales: FloatArray = out.max(axis=1)
    np.divide(scales, largest, out=scales)
    np.maximum(scales, _SCALE_MIN, out=scales)  # keeps NaN
    is_bad = ~np.isfinite(scales)
    divisors = np.where(is_bad, np.float32(1), scales)
    np.divide(blocks, divisors[:, None], out=out)
    out[is_bad] = 0
    return scales


def _round_to_powers(ratios: FloatArray, nibbles: NDArray[np.int8]) -> None:
    """Nibbles of e3m0, int8 [k, block], for `ratios` f32 [k, block] of -64 … 64.

    Uses the ten upper bits of a float32: sign, exponent and the first bit of the mantissa. With
    that bit, from 1.5 times a power of two on, the next power is nearer.
    """
    bits = (ratios.view(np.uint32) >> 22).astype(np.int16)
    signs = (bits >> 6) & 8
    bits &= 0x1FF
    is_one_or_more = bits >= 252  # 0.5, from where 1 is nearer than 0
    bits += 1
    bits >>= 1
    bits -= 126
    np.maximum(bits, is_one_or_more, out=bits)
    np.bitwise_or(bits, signs, out=nibbles, casting="unsafe")


def _check_blocks(scales: FloatArray, codes: NDArray[np.uint8], size: int, codec: Codec) -> None:
    """NotFinite or MalformedPayload for scales and codes that cannot be of `size` finite floats."""
    _, largest = _block(codec)
    is_bad = ~np.isfinite(scales)
    if is_bad.any():
        raise NotFinite(f"{codec} block {int(is_bad.argmax())}: contains NaN or infinity")
    if (scales > np.finfo(np.float32).max / (largest + 1)).any():
        raise NotFinite(f"{codec} scale {scales.max():g}: values would exceed float32")
    if (scales < _SCALE_MIN).any():
        raise MalformedPayload(
            f"{codec} scale: must be at least {_SCALE_MIN:g}, got {scales.min():g}"
        )
    if codec is not Codec.INT8 and size % 2 and codes[-1] & 0xF0:
        raise MalformedPayload(f"{codec} payload: the padding nibble at the end must be zero")


def _scale(out: FloatArray, scales: FloatArray, block: int) -> None:
    whole = out.size // block
    blocks = out[: whole * block].reshape(whole, block)
    np.multiply(blocks, scales[:whole, None], out=blocks)
    if whole * block < out.size:
        out[whole * block :] *= scales[whole]


def _block(codec: Codec) -> tuple[int, int]:
    if codec is Codec.INT8:
        return INT8_BLOCK, _INT8_MAX
    return INT4_BLOCK, _INT4_MAX if codec is Codec.INT4 else _E3M0_MAX


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
    """The low nibbles of two values per byte, the earlier value's in the low nibble."""
    pairs = values.view("<u2")
    return ((pairs & 0x0F) | ((pairs >> 4) & 0xF0)).astype(np.uint8)


def _unpack(packed: NDArray[np.uint8]) -> NDArray[np.int8]:
    """The inverse of `_pack` for values of -8 … 7: int8 [2 * len(packed)]."""
    wide = packed.astype("<u2")
    nibbles = ((wide | (wide << 4)) & 0x0F0F).view(np.int8)
    values: NDArray[np.int8] = (nibbles ^ 8) - 8
    return values
