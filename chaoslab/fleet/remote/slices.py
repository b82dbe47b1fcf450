"""Slices in an inventory: what to create for a learner, on which chips, and how often to repair it.

    learners:
      learner-0: {tpu: {type: v5litepod-16, runtime: v2-alpha-tpuv5-lite, zone: us-east5-b}}
    repair: {preemptions: 10, failures: 3, wait: 30m}

Names and labels go to Google's API and into names of resources, so each is checked by the form
that Google documents for it; none reaches a shell but `startup`, which is a script.

The number in a type counts cores for v2 to v5p and chips for v5e and v6e. Sizes, and how many chips
a host has, are from Google's description: cloud.google.com/tpu/docs/v5e (and v4, v5p, v6e), for v2
and v3 cloud.google.com/tpu/docs/regions-zones. v4 and v5p are cubes of 64 chips: from one on, every
whole number of cubes is accepted here, and Google says which of them it can connect.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration

OWN: Final = "chaoslab"
"""Labels that begin with this are chaoslab's own."""
PROJECT: Final = re.compile(r"[a-z][a-z0-9.:-]{4,61}[a-z0-9]")
FLEET_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
PUBLIC_KEY: Final = re.compile(r"[a-z_][a-z0-9_-]*:[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( [^\n]*)?")
_ZONE: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z][a-z0-9]*")
_RUNTIME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_NETWORK: Final = re.compile(r"[a-z0-9][a-z0-9./-]{0,200}")
_LABEL_KEY: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}")
_LIBRARY: Final = re.compile(r"[A-Za-z0-9][^\n]*")
_TYPE: Final = re.compile(r"([a-z0-9]+)-([1-9][0-9]{0,5})")


def require_form(pattern: "re.Pattern[str]", text: str, key: str, example: str) -> None:
    """PlanError if a text does not match, or has another end of a line in it."""
    if not (pattern.fullmatch(text) and text.isprintable()):
        raise PlanError(f"must be like {example}, got {text!r}", key=key)


def is_here(endpoint: str) -> bool:
    """Whether this is the host:port of a server on this machine."""
    host, _, port = endpoint.rpartition(":")
    try:
        return ip_address(host).is_loopback and 0 < int(port) < 2**16
    except ValueError:
        return False


# ---------------------------------------------------------------- chips


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """An accelerator type."""

    generation: str
    """Name in labels: v5e, v6e."""
    chips: int
    hosts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Generation:
    """A generation of TPUs, by the first part of its accelerator types."""

    name: str
    sizes: tuple[int, ...]
    """The numbers that its types have."""
    cores_per_count: int = 2
    """Divisor of the number in a type that gives chips."""
    single_host_chips: int = 4
    """Most chips on a single host; larger slices have hosts of four."""


_CHIPS: Final = (1, 4, 8, 16, 32, 64, 128, 256)
_BELOW_A_CUBE: Final = (8, 16, 32, 64)
_GENERATIONS: Final = {
    "v2": _Generation(name="v2", sizes=(8, 32, 128, 256, 512)),
    "v3": _Generation(name="v3", sizes=(8, 32, 64, 128, 256, 512, 1024, 2048)),
    "v4": _Generation(name="v4", sizes=(*_BELOW_A_CUBE, *range(128, 64 * 128 + 1, 128))),
    "v5litepod": _Generation(name="v5e", sizes=_CHIPS, cores_per_count=1, single_host_chips=8),
    "v5p": _Generation(name="v5p", sizes=(*_BELOW_A_CUBE, *range(128, 96 * 128 + 1, 128))),
    "v6e": _Generation(name="v6e", sizes=_CHIPS, cores_per_count=1, single_host_chips=8),
}
_CHIPS_PER_HOST: Final = 4


