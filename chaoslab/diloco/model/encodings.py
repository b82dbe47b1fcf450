"""Encodings of payloads by name, and what is wrong with a payload. `codec` encodes and decodes.

Standard library only, so that those who pass payloads on need no arrays.
"""

from enum import StrEnum


class Codec(StrEnum):
    """Compression of a fragment on the wire."""

    F32 = "f32"
    BF16 = "bf16"
    INT8 = "int8"
    INT4 = "int4"
    E3M0 = "e3m0"


class MalformedPayload(ValueError):
    """Bytes that `codec.encode` cannot have produced for this size and codec."""


class NotFinite(MalformedPayload):
    """The payload contains NaN or infinity; it must not be merged or adopted."""
