"""Accelerator types: chips and hosts of a slice, from names such as v5litepod-16.

The number in a name counts cores for v2 to v5p and chips for v5e and v6e. Sizes, and how many chips
a host has, are from Google's description: cloud.google.com/tpu/docs/v5e (and v4, v5p, v6e), for v2
and v3 cloud.google.com/tpu/docs/regions-zones. v4 and v5p are cubes of 64 chips: from one on, every
whole number of cubes is accepted here, and Google says which of them it can connect.
"""

import re
from dataclasses import dataclass

from chaoslab.core.errors import PlanError

_CUBE_CORES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A generation of TPUs, by the first part of its accelerator types."""

    name: str
    """Name in labels: v5e, v6e."""
    sizes: tuple[int, ...]
    """The numbers that its types have."""
    cubes: int = 0
    """Further sizes are up to this many whole cubes."""
    cores_per_count: int
    """Divisor of the number in a type that gives chips."""
    single_host_chips: int
    """Most chips on a single host; larger slices have hosts of four."""

    def has(self, size: int) -> bool:
        """Whether there is a type with this number."""
        cubes, rest = divmod(size, _CUBE_CORES)
        return size in self.sizes or (rest == 0 and 0 < cubes <= self.cubes)

    def told(self, prefix: str) -> str:
        """Its types, as text."""
        types = ", ".join(f"{prefix}-{size}" for size in self.sizes)
        if not self.cubes:
            return types
        largest = f"{prefix}-{self.cubes * _CUBE_CORES}"
        return f"{types}, or a multiple of {_CUBE_CORES} up to {largest}"


_CHIPS = (1, 4, 8, 16, 32, 64, 128, 256)
_BELOW_A_CUBE = (8, 16, 32, 64)
_GENERATIONS = {
    "v2": Generation(
        name="v2", sizes=(8, 32, 128, 256, 512), cores_per_count=2, single_host_chips=4
    ),
    "v3": Generation(
        name="v3",
        sizes=(8, 32, 64, 128, 256, 512, 1024, 2048),
        cores_per_count=2,
        single_host_chips=4,
    ),
    "v4": Generation(
        name="v4", sizes=_BELOW_A_CUBE, cubes=64, cores_per_count=2, single_host_chips=4
    ),
    "v5litepod": Generation(name="v5e", sizes=_CHIPS, cores_per_count=1, single_host_chips=8),
    "v5p": Generation(
        name="v5p", sizes=_BELOW_A_CUBE, cubes=96, cores_per_count=2, single_host_chips=4
    ),
    "v6e": Generation(name="v6e", sizes=_CHIPS, cores_per_count=1, single_host_chips=8),
}
_CHIPS_PER_HOST = 4
_TYPE = re.compile(r"([a-z0-9]+)-([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """An accelerator type."""

    type: str
    generation: str
    chips: int
    hosts: int


def accelerator(type_: str) -> Accelerator:
    """Accelerator of a type. PlanError if it is not known."""
    found = _TYPE.fullmatch(type_)
    generation = _GENERATIONS.get(found[1]) if found else None
    if found is None or generation is None:
        known = ", ".join(_GENERATIONS)
        raise PlanError(
            f"must be an accelerator type such as v5litepod-16 (generations: {known}), "
            f"got {type_!r}",
            key="type",
        )
    if not generation.has(size := int(found[2])):
        raise PlanError(f"must be one of {generation.told(found[1])}, got {type_!r}", key="type")
    chips = size // generation.cores_per_count
    is_single = chips <= generation.single_host_chips
    hosts = 1 if is_single else chips // _CHIPS_PER_HOST
    return Accelerator(type=type_, generation=generation.name, chips=chips, hosts=hosts)