def accelerator(type_: str) -> Accelerator:
    """Accelerator of a type such as v5litepod-16. PlanError if it is not known."""
    found = _TYPE.fullmatch(type_)
    generation = _GENERATIONS.get(found[1]) if found else None
    if found is None or generation is None:
        raise PlanError(
            "must be an accelerator type such as v5litepod-16 (generations: "
            f"{', '.join(_GENERATIONS)}), got {type_!r}",
            key="type",
        )
    size = int(found[2])
    if size not in generation.sizes:
        near = sorted(sorted(generation.sizes, key=lambda one: abs(one - size))[:4])
        told = ", ".join(f"{found[1]}-{one}" for one in near)
        raise PlanError(f"must be a size that there is, such as {told}, got {type_!r}", key="type")
    chips = size // generation.cores_per_count
    hosts = 1 if chips <= generation.single_host_chips else chips // _CHIPS_PER_HOST
    return Accelerator(generation=generation.name, chips=chips, hosts=hosts)


# ---------------------------------------------------------------- entries


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuEntry:
    """A Cloud TPU slice to create for a learner."""

    type: str = field(metadata={"example": "v5litepod-16"})
    """Accelerator type; its hosts are those of the learner."""
    runtime: str = field(metadata={"example": "v2-alpha-tpuv5-lite"})
    """Runtime version: the image of its hosts."""
    zone: str = field(metadata={"example": "us-east5-b"})
    """Zone in which it is created."""
    spot: bool = False
    """Spot capacity: cheaper, and taken away when others need it."""
    network: str = ""
    """VPC network; empty: default."""
    subnetwork: str = ""
    """Subnetwork; empty: default."""
    external_ips: bool = False
    """Whether its hosts get external addresses, to which learners connect then."""
    labels: Mapping[str, str] = field(
        default_factory=dict, metadata={"example": "{team: research}"}
    )
    """Labels beside those of chaoslab."""
    reservation: str = ""
    """Name of a reservation to take it from."""
    startup: str = ""
    """Script that each of its hosts runs as root when it boots, such as one that installs Python
    3.11; it is part of the request."""
    libraries: tuple[str, ...] = ("jax[tpu]",)
    """Requirements of its hosts beside chaoslab's own, as lines of a requirements file."""

    def __post_init__(self) -> None:
        accelerator(self.type)
        require_form(_RUNTIME, self.runtime, "runtime", "v2-alpha-tpuv5-lite")
        require_form(_ZONE, self.zone, "zone", "us-east5-b")
        for key in ("network", "subnetwork", "reservation"):
            if getattr(self, key):
                require_form(_NETWORK, getattr(self, key), key, "my-network")
        for key, value in self.labels.items():
            require_form(_LABEL_KEY, key, "labels", "team: research")
            require_form(_LABEL_VALUE, value, "labels", "team: research")
            if key.startswith(OWN):
                raise PlanError(
                    f"labels that begin with {OWN} are its own, got {key}", key="labels"
                )
        for library in self.libraries:
            require_form(_LIBRARY, library, "libraries", "jax[tpu]")
        if self.spot and self.reservation:
            raise PlanError("spot capacity is not taken from a reservation: leave one of them out")

    @property
    def accelerator(self) -> Accelerator:
        """Its chips and hosts."""
        return accelerator(self.type)

    @property
    def region(self) -> str:
        """us-east5 for us-east5-b."""
        return self.zone.rpartition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairLimits:
    """How often the slices of a fleet are replaced, and for how long that is waited for.

    Preemptions and failures are counted apart: the crashes of a bad host would otherwise be
    repaired for as long as a busy zone is.
    """

    preemptions: int = 100
    """Slices, for each learner, that are replaced after a preemption."""
    failures: int = 3
    """Slices, for each learner, that are replaced after a failure: of the slice, or of its learner
    before it has made a step there."""
    wait_s: Duration = 1800.0
    """Longest wait for one slice, in the queue and until it is up."""
    probation_s: Duration = 300.0
    """How long a learner has for its first step on a new slice, before that counts as a failure."""

    def __post_init__(self) -> None:
        for key in ("preemptions", "failures"):
            if getattr(self, key) < 0:
                raise PlanError(f"must be at least 0, got {getattr(self, key)}", key=key)
        for key in ("wait_s", "probation_s"):
            if getattr(self, key) <= 0:
                raise PlanError("must be above 0s", key=key.removesuffix("_s"))
