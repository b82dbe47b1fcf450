"""Effects on a link: frozen data in base units, validated when created.

    Latency, Bandwidth, Slice, LimitData        the stream is delayed, limited or cut into pieces
    Freeze, Blackhole, Refuse, Reset, HalfOpen  the stream stops, is lost, ends
    Loss, Duplicate, Reorder, Corrupt           packets below the stream; TCP repairs it

An effect states the abilities that a link needs for it (`needs`) and the directions in which it can
act (`directions`). Each kind of link implements it in its own way. Every error is a PlanError.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from chaoslab.core.errors import PlanError


class Direction(StrEnum):
    """Direction of bytes: `up` from the learner to the syncer, `down` back, or both."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"

    @property
    def ways(self) -> "tuple[Direction, ...]":
        """The single directions that it includes."""
        return (Direction.UP, Direction.DOWN) if self is Direction.BOTH else (self,)


class LinkAbility(StrEnum):
    """Ability that a kind of link may have."""

    LATENCY = "latency"
    JITTER_SHAPES = "jitter shapes"
    """Distributions of jitter other than uniform."""
    BANDWIDTH = "bandwidth"
    SHARED_BANDWIDTH = "shared bandwidth"
    """One limit for all connections of a link together."""
    BLACKHOLE = "blackhole"
    REFUSE = "refuse"
    FREEZE = "freeze"
    RESET = "reset"
    RESET_OPEN = "reset open connections"
    """A RST on open connections; without it they end with a FIN."""
    SLICE = "slice"
    LIMIT_DATA = "limit data"
    HALF_OPEN = "half open"
    LOSS = "loss"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    CORRUPT = "corrupt"


class JitterShape(StrEnum):
    """Distribution of delays around their mean."""

    UNIFORM = "uniform"
    """Uniform in mean ± jitter, as in Toxiproxy."""
    NORMAL = "normal"
    """`jitter` is the standard deviation; values below zero become zero."""
    LOGNORMAL = "lognormal"
    """`jitter` is the standard deviation."""
    PARETO = "pareto"
    """`jitter` is the standard deviation; the tail is a power law."""


class Per(StrEnum):
    """Scope of a rate."""

    LINK = "link"
    """All connections of the link together, each direction separately."""
    CONNECTION = "connection"


class _Effect:
    """Defaults of most effects."""

    __slots__ = ()
    kind: ClassVar[str]
    directions: ClassVar[frozenset[Direction]] = frozenset(Direction)

    @property
    def needs(self) -> frozenset[LinkAbility]:
        """Abilities that a link needs for it: the one that is called as it is."""
        return frozenset({LinkAbility[self.kind.upper()]})


