"""Fragments: a balanced division of a model's tensors into units that are pushed and merged.

    specs ── Layout.balance ──► P fragments
    {name: array} ── fragment.flatten ──► flat float32 [size] ── fragment.unflatten ──► {name: view}

Fragments consist of whole tensors. The division depends only on names, shapes and P, so a learner
and the syncer with equal specs have equal layouts; `fingerprint` compares them. Specs travel as
JSON and are validated here. Versions and merging are elsewhere.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float32]

TENSORS_MAX = 65_536
NAME_CHARS_MAX = 512
DIMENSIONS_MAX = 8
FLOATS_MAX = 2**40
"""Largest tensor of a spec, in floats, so that a hostile shape cannot overflow a size."""
_ROW = 512
"""Floats per dot product. NumPy gives up the interpreter lock from 500 products in a call on, and
BLAS starts threads of its own above ten thousand floats of a product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Name, shape and merge method of one tensor.

    ValueError for a name that is empty or unprintable, a dimension below one, or more than
    `FLOATS_MAX` floats.
    """

    name: str
    shape: tuple[int, ...]
    """Dimensions; () for a scalar."""
    is_averaged: bool
    """Merged by weighted average whatever the method of the training, as the embedding is."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= NAME_CHARS_MAX or not self.name.isprintable():
            raise ValueError(
                f"a tensor's name is 1 to {NAME_CHARS_MAX} printable characters, "
                f"not {self.name[:80]!r}"
            )
        if len(self.shape) > DIMENSIONS_MAX or any(length < 1 for length in self.shape):
            raise ValueError(
                f"tensor {self.name!r} has shape {str(self.shape)[:80]}: use at most "
                f"{DIMENSIONS_MAX} dimensions, each at least 1"
            )
        if self.size > FLOATS_MAX:
            raise ValueError(
                f"tensor {self.name!r} of shape {str(self.shape)[:80]} is larger than {FLOATS_MAX}"
            )

    @property
    def size(self) -> int:
        """Number of floats, the product of the dimensions."""
        return math.prod(self.shape)


