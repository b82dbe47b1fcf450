"""Toxics: kinds with their attributes as Toxiproxy names them, and their stages.

    {"type": "latency", "stream": "upstream", "attributes": {"latency": 80}} ─ read_toxic ─► Toxic
    Toxic ─ stage(way, chance) ──► stage for one direction of one connection

A kind's fields are its attributes, in Toxiproxy's units (milliseconds, KB/s, microseconds), so one
strict decoder serves all. Beyond Toxiproxy: `freeze`, `half_open`, the stream `both`, latency with
`shape` and `seed`, bandwidth `per` link, and fractions where Toxiproxy takes whole numbers only. An
attribute beyond Toxiproxy's is shown only if it was set, so that Toxiproxy's clients see what they
know.
"""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Set
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
"""Largest time in ms, eleven days: holds everything back."""
_RULE: Final = "rule"
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


class Refused(Exception):
    """A request that is refused; the text says what would be valid."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


# ---------------------------------------------------------------- attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Allowed values of an attribute: one of some words, or a number within bounds."""

    words: tuple[str, ...] = ()
    least: float = 0.0
    most: float = _LONGEST
    is_whole: bool = False
    is_extra: bool = False
    """Whether it is an attribute that Toxiproxy lacks."""


def _number(*, most: float = _LONGEST) -> float:
    return field(default=0.0, metadata={_RULE: _Rule(most=most)})


def _whole(default: int, *, least: int = 0, is_extra: bool = False) -> int:
    rule = _Rule(least=least, most=1 << 62, is_whole=True, is_extra=is_extra)
    return field(default=default, metadata={_RULE: rule})


def _word(*words: str) -> str:
    return field(default=words[0], metadata={_RULE: _Rule(words=words, is_extra=True)})


