"""What a toxic does to one direction of one connection: when bytes may go on, or that they may not.

    pump ── size ──► stage.pass_at(size, arrives_s) ──► next stage … ──► release time of the chunk

A stage has no socket and reads no clock: times are arguments, in seconds of the event loop. Chance
comes from a `random.Random` that was seeded for this connection, direction and toxic alone.
"""

import math
import random
from collections.abc import Callable
from typing import Final

CHUNK_BYTES_MAX: Final = 256 << 10
CHUNK_BYTES_MIN: Final = 512
_PACE_S = 0.01
"""A rate is kept in chunks of about this time, so that a change of it shows soon."""


class Stage:
    """Lets everything through at once; the others say where they differ."""

    holds = False
    """Nothing moves, nothing is lost."""
    loses = False
    """What comes is thrown away."""
    chunk_bytes = CHUNK_BYTES_MAX
    """Larger chunks are cut."""
    paces = False
    """The sender is held back until its chunk has left this stage."""
    bytes_left: int | None = None
    """The connection ends after so many bytes more."""
    delay_s = 0.0
    """About how long bytes stay in it; when it shrinks, what is on its way is hurried up."""
    close_delay_s = 0.0
    """How much later than the last byte the end of the stream is told."""

    def pass_at(self, size: int, arrives_s: float) -> float:  # noqa: ARG002 - the others' signature
        """When `size` bytes that arrive at `arrives_s` have left it."""
        return arrives_s


class Hold(Stage):
    """Freeze."""

    holds = True


class Lose(Stage):
    """Blackhole."""

    loses = True


class Delay(Stage):
    """Every chunk is late by a draw of its own."""

    def __init__(self, draw: Callable[[], float], mean_s: float) -> None:
        self._draw = draw
        self.delay_s = mean_s

    def pass_at(self, size: int, arrives_s: float) -> float:  # noqa: ARG002 - the others' signature
        """Later by the next draw, whatever the size."""
        return arrives_s + self._draw()


class Limiter:
    """A rate, and until when it is taken. Several connections may share one: first come, first."""

    def __init__(self, rate_bytes_per_s: float) -> None:
        self.rate_bytes_per_s = rate_bytes_per_s
        self._free_s = -math.inf

    def reserve(self, size: int, from_s: float) -> float:
        """Take the next free time for `size` bytes, not before `from_s`; returns its end."""
        self._free_s = max(self._free_s, from_s) + size / self.rate_bytes_per_s
        return self._free_s


class Pace(Stage):
    """At most the limiter's rate."""

    paces = True

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        chunk = int(limiter.rate_bytes_per_s * _PACE_S)
        self.chunk_bytes = min(max(chunk, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)

    def pass_at(self, size: int, arrives_s: float) -> float:
        """The end of the time that the limiter grants."""
        return self._limiter.reserve(size, arrives_s)


class Cut(Stage):
    """Pieces of about `size` ± `variation` bytes, `gap_s` apart."""

    paces = True

    def __init__(self, size: int, variation: int, gap_s: float, chance: random.Random) -> None:
        self._size, self._variation, self._gap_s = size, variation, gap_s
        self._chance = chance
        self._next_s = -math.inf
        self.chunk_bytes = self._draw()

    def pass_at(self, size: int, arrives_s: float) -> float:  # noqa: ARG002 - the others' signature
        """Not before the gap after the piece before it."""
        leaves_s = max(arrives_s, self._next_s)
        self._next_s = leaves_s + self._gap_s
        self.chunk_bytes = self._draw()
        return leaves_s

    def _draw(self) -> int:
        spread = self._chance.randint(-self._variation, self._variation) if self._variation else 0
        return min(max(1, self._size + spread), CHUNK_BYTES_MAX)


class Limit(Stage):
    """So many bytes and no more."""

    def __init__(self, size: int) -> None:
        self.bytes_left: int = size

    def pass_at(self, size: int, arrives_s: float) -> float:
        """Count them."""
        self.bytes_left -= size
        return arrives_s


class SlowClose(Stage):
    """The end of the stream is told late."""

    def __init__(self, delay_s: float) -> None:
        self.close_delay_s = delay_s


# ---------------------------------------------------------------- chance


def delays(
    mean_s: float, jitter_s: float, shape: str, chance: random.Random
) -> Callable[[], float]:
    """Draws of a delay in seconds, at least 0, with the mean given.

    uniform: mean ± jitter. The others have `jitter_s` as standard deviation: normal (what falls
    below 0 becomes 0); lognormal by s² = ln(1 + cv²), m = ln(mean) - s²/2; pareto (type I) by
    a = 1 + sqrt(1 + 1/cv²), minimum mean (a - 1)/a, with cv = jitter/mean. The last two follow from
    the distributions' first two moments.
    """
    if not jitter_s:
        return lambda: mean_s
    variation = jitter_s / mean_s
    if shape == "normal":
        return lambda: max(0.0, chance.gauss(mean_s, jitter_s))
    if shape == "lognormal":
        variance = math.log1p(variation**2)
        centre, sigma = math.log(mean_s) - variance / 2, math.sqrt(variance)
        return lambda: chance.lognormvariate(centre, sigma)
    if shape == "pareto":
        tail = 1 + math.sqrt(1 + 1 / variation**2)
        least_s = mean_s * (tail - 1) / tail
        return lambda: least_s * chance.paretovariate(tail)
    return lambda: chance.uniform(mean_s - jitter_s, mean_s + jitter_s)