# ---------------------------------------------------------------- effects on the stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(_Effect):
    """Every byte is delayed; the order is kept. One way: a round trip takes the sum of both ways.

    A chunk never overtakes an earlier one, so with jitter and dense traffic the mean delay is above
    `mean_s`.
    """

    mean_s: float
    jitter_s: float = 0.0
    """Half the width of the uniform distribution, the standard deviation of the others."""
    shape: JitterShape = JitterShape.UNIFORM

    kind: ClassVar[str] = "latency"

    def __post_init__(self) -> None:
        if not 0 <= self.mean_s <= _LATENCY_S_MAX or not 0 <= self.jitter_s <= _LATENCY_S_MAX:
            raise PlanError(f"latency and jitter: must be between 0s and {_LATENCY_S_MAX:g}s")
        if self.jitter_s > self.mean_s:
            raise PlanError(
                f"jitter: must be at most the latency of {self.mean_s:g}s, got {self.jitter_s:g}s; "
                "bytes cannot arrive before they are sent"
            )

    @property
    def needs(self) -> frozenset[LinkAbility]:
        """Distributions other than uniform are a separate ability."""
        is_plain = self.shape is JitterShape.UNIFORM or not self.jitter_s
        extra = () if is_plain else (LinkAbility.JITTER_SHAPES,)
        return frozenset({LinkAbility.LATENCY, *extra})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(_Effect):
    """Limit of the stream in bytes per second and direction; the sender is slowed."""

    rate_bytes_per_s: float
    per: Per = Per.LINK
    """Links without SHARED_BANDWIDTH limit each connection, and say so (`caveats`)."""

    kind: ClassVar[str] = "bandwidth"

    def __post_init__(self) -> None:
        if not _RATE_MIN <= self.rate_bytes_per_s <= _RATE_MAX:
            raise PlanError(
                f"rate: must be 100B/s to 100GB/s, got {self.rate_bytes_per_s:g} B/s; to stop all "
                "traffic, freeze the link"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(_Effect):
    """The stream is delivered in pieces of at most `size_bytes`, `delay_s` apart."""

    size_bytes: int
    delay_s: float = 0.0

    kind: ClassVar[str] = "slice"

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise PlanError("slice: must be at least 1B")
        if not 0 <= self.delay_s <= _LATENCY_S_MAX:
            raise PlanError(f"delay between slices: must be 0s to {_LATENCY_S_MAX:g}s")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitData(_Effect):
    """A connection ends after this many bytes in this direction, counted from the injection."""

    size_bytes: int

    kind: ClassVar[str] = "limit_data"

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise PlanError("limit of data: must be at least 1B; to let nothing through, refuse")


# ---------------------------------------------------------------- interruptions of the stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze(_Effect):
    """Nothing is delivered and nothing is lost; after the heal the stream continues."""

    kind: ClassVar[str] = "freeze"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackhole(_Effect):
    """Bytes are lost. Connections are accepted and stay silent; the heal ends the open ones.

    Those cannot continue, because bytes of their stream are missing.
    """

    kind: ClassVar[str] = "blackhole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(_Effect):
    """Open connections end and new ones are refused, as without a listener."""

    kind: ClassVar[str] = "refuse"
    directions: ClassVar[frozenset[Direction]] = frozenset({Direction.BOTH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(_Effect):
    """Open connections are reset; new ones are accepted. Done when `shape` returns."""

    kind: ClassVar[str] = "reset"
    directions: ClassVar[frozenset[Direction]] = frozenset({Direction.BOTH})


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen(_Effect):
    """Open connections lose one end without notice to the other; new ones work. The heal notifies.

    `up`: the learner's end is closed, the syncer keeps a silent connection. `down`: the syncer's
    end is closed, the learner keeps one. `both`: the path forgot it and both ends keep theirs.
    """

    kind: ClassVar[str] = "half_open"


# ---------------------------------------------------------------- effects on packets


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPackets(_Effect):
    """An effect on a random share of the packets."""

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise PlanError(f"share: must be above 0% and below 100%, got {self.share:%}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(_OfPackets):
    """A share of the packets is dropped below TCP, which retransmits them."""

    kind: ClassVar[str] = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(_OfPackets):
    """A share of the packets arrives twice."""

    kind: ClassVar[str] = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder(_OfPackets):
    """A share of the packets overtakes the others, which are delayed by `delay_s`."""

    delay_s: float = 0.01

    kind: ClassVar[str] = "reorder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt(_OfPackets):
    """One bit is flipped in a share of the packets, which the checksum detects."""

    kind: ClassVar[str] = "corrupt"


PacketEffect: TypeAlias = Loss | Duplicate | Reorder | Corrupt
Effect: TypeAlias = (
    Latency | Bandwidth | Slice | LimitData | Freeze | Blackhole | Refuse | Reset | HalfOpen
    | PacketEffect
)  # fmt: skip
Shaping: TypeAlias = tuple[Direction, Effect]
"""An effect, and the direction in which it acts."""

_LATENCY_S_MAX = 600.0
_RATE_MIN, _RATE_MAX = 100.0, 1e11