class Kind:
    """A kind of toxic; instances are frozen dataclasses of its attributes."""

    __slots__ = ()
    kind: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Kind):
    """Delay in ms; see `stages.delays` for the distributions of jitter."""

    latency: float = _number()
    jitter: float = _number()
    shape: str = _word("uniform", "normal", "lognormal", "pareto")
    seed: int = _whole(0, is_extra=True)

    kind: ClassVar[str] = "latency"

    def __post_init__(self) -> None:
        if self.jitter > self.latency:
            raise Refused(f"jitter {self.jitter:g} is more than latency {self.latency:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(Kind):
    """Rate in KB/s, a KB being 1000 B. 0 freezes, as in Toxiproxy."""

    rate: float = _number(most=1e8)
    per: str = _word("connection", "link")

    kind: ClassVar[str] = "bandwidth"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClose(Kind):
    """Delay in ms of the end of the stream."""

    delay: float = _number()

    kind: ClassVar[str] = "slow_close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout(Kind):
    """Everything is lost. Connections end after this many ms; with 0, when the toxic is removed."""

    timeout: float = _number()

    kind: ClassVar[str] = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPeer(Kind):
    """Open and new connections are reset (RST) after this many ms."""

    timeout: float = _number()

    kind: ClassVar[str] = "reset_peer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicer(Kind):
    """Pieces of `average_size` bytes, `delay` microseconds apart."""

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
    """A connection ends after this many bytes."""

    bytes: int = _whole(1, least=1)

    kind: ClassVar[str] = "limit_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze(Kind):
    """Nothing passes, nothing is lost."""

    kind: ClassVar[str] = "freeze"


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen(Kind):
    """Open connections lose one end (`both`: the path) and the other is not told."""

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


# ---------------------------------------------------------------- stages


def stage_of(kind: AnyKind, limiter: Limiter | None, chance: random.Random) -> Stage | None:
    """Stage of a toxic in one direction of one connection; None if bytes pass unchanged."""
    match kind:
        case Latency():
            mean_s, jitter_s = kind.latency / 1e3, kind.jitter / 1e3
            return stages.Delay(stages.delays(mean_s, jitter_s, kind.shape, chance), mean_s)
        case Freeze() | Bandwidth(rate=0):
            return stages.Freeze()
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

    def __init__(
        self, name: str, stream: str, kind: AnyKind, *, toxicity: float = 1.0, named: Set[str]
    ) -> None:
        """`toxicity`: share of connections that it acts on. `named`: attributes that were set."""
        self.name = name
        self.stream = stream
        self.ways = STREAMS[stream]
        """Directions: `upstream`, `downstream`, or both."""
        self._named: Set[str] = frozenset()
        self._changes = -1
        self.change(Change(kind=kind, toxicity=toxicity, named=named))

    def change(self, change: "Change") -> None:
        """Apply a change; counters and random draws begin anew."""
        kind = self.kind = change.kind
        self.toxicity = change.toxicity
        self._named |= change.named
        self._changes += 1
        self._limiters: dict[str, Limiter] = {}
        if isinstance(kind, Bandwidth) and kind.per == "link" and kind.rate:
            self._limiters = {way: Limiter(1e3 * kind.rate) for way in self.ways}

    def hits(self, link: str, connection: int) -> bool:
        """Whether it acts on this connection: drawn once, and again after a change."""
        return self.toxicity >= 1 or self._chance("", link, connection).random() < self.toxicity

    def stage(self, way: str, link: str, connection: int) -> Stage | None:
        """Stage for one direction of one connection, with its own random numbers."""
        return stage_of(self.kind, self._limiters.get(way), self._chance(way, link, connection))

    def _chance(self, way: str, link: str, connection: int) -> random.Random:
        seed = self.kind.seed if isinstance(self.kind, Latency) else 0
        return random.Random(f"{seed}/{link}/{self.name}/{self._changes}/{way}/{connection}")

    def to_json(self) -> dict[str, Json]:
        """The toxic in Toxiproxy's JSON."""
        return {
            "name": self.name,
            "type": self.kind.kind,
            "stream": self.stream,
            "toxicity": self.toxicity,
            "attributes": {
                key: value
                for key, value in asdict(self.kind).items()
                if key in self._named or not _rules(type(self.kind))[key].is_extra
            },
        }


# ---------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Changed state of a toxic. `named`: the attributes that the request set."""

    kind: AnyKind
    toxicity: float
    named: Set[str]


def read_toxic(body: Mapping[str, Json]) -> Toxic:
    """A new toxic, named `latency_downstream` by default; Refused says what is wrong."""
    only(body, ("name", "type", "stream", "toxicity", "attributes"), "a toxic")
    kind = _one_of(body.get("type"), KINDS, "type")
    stream = _one_of(body.get("stream") or DOWN, STREAMS, "stream")
    name = body.get("name") or f"{kind}_{stream}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused(f"name: must consist of letters, digits and . _ -, got {name!r}")
    attributes = _attributes(body)
    return Toxic(
        name,
        stream,
        _read_kind(KINDS[kind], {}, attributes),
        toxicity=_toxicity(body, 1.0),
        named=attributes.keys(),
    )


def changed(toxic: Toxic, body: Mapping[str, Json]) -> Change:
    """The toxic with some attributes changed; name, type and stream stay."""
    only(body, ("toxicity", "attributes"), "an update of a toxic")
    attributes = _attributes(body)
    return Change(
        kind=_read_kind(type(toxic.kind), asdict(toxic.kind), attributes),
        toxicity=_toxicity(body, toxic.toxicity),
        named=attributes.keys(),
    )


def only(body: Mapping[str, Json], keys: Iterable[str], what: str) -> None:
    """Refused for keys of `body` that are not in `keys`."""
    known = tuple(keys)
    for key in body:
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise Refused(f"{what} has no attribute {key!r}{_nearest(key, known)}; {has}")


def _attributes(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """Attributes of a request; a client in Go sends null for none."""
    attributes = body.get("attributes")
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise Refused(f"attributes: must be an object, got {attributes!r}")
    return attributes


def _rules(kind: type[AnyKind]) -> Mapping[str, _Rule]:
    return {one.name: one.metadata[_RULE] for one in fields(kind)}


def _read_kind(
    kind: type[AnyKind], now: Mapping[str, Json], attributes: Mapping[str, Json]
) -> AnyKind:
    rules = _rules(kind)
    only(attributes, rules, kind.kind)
    for key, value in attributes.items():
        _check(f"{kind.kind}.{key}", value, rules[key])
    make: Callable[..., AnyKind] = kind
    return make(**{**now, **attributes})


def _check(what: str, value: Json, rule: _Rule) -> None:
    if rule.words:
        _one_of(value, rule.words, what)
        return
    wanted = "a whole number" if rule.is_whole else "a number"
    if isinstance(value, bool) or not isinstance(value, int if rule.is_whole else int | float):
        raise Refused(f"{what}: must be {wanted}, got {value!r}")
    if not rule.least <= value <= rule.most:
        raise Refused(f"{what}: must be {rule.least:g} to {rule.most:g}, got {value!r}")


def _one_of(value: Json, words: Iterable[str], what: str) -> str:
    if isinstance(value, str) and value in words:
        return value
    known = tuple(words)
    raise Refused(f"{what}: must be {_or(known)}, got {value!r}{_nearest(str(value), known)}")


def _toxicity(body: Mapping[str, Json], now: float) -> float:
    value = body.get("toxicity", now)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Refused(f"toxicity: must be 0 to 1, a share of the connections, got {value!r}")
    return float(value)


def _nearest(word: str, known: tuple[str, ...]) -> str:
    found = get_close_matches(word, known, n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _or(words: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
