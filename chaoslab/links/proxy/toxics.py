"""The kinds of toxic: their attributes as Toxiproxy names them, and what each does.

    {"type": "latency", "stream": "upstream", "attributes": {"latency": 80}} ─ read_toxic ─► Toxic
    Toxic ─ stage(way, chance) ──► what happens to one direction of one connection

A kind's fields are its attributes, in Toxiproxy's units (milliseconds, KB/s, microseconds), so one
strict decoder serves all. Beyond Toxiproxy: `freeze`, `half_open`, the stream `both`, latency with
`shape` and `seed`, bandwidth `per` link, and fractions where Toxiproxy takes whole numbers only.
"""

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import ClassVar, Final, TypeAlias

from chaoslab.links.proxy import stages
from chaoslab.links.proxy.stages import Limiter, Stage

UP, DOWN = "upstream", "downstream"
STREAMS: Final = MappingProxyType({UP: (UP,), DOWN: (DOWN,), "both": (UP, DOWN)})
Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | float | int | bool | None"
_LONGEST: Final = 1e9
"""Milliseconds: eleven days, for what is meant to hold everything back."""
_RULE: Final = "rule"
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


class Refused(Exception):
    """A request that cannot be carried out; the text says what would be right."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


# ---------------------------------------------------------------- attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What an attribute may be: one of some words, or a number within bounds."""

    words: tuple[str, ...] = ()
    least: float = 0.0
    most: float = _LONGEST
    is_whole: bool = False


def _number(*, most: float = _LONGEST) -> float:
    return field(default=0.0, metadata={_RULE: _Rule(most=most)})


def _whole(default: int, *, least: int = 0) -> int:
    rule = _Rule(least=least, most=1 << 62, is_whole=True)
    return field(default=default, metadata={_RULE: rule})


def _word(*words: str) -> str:
    return field(default=words[0], metadata={_RULE: _Rule(words=words)})