class Block(NamedTuple):
    """Part of a flat vector that is worked on at once."""

    at: slice
    parts: list[tuple[int, slice]]
    """The parts of tensors in it: number of the tensor, place in the block."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Whole tensors, in order of name, concatenated into one flat float32 vector."""

    index: int
    tensors: tuple[TensorSpec, ...]
    slices: tuple[slice, ...] = field(init=False)
    """Position of each tensor in the flat vector."""
    size: int = field(init=False)
    """Length of the flat vector, in floats."""

    def __post_init__(self) -> None:
        ends = np.cumsum([0] + [spec.size for spec in self.tensors]).tolist()
        places = tuple(slice(start, end) for start, end in pairwise(ends))
        object.__setattr__(self, "slices", places)
        object.__setattr__(self, "size", ends[-1])

    def flatten(self, arrays: Mapping[str, ArrayLike]) -> FloatArray:
        """The fragment's tensors from `arrays`, as one new vector, float32 [size].

        Other names are ignored, other dtypes converted. ValueError if a tensor is missing or has
        another shape than its spec.
        """
        flat = np.empty(self.size, np.float32)
        for spec, place in zip(self.tensors, self.slices, strict=True):
            if spec.name not in arrays:
                raise ValueError(f"fragment {self.index} needs tensor {spec.name!r}: not given")
            array = np.asarray(arrays[spec.name])
            if array.shape != spec.shape:
                raise ValueError(
                    f"tensor {spec.name!r} has shape {array.shape}, its spec says {spec.shape}"
                )
            flat[place] = array.reshape(-1)
        return flat

    def unflatten(self, flat: FloatArray) -> dict[str, FloatArray]:
        """Views into `flat`, float32 [size], by name and in shape. ValueError for another shape."""
        self.check(flat)
        return {
            spec.name: flat[place].reshape(spec.shape)
            for spec, place in zip(self.tensors, self.slices, strict=True)
        }

    def blocks(self, length: int) -> list[Block]:
        """The flat vector in blocks of `length` floats, the last one shorter."""
        found = [
            Block(slice(start, min(start + length, self.size)), [])
            for start in range(0, self.size, length)
        ]
        for tensor, place in enumerate(self.slices):
            for at, parts in found[place.start // length : -(-place.stop // length)]:
                start, stop = max(place.start, at.start), min(place.stop, at.stop)
                parts.append((tensor, slice(start - at.start, stop - at.start)))
        return found

    def check(self, flat: FloatArray) -> None:
        """ValueError unless `flat` is float32 [size]."""
        if flat.shape != (self.size,) or flat.dtype != np.float32:
            raise ValueError(
                f"fragment {self.index} is float32 [{self.size}], not {flat.dtype} {flat.shape}"
            )


@dataclass(frozen=True, slots=True)
class Layout:
    """All tensors of a model, divided into fragments; `fragments[i].index == i`."""

    fragments: tuple[Fragment, ...]

    @classmethod
    def balance(cls, specs: Sequence[TensorSpec], count: int) -> Self:
        """Divide `specs` into `count` fragments of about equal size.

        Largest tensor first, each into the smallest fragment so far; ties are broken by name and
        index, so the order of `specs` does not matter. ValueError if a fragment would be empty or a
        name occurs twice. Source: the Decoupled DiLoCo paper, arXiv 2604.21428.
        """
        _check_names(specs)
        if not 1 <= count <= len(specs):
            raise ValueError(
                f"{count} fragments of {len(specs)} whole tensors cannot be made: "
                f"use 1 to {len(specs)} fragments"
            )
        groups: list[list[TensorSpec]] = [[] for _ in range(count)]
        sizes = [0] * count
        for spec in sorted(specs, key=lambda spec: (-spec.size, spec.name)):
            smallest = sizes.index(min(sizes))
            groups[smallest].append(spec)
            sizes[smallest] += spec.size
        by_name = (tuple(sorted(group, key=lambda spec: spec.name)) for group in groups)
        return cls(tuple(Fragment(index, tensors) for index, tensors in enumerate(by_name)))


def fingerprint(specs: Sequence[TensorSpec]) -> str:
    """32 hex digits that are equal for equal specs, in any order."""
    ordered = sorted(specs, key=lambda spec: spec.name)
    return blake2b(specs_to_json(ordered).encode(), digest_size=16).hexdigest()


def specs_to_json(specs: Sequence[TensorSpec]) -> str:
    """`[{"name": …, "shape": […], "is_averaged": …}, …]`, compact, in the order given."""
    return json.dumps([asdict(spec) for spec in specs], separators=(",", ":"))


def specs_from_json(text: str | bytes) -> tuple[TensorSpec, ...]:
    """Read the output of `specs_to_json`. ValueError, and no other error, for anything else."""
    try:
        rows = json.loads(text)
    except RecursionError as error:
        raise ValueError("tensor specs are a flat list, not deeply nested JSON") from error
    if not isinstance(rows, list) or not 1 <= len(rows) <= TENSORS_MAX:
        raise ValueError(f"tensor specs are a JSON list of 1 to {TENSORS_MAX} objects")
    specs = tuple(_spec(row) for row in rows)
    _check_names(specs)
    return specs


def is_finite(flat: FloatArray) -> bool:
    """Whether float32 [n] contains neither NaN nor infinity."""
    block = 65_536  # floats; the flags of one block stay in cache
    if math.isfinite(squares(flat)):  # one pass; a sum of squares keeps NaN and infinity
        return True
    return all(
        bool(np.isfinite(flat[start : start + block]).all()) for start in range(0, flat.size, block)
    )


def squares(flat: FloatArray) -> float:
    """Sum of squares of float32 [n]. See `dot`."""
    return dot(flat, flat)


def dot(left: FloatArray, right: FloatArray) -> float:
    """Sum of products of float32 [n]: within a row in float32 by BLAS, over the rows in float64.

    Infinite or NaN if a value is, or if the products of a row exceed float32.
    """
    whole = left.size - left.size % _ROW
    rows, others = left[:whole].reshape(-1, _ROW), right[:whole].reshape(-1, _ROW)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.vecdot(rows, others).sum(dtype=np.float64)) + float(
            np.vecdot(left[whole:], right[whole:])
        )


def _spec(row: object) -> TensorSpec:
    if not isinstance(row, dict) or row.keys() != {"name", "shape", "is_averaged"}:
        raise ValueError(
            f"a tensor spec has exactly name, shape and is_averaged, not {str(row)[:200]}"
        )
    name, shape, is_averaged = row["name"], row["shape"], row["is_averaged"]
    if not isinstance(name, str) or not isinstance(is_averaged, bool):
        raise ValueError(f"a spec's name is text and is_averaged a boolean: {str(row)[:200]}")
    if not isinstance(shape, list) or not all(type(length) is int for length in shape):
        raise ValueError(f"a spec's shape is a list of integers: {str(row)[:200]}")
    return TensorSpec(name=name, shape=tuple(shape), is_averaged=is_averaged)


def _check_names(specs: Sequence[TensorSpec]) -> None:
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise ValueError(f"two tensors are called {spec.name!r}: names must be unique")
        seen.add(spec.name)
