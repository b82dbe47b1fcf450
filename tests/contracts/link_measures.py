"""What is asked of a link and what arrives: the measured half of the kit.

    Measure: asked 40 ms ─ shape ─► link ─ receiver ─► measured 40.4 ms, 37 to 43 ms: ok

A busy machine adds to delays and takes from rates, so most are bounded on the other side alone, and
constant delays by the fastest message. It is measured up to three times; it holds if one of them is
within its bounds. All of them are shown when none is.
"""

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from chaoslab.links.base import Link, Links, require
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Direction,
    Effect,
    Freeze,
    JitterShape,
    Latency,
    LimitData,
    LinkAbility,
    Loss,
    Per,
    Slice,
)
from tests.contracts.link_stage import (
    Pair,
    Upstream,
    fastest_delay_s,
    is_silent,
    one_way_delays_s,
    receive,
    sending,
    together,
    transfer,
)

TRIES = 3
UP, DOWN, BOTH = Direction.UP, Direction.DOWN, Direction.BOTH
_INJECTION = "injection-0"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Links, entered, and where they lead."""

    links: Links
    upstream: Upstream
    link: Link

    def connect(self) -> Pair:
        """A new connection through the link."""
        return self.upstream.connect(self.link)


def stage_of(links: Links, upstream: Upstream) -> Stage:
    """A stage with one link."""
    link = links.create("learner-0", upstream.address)
    return Stage(links=links, upstream=upstream, link=link)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is asked for, and how what arrives is measured."""

    name: str
    direction: Direction
    effect: Effect
    at_least: float
    at_most: float = math.inf
    take: Callable[[Pair], float]
    needs: frozenset[LinkAbility] = frozenset()
    """Abilities beside the effect's own."""

    def once(self, stage: Stage) -> float:
        """Shape, measure on a new connection, clear."""
        stage.link.shape(_INJECTION, self.direction, self.effect)
        pair = stage.connect()
        try:
            return self.take(pair)
        finally:
            pair.close()
            stage.link.clear(_INJECTION)

    def missing(self, links: Links) -> frozenset[LinkAbility]:
        """What these links lack for it."""
        return (self.effect.needs | self.needs) - links.abilities

    def holds(self, measured: float) -> bool:
        """Whether that is near enough."""
        return self.at_least <= measured <= self.at_most


def take(measure: Measure, stage: Stage) -> list[float]:
    """What was measured, in up to three tries; AbilityError if these links cannot."""
    require(stage.links, measure.direction, measure.effect)
    measured: list[float] = []
    while len(measured) < TRIES and not (measured and measure.holds(measured[-1])):
        measured.append(measure.once(stage))
    return measured


# ---------------------------------------------------------------- how it is measured


def delay_ms(pair: Pair, *, way: Direction) -> float:
    """The shortest one-way delay."""
    return 1e3 * fastest_delay_s(pair, way)


def mean_delay_ms(pair: Pair, *, way: Direction, count: int) -> float:
    """The mean of many."""
    return 1e3 * statistics.fmean(one_way_delays_s(pair, way, count))


def spread_ms(pair: Pair, *, way: Direction, count: int) -> float:
    """Their standard deviation."""
    return 1e3 * statistics.stdev(one_way_delays_s(pair, way, count))


def rate_mb_per_s(pair: Pair, *, way: Direction, size: int) -> float:
    """Of a transfer, from its first byte to its last."""
    return transfer(pair, way, size).bytes_per_s / 1e6


def gap_ms(pair: Pair, *, way: Direction) -> float:
    """Mean time between two pieces."""
    arrived = transfer(pair, way, 40_000)
    return 1e3 * arrived.seconds / max(1, len(arrived.pieces) - 1)


def beyond(pair: Pair, *, way: Direction, size: int) -> float:
    """By how much most pieces are larger than that; a late reader finds a few in one."""
    return max(0.0, statistics.median(transfer(pair, way, 20_000).pieces) - size)


def bytes_until_the_end(pair: Pair, *, way: Direction) -> float:
    """What arrives of more than is allowed."""
    sender, receiver = pair.ends(way)
    with sending(sender, 1_000_000):
        return float(receive(receiver, 1_000_000).size)


def silence_s(pair: Pair, *, way: Direction) -> float:
    """1 if nothing of what is sent arrives in half a second, 0 otherwise."""
    sender, receiver = pair.ends(way)
    sender.sendall(b"x" * 1000)
    return float(is_silent(receiver, 0.5))


# ---------------------------------------------------------------- what needs more than a pair


