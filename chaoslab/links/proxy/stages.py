"""Stages: what a toxic does to the bytes of one direction of one connection.

    pump ── size ──► stage.pass_at(size, arrives_s) ──► next stage … ──► release time of the chunk

A stage has no socket and reads no clock: times are arguments, in seconds of the event loop. Random
numbers come from a `random.Random` seeded for this connection, direction and toxic.
"""

import math
import random
from collections.abc import Callable
from typing import Final

CHUNK_BYTES_MAX: Final = 256 << 10
CHUNK_BYTES_MIN: Final = 512
_PACE_S = 0.01
"""Chunks of a paced stream last about this long, in s, so that a new rate takes effect soon."""


class Stage:
    """Passes everything at once; subclasses override what differs."""

    freezes = False
    """Nothing passes and nothing is lost."""
    loses = False
    """Bytes are accepted and discarded."""
    chunk_bytes = CHUNK_BYTES_MAX
    """Largest chunk, in bytes; larger ones are cut."""
    paces = False
    """The sender waits until its chunk has left this stage."""
    bytes_left: int | None = None
    """Bytes until the connection ends; None: no limit."""
    delay_s = 0.0
    """Typical delay; when it shrinks, bytes in transit are advanced."""
    close_delay_s = 0.0
    """Delay of the end of the stream after the last byte."""

    def pass_at(self, size: int, arrives_s: float) -> float:  # noqa: ARG002 - the others' signature
        """Time at which `size` bytes that arrive at `arrives_s` leave the stage."""
        return arrives_s


class Freeze(Stage):
    """Freeze: nothing passes, nothing is lost."""

    freezes = True


class Lose(Stage):
    """Blackhole: bytes are discarded."""

    loses = True


class Delay(Stage):
    """Delay of every chunk by a random draw."""

    def __init__(self, draw: Callable[[], float], mean_s: float) -> None:
        self._draw = draw
        self.delay_s = mean_s

    def pass_at(self, size: int, arrives_s: float) -> float:  # noqa: ARG002 - the others' signature
        """Arrival plus the next draw, independent of the size."""
        return arrives_s + self._draw()


class Limiter:
    """A rate, and the time until which it is used up. Shared by connections in order of arrival."""

    def __init__(self, rate_bytes_per_s: float) -> None:
        self.rate_bytes_per_s = rate_bytes_per_s
        self._free_s = -math.inf

    def reserve(self, size: int, from_s: float) -> float:
        """Reserve the next free time for `size` bytes, not before `from_s`; return its end."""
        self._free_s = max(self._free_s, from_s) + size / self.rate_bytes_per_s
        return self._free_s


class Pace(Stage):
    """Limit to the rate of the limiter."""

    paces = True

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        chunk = int(limiter.rate_bytes_per_s * _PACE_S)
        self.chunk_bytes = min(max(chunk, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)

    def pass_at(self, size: int, arrives_s: float) -> float:
        """End of the time that the limiter reserves."""
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
        """Earliest time: the gap after the previous piece."""
        leaves_s = max(arrives_s, self._next_s)
        self._next_s = leaves_s + self._gap_s
        self.chunk_bytes = self._draw()
        return leaves_s

    def _draw(self) -> int:
        spread = self._chance.randint(-self._variation, self._variation) if self._variation else 0
        return min(max(1, self._size + spread), CHUNK_BYTES_MAX)


class Limit(Stage):
    """A limited number of bytes, after which the connection ends."""

    def __init__(self, size: int) -> None:
        self.bytes_left: int = size

    def pass_at(self, size: int, arrives_s: float) -> float:
        """Arrival; the bytes are deducted from the limit."""
        self.bytes_left -= size
        return arrives_s


class SlowClose(Stage):
    """Delay of the end of the stream."""

    def __init__(self, delay_s: float) -> None:
        self.close_delay_s = delay_s


# ---------------------------------------------------------------- random delays


def delays(
    mean_s: float, jitter_s: float, shape: str, chance: random.Random
) -> Callable[[], float]:
    """Random delays in seconds, at least 0, with the mean given.

    uniform: mean ± jitter. The others have `jitter_s` as standard deviation: normal (values below 0
    become 0); lognormal by s² = ln(1 + cv²), m = ln(mean) - s²/2; pareto (type I) by
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