class Kind:
    """A kind of toxic; instances are frozen dataclasses of its attributes."""

    __slots__ = ()
    kind: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Kind):
    """Milliseconds; see `stages.delays` for the shapes of jitter."""

    latency: float = _number()
    jitter: float = _number()
    shape: str = _word("uniform", "normal", "lognormal", "pareto")
    seed: int = _whole(0)

    kind: ClassVar[str] = "latency"

    def __post_init__(self) -> None:
        if self.jitter > self.latency:
            raise Refused(f"jitter {self.jitter:g} is more than latency {self.latency:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(Kind):
    """KB/s, a KB being 1000 B. 0 freezes, as in Toxiproxy."""

    rate: float = _number(most=1e8)
    per: str = _word("connection", "link")

    kind: ClassVar[str] = "bandwidth"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClose(Kind):
    """Milliseconds by which the end of the stream is late."""

    delay: float = _number()

    kind: ClassVar[str] = "slow_close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout(Kind):
    """Everything is lost. Connections end after so many milliseconds; with 0, at the removal."""

    timeout: float = _number()

    kind: ClassVar[str] = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPeer(Kind):
    """Connections, open ones and new ones, break off with a RST after so many milliseconds."""

    timeout: float = _number()

    kind: ClassVar[str] = "reset_peer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicer(Kind):
    """Pieces of so many bytes, and microseconds between two."""

    average_size: int = _whole(1460, least=1)
    size_variation: int = _whole(0)
    delay: float = _number(most=1e3 * _LONGEST)

    kind: ClassVar[str] = "slicer"

    def __post_init__(self) -> None:
        if self.size_variation >= self.average_size:
            raise Refused(
                f"size_variation {self.size_variation} is not less than average_size "
                f"{self.average_size}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitData(Kind):
    """A connection ends after so many bytes."""

    bytes: int = _whole(1, least=1)

    kind: ClassVar[str] = "limit_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze(Kind):
    """Nothing moves, nothing is lost."""

    kind: ClassVar[str] = "freeze"


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen(Kind):
    """Open connections lose one end (`both`: the middle) and the other is not told."""

    kind: ClassVar[str] = "half_open"


AnyKind: TypeAlias = (
    Latency | Bandwidth | SlowClose | Timeout | ResetPeer | Slicer | LimitData | Freeze | HalfOpen
)
KINDS: Mapping[str, type[AnyKind]] = MappingProxyType(
    {
        one.kind: one
        for one in (
            Latency, Bandwidth, SlowClose, Timeout, ResetPeer, Slicer, LimitData, Freeze, HalfOpen,
        )
    }
)  # fmt: skip


# ---------------------------------------------------------------- effects


def stage_of(kind: AnyKind, limiter: Limiter | None, chance: random.Random) -> Stage | None:
    """What it does to one direction of one connection; None if bytes pass as ever."""
    match kind:
        case Latency():
            mean_s, jitter_s = kind.latency / 1e3, kind.jitter / 1e3
            return stages.Delay(stages.delays(mean_s, jitter_s, kind.shape, chance), mean_s)
        case Freeze() | Bandwidth(rate=0):
            return stages.Hold()
        case Bandwidth():
            return stages.Pace(limiter or Limiter(1e3 * kind.rate))
        case Timeout():
            return stages.Lose()
        case Slicer():
            gap_s = kind.delay / 1e6
            return stages.Cut(kind.average_size, kind.size_variation, gap_s, chance)
        case LimitData():
            return stages.Limit(kind.bytes)
        case SlowClose():
            return stages.SlowClose(kind.delay / 1e3)
        case ResetPeer() | HalfOpen():
            return None


class Toxic:
    """One toxic on a link: its name, where it acts, and its kind."""

    def __init__(self, name: str, stream: str, kind: AnyKind) -> None:
        self.name = name
        self.ways = STREAMS[stream]
        """`upstream`, `downstream`, or both."""
        self._stream = stream
        self._changes = -1
        self.change(kind)

    def change(self, kind: AnyKind) -> None:
        """Other attributes from now on: what counts or draws begins anew."""
        self.kind = kind
        self._changes += 1
        self._limiters: dict[str, Limiter] = {}
        if isinstance(kind, Bandwidth) and kind.per == "link" and kind.rate:
            self._limiters = {way: Limiter(1e3 * kind.rate) for way in self.ways}

    def stage(self, way: str, link: str, connection: int) -> Stage | None:
        """For one direction of one connection. Its chance is its own, and the seed's."""
        seed = self.kind.seed if isinstance(self.kind, Latency) else 0
        chance = random.Random(f"{seed}/{link}/{self.name}/{self._changes}/{way}/{connection}")
        return stage_of(self.kind, self._limiters.get(way), chance)

    def to_json(self) -> dict[str, Json]:
        """As Toxiproxy writes it."""
        return {
            "name": self.name,
            "type": self.kind.kind,
            "stream": self._stream,
            "toxicity": 1.0,
            "attributes": asdict(self.kind),
        }


# ---------------------------------------------------------------- reading


def read_toxic(body: Mapping[str, Json]) -> Toxic:
    """A new toxic; Refused says what is wrong with it."""
    only(body, ("name", "type", "stream", "toxicity", "attributes"), "a toxic")
    kind = _one_of(body.get("type"), KINDS, "type")
    stream = _one_of(body.get("stream", DOWN), STREAMS, "stream")
    name = body.get("name", f"{kind}_{stream}")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused(f"{name!r} names no toxic: use letters, digits and . _ - only")
    _require_certain(body)
    return Toxic(name, stream, _read_kind(KINDS[kind], {}, body))


def changed(toxic: Toxic, body: Mapping[str, Json]) -> AnyKind:
    """Its kind with some attributes changed; the rest of a toxic cannot change."""
    only(body, ("toxicity", "attributes"), "an update of a toxic")
    _require_certain(body)
    return _read_kind(type(toxic.kind), asdict(toxic.kind), body)


def only(body: Mapping[str, Json], keys: Iterable[str], what: str) -> None:
    """Refuse keys that nobody would read."""
    known = tuple(keys)
    for key in body:
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise Refused(f"{what} has no attribute {key!r}{_nearest(key, known)}; {has}")


def _read_kind(kind: type[AnyKind], given: Mapping[str, Json], body: Mapping[str, Json]) -> AnyKind:
    attributes = body.get("attributes", {})
    if not isinstance(attributes, Mapping):
        raise Refused(f"attributes are an object, not {attributes!r}")
    rules: dict[str, _Rule] = {one.name: one.metadata[_RULE] for one in fields(kind)}
    only(attributes, rules, kind.kind)
    for key, value in attributes.items():
        _check(f"{kind.kind}.{key}", value, rules[key])
    make: Callable[..., AnyKind] = kind
    return make(**{**given, **attributes})


def _check(what: str, value: Json, rule: _Rule) -> None:
    if rule.words:
        _one_of(value, rule.words, what)
        return
    wanted = "a whole number" if rule.is_whole else "a number"
    if isinstance(value, bool) or not isinstance(value, int if rule.is_whole else int | float):
        raise Refused(f"{what} is {wanted}, not {value!r}")
    if not rule.least <= value <= rule.most:
        raise Refused(f"{what} lies between {rule.least:g} and {rule.most:g}, not at {value!r}")


def _one_of(value: Json, words: Iterable[str], what: str) -> str:
    if isinstance(value, str) and value in words:
        return value
    known = tuple(words)
    raise Refused(f"no {what} is called {value!r}{_nearest(str(value), known)}; use {_or(known)}")


def _require_certain(body: Mapping[str, Json]) -> None:
    if body.get("toxicity", 1) != 1:
        raise Refused(
            "toxicity is 1: whom a fault hits is settled before it begins, not drawn for each "
            "connection; leave it out"
        )


def _nearest(word: str, known: tuple[str, ...]) -> str:
    found = get_close_matches(word, known, n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _or(words: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
