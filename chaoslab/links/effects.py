"""What can be done to a link: frozen data in base units, checked when built.

    Latency, Bandwidth, Slice, LimitData        the stream arrives, but later, slower, in pieces
    Freeze, Blackhole, Refuse, Reset, HalfOpen  the stream stops, is lost, ends
    Loss, Duplicate, Reorder, Corrupt           packets below the stream suffer; TCP repairs it

An effect says what a link must be able to do for it (`needs`) and in which directions it can act
(`directions`). How it is done is each link's own business. Every error is a PlanError.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from chaoslab.core.errors import PlanError


class Direction(StrEnum):
    """Which way bytes travel: `up` from the learner to the syncer, `down` back, or both ways."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"

    @property
    def ways(self) -> "tuple[Direction, ...]":
        """The single directions in it."""
        return (Direction.UP, Direction.DOWN) if self is Direction.BOTH else (self,)


class LinkAbility(StrEnum):
    """What a kind of link may be able to do."""

    LATENCY = "latency"
    JITTER_SHAPES = "jitter shapes"
    """Jitter that is not uniform."""
    BANDWIDTH = "bandwidth"
    SHARED_BANDWIDTH = "shared bandwidth"
    """One rate for all connections of a link together."""
    BLACKHOLE = "blackhole"
    REFUSE = "refuse"
    FREEZE = "freeze"
    RESET = "reset"
    RESET_OPEN = "reset open connections"
    """A real RST on connections that are open; without it they end with a FIN."""
    SLICE = "slice"
    LIMIT_DATA = "limit data"
    HALF_OPEN = "half open"
    LOSS = "loss"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    CORRUPT = "corrupt"
    COUNTERS = "counters"
    """Bytes are counted while connections are open."""


class JitterShape(StrEnum):
    """How delays spread around their mean."""

    UNIFORM = "uniform"
    """Evenly in mean ± jitter, as Toxiproxy does."""
    NORMAL = "normal"
    """`jitter` is the standard deviation; what falls below zero becomes zero."""
    LOGNORMAL = "lognormal"
    """`jitter` is the standard deviation."""
    PARETO = "pareto"
    """`jitter` is the standard deviation; the tail is a power law."""


class Per(StrEnum):
    """What a rate is the rate of."""

    LINK = "link"
    """All connections of the link together, each direction for itself."""
    CONNECTION = "connection"


def _set(*abilities: LinkAbility) -> frozenset[LinkAbility]:
    return frozenset(abilities)


class _Effect:
    """What holds for most effects."""

    __slots__ = ()
    kind: ClassVar[str]
    directions: ClassVar[frozenset[Direction]] = frozenset(Direction)
    is_act: ClassVar[bool] = False
    """It is done at once and leaves nothing to clear."""
    ability: ClassVar[LinkAbility]

    @property
    def needs(self) -> frozenset[LinkAbility]:
        """What a link must be able to do for it."""
        return _set(self.ability)


