"""Payloads of a simulated training: how large they are, and what the model says of their values.

Messages are those of `wire.proto`.
"""

from typing import NamedTuple, TypeVar, cast

import msgspec

from chaoslab.core.errors import HarnessBug


class Values(msgspec.Struct, frozen=True):
    """In the place of the bytes of a real one."""

    size_bytes: int

    def __len__(self) -> int:
        return self.size_bytes


class PushValues(Values, frozen=True):
    """Work on a fragment."""

    life: str
    """Of whose learner it is."""
    scale: float
    """Times as large as it should be; NaN if one of its values is."""


class FragmentValues(Values, frozen=True):
    """A version of a fragment."""

    loss: float
    """Loss of the global parameters, by the model."""


class Trained(NamedTuple):
    """State of a learner."""

    digests: tuple[str, ...]
    """Of the adopted values of each fragment."""
    loss: float
    step: int
    """Step of the schedule of the learning rate."""
    moments: tuple[str, int]
    """Life that made the moments of the optimizer, and at which step."""


class CheckpointValues(Values, frozen=True):
    """A checkpoint of a learner."""

    state: Trained


class AdoptedValues(NamedTuple):
    """Values of a version, in the place of an array of them."""

    digest: str
    loss: float


class ModelledLayout(NamedTuple):
    """Fragments, all of one size."""

    fragments: range


V = TypeVar("V", bound=Values)


def values_of(payload: object, kind: type[V]) -> V:
    """What is in the place of a payload's bytes; HarnessBug if that is something else."""
    if not isinstance(payload, kind):
        raise HarnessBug(f"a simulated payload must be {kind.__name__}, got {payload!r}")
    return payload


def bytes_of(values: Values) -> bytes:
    """As `as_bytes`, where bytes are asked for."""
    return cast("bytes", values)


def as_bytes(payload: Values) -> memoryview:
    """The same for those who pass payloads on, and ask nothing of them but their length."""
    return cast("memoryview", payload)