def shared_rate_mb_per_s(stage: Stage, per: Per, *, connections: int = 4) -> float:
    """Of several connections together, at 4 MB/s."""
    stage.link.shape(_INJECTION, UP, Bandwidth(rate_bytes_per_s=4e6, per=per))
    pairs = [stage.connect() for _ in range(connections)]
    try:
        return together(pairs, UP, 1_000_000 if per is Per.LINK else 4_000_000) / 1e6
    finally:
        for pair in pairs:
            pair.close()
        stage.link.clear(_INJECTION)


def dropped_share(
    stage: Stage, way: Direction, share: float, size: int = 30_000_000
) -> tuple[float, bool]:
    """What share the kernel says it dropped, and whether the stream arrived all the same."""
    before = stage.link.counters()
    stage.link.shape(_INJECTION, way, Loss(share=share))
    pair = stage.connect()
    try:
        arrived = transfer(pair, way, size)
    finally:
        pair.close()
        stage.link.clear(_INJECTION)
    after = stage.link.counters()
    packets = (after.packets or 0) - (before.packets or 0)
    dropped = (after.dropped or 0) - (before.dropped or 0)
    return dropped / max(1, packets), arrived.size == size


# ---------------------------------------------------------------- all of them


def measures() -> Iterator[Measure]:
    """Every effect on the stream, in both directions."""
    for way in (UP, DOWN):
        yield from _delays(way)
        yield from _rates(way)
        yield from _pieces(way)
        for effect in (Freeze(), Blackhole()):
            yield Measure(
                name=effect.kind, direction=way, effect=effect, at_least=1.0,
                take=partial(silence_s, way=way),
            )  # fmt: skip


def _delays(way: Direction) -> Iterator[Measure]:
    other = DOWN if way is UP else UP
    for mean_ms in (5, 40):
        yield Measure(
            name=f"latency {mean_ms}ms", direction=way, effect=Latency(mean_s=mean_ms / 1e3),
            at_least=mean_ms - 3, at_most=mean_ms + 3, take=partial(delay_ms, way=way),
        )  # fmt: skip
    yield Measure(
        name=f"latency 40ms, seen {other}", direction=way, effect=Latency(mean_s=0.04),
        at_least=0.0, at_most=3.0, take=partial(delay_ms, way=other),
    )  # fmt: skip
    uniform = Latency(mean_s=0.02, jitter_s=0.015)
    yield Measure(
        name="latency 20ms, jitter 15ms: fastest", direction=way, effect=uniform, at_least=4.0,
        at_most=12.0, take=partial(delay_ms, way=way),
    )  # fmt: skip
    yield Measure(
        name="latency 20ms, jitter 15ms: deviation", direction=way, effect=uniform,
        at_least=15 / 3**0.5 - 3, take=partial(spread_ms, way=way, count=60),
    )  # fmt: skip
    for shape in (JitterShape.NORMAL, JitterShape.LOGNORMAL, JitterShape.PARETO):
        yield Measure(
            name=f"latency 20ms, jitter 5ms, {shape}: mean", direction=way,
            effect=Latency(mean_s=0.02, jitter_s=0.005, shape=shape), at_least=16.0,
            take=partial(mean_delay_ms, way=way, count=60),
        )  # fmt: skip


def _rates(way: Direction) -> Iterator[Measure]:
    for mb_per_s, at_least in ((0.5, 0.25), (5.0, 2.5), (40.0, 0.0)):
        yield Measure(
            name=f"bandwidth {mb_per_s:g}MB/s", direction=way,
            effect=Bandwidth(rate_bytes_per_s=1e6 * mb_per_s, per=Per.CONNECTION),
            at_least=at_least, at_most=1.15 * mb_per_s,
            take=partial(rate_mb_per_s, way=way, size=int(0.8e6 * mb_per_s)),
        )  # fmt: skip


def _pieces(way: Direction) -> Iterator[Measure]:
    sliced = Slice(size_bytes=1000, delay_s=0.005)
    yield Measure(
        name="slice 1kB every 5ms: gap", direction=way, effect=sliced, at_least=2.5,
        take=partial(gap_ms, way=way),
    )  # fmt: skip
    yield Measure(
        name="slice 1kB every 5ms: larger pieces", direction=way, effect=sliced,
        at_least=0.0, at_most=3000.0, take=partial(beyond, way=way, size=1000),
    )  # fmt: skip
    yield Measure(
        name="limit_data 100kB", direction=way, effect=LimitData(size_bytes=100_000),
        at_least=100_000, at_most=100_000, take=partial(bytes_until_the_end, way=way),
    )  # fmt: skip