# ---------------------------------------------------------------- the stream suffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(_Effect):
    """Every byte arrives later; order stays. One way: a round trip takes the sum of both ways.

    A chunk never overtakes an earlier one, so with jitter and dense traffic the mean delay is
    above `mean_s`.
    """

    mean_s: float
    jitter_s: float = 0.0
    """Half the width of the uniform shape, the standard deviation of the others."""
    shape: JitterShape = JitterShape.UNIFORM

    kind: ClassVar[str] = "latency"
    ability: ClassVar[LinkAbility] = LinkAbility.LATENCY

    def __post_init__(self) -> None:
        if not 0 <= self.mean_s <= _LATENCY_S_MAX or not 0 <= self.jitter_s <= _LATENCY_S_MAX:
            raise PlanError(f"a latency and its jitter lie between 0s and {_LATENCY_S_MAX:g}s")
        if self.jitter_s > self.mean_s:
            raise PlanError(
                f"a jitter of {self.jitter_s:g}s around a latency of {self.mean_s:g}s would need "
                "bytes that arrive before they are sent: use a jitter of at most the latency"
            )

    @property
    def needs(self) -> frozenset[LinkAbility]:
        """Shapes other than uniform are an ability of their own."""
        is_plain = self.shape is JitterShape.UNIFORM or not self.jitter_s
        return _set(self.ability) | (_set() if is_plain else _set(LinkAbility.JITTER_SHAPES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(_Effect):
    """At most so many bytes of the stream per second and direction; the sender is held back."""

    rate_bytes_per_s: float
    per: Per = Per.LINK
    """A kind of link without SHARED_BANDWIDTH limits each connection, and says so (`caveats`)."""

    kind: ClassVar[str] = "bandwidth"
    ability: ClassVar[LinkAbility] = LinkAbility.BANDWIDTH

    def __post_init__(self) -> None:
        if not _RATE_MIN <= self.rate_bytes_per_s <= _RATE_MAX:
            raise PlanError(
                f"a rate of {self.rate_bytes_per_s:g} B/s cannot be kept: use 100B/s to 100GB/s, "
                "or freeze the link"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(_Effect):
    """The stream arrives in pieces of at most `size_bytes`, `delay_s` apart."""

    size_bytes: int
    delay_s: float = 0.0

    kind: ClassVar[str] = "slice"
    ability: ClassVar[LinkAbility] = LinkAbility.SLICE

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise PlanError("a slice has at least 1B")
        if not 0 <= self.delay_s <= _LATENCY_S_MAX:
            raise PlanError(f"the delay between slices lies between 0s and {_LATENCY_S_MAX:g}s")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitData(_Effect):
    """A connection ends once it has carried so many bytes this way, counted from the injection."""

    size_bytes: int

    kind: ClassVar[str] = "limit_data"
    ability: ClassVar[LinkAbility] = LinkAbility.LIMIT_DATA

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise PlanError("a limit of data is at least 1B: to let nothing through, refuse")


# ---------------------------------------------------------------- the stream stops


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze(_Effect):
    """Nothing moves and nothing is lost: after the heal the stream goes on where it stood."""

    kind: ClassVar[str] = "freeze"
    ability: ClassVar[LinkAbility] = LinkAbility.FREEZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackhole(_Effect):
    """Bytes vanish. Connections open and stay silent; the heal ends those that were open.

    They cannot go on: their stream has a hole.
    """

    kind: ClassVar[str] = "blackhole"
    ability: ClassVar[LinkAbility] = LinkAbility.BLACKHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(_Effect):
    """Open connections end and new ones are refused, as if nobody listened."""

    kind: ClassVar[str] = "refuse"
    ability: ClassVar[LinkAbility] = LinkAbility.REFUSE
    directions: ClassVar[frozenset[Direction]] = frozenset({Direction.BOTH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(_Effect):
    """Open connections break off at once; new ones are let in. Done when `shape` returns."""

    kind: ClassVar[str] = "reset"
    ability: ClassVar[LinkAbility] = LinkAbility.RESET
    directions: ClassVar[frozenset[Direction]] = frozenset({Direction.BOTH})
    is_act: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen(_Effect):
    """Open connections lose one end and the other is not told; new ones work. The heal tells it.

    `up`: the learner's end breaks and the syncer keeps a silent connection. `down`: the syncer's
    end breaks and the learner keeps one. `both`: the middle forgot it and both ends keep theirs.
    """

    kind: ClassVar[str] = "half_open"
    ability: ClassVar[LinkAbility] = LinkAbility.HALF_OPEN


# ---------------------------------------------------------------- packets suffer


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPackets(_Effect):
    """Something that happens to a share of the packets, each for itself, by chance."""

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise PlanError(f"a share of packets lies above 0% and below 100%, not {self.share:%}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(_OfPackets):
    """A share of the packets is dropped below TCP, which sends them again."""

    kind: ClassVar[str] = "loss"
    ability: ClassVar[LinkAbility] = LinkAbility.LOSS


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(_OfPackets):
    """A share of the packets arrives twice."""

    kind: ClassVar[str] = "duplicate"
    ability: ClassVar[LinkAbility] = LinkAbility.DUPLICATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder(_OfPackets):
    """A share of the packets overtakes the others, which are `delay_s` late."""

    delay_s: float = 0.01

    kind: ClassVar[str] = "reorder"
    ability: ClassVar[LinkAbility] = LinkAbility.REORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt(_OfPackets):
    """A share of the packets has one bit flipped, which the checksum notices."""

    kind: ClassVar[str] = "corrupt"
    ability: ClassVar[LinkAbility] = LinkAbility.CORRUPT


PacketEffect: TypeAlias = Loss | Duplicate | Reorder | Corrupt
StreamEffect: TypeAlias = (
    Latency | Bandwidth | Slice | LimitData | Freeze | Blackhole | Refuse | Reset | HalfOpen
)
Effect: TypeAlias = StreamEffect | PacketEffect

_LATENCY_S_MAX = 600.0
_RATE_MIN, _RATE_MAX = 100.0, 1e11
