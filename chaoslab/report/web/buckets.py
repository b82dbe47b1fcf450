"""Samples of a run in buckets of time: curves of bounded size that keep their peaks.

    ·  · ··   ·  ·     samples
    |  |  |  |  |  |   Grid: buckets of equal width; too many of them ─► pairs join, twice as wide
    Curve: lowest, mean and highest of each bucket · Total: a running sum · Marks: whether any came

All series of a `Grid` have its buckets, so they can be compared bucket by bucket at any time.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from chaoslab.core.events import Json

_FIRST_WIDTH_S = 0.25


class Grid:
    """The buckets that some series share: at most `most`, whatever the length of the run."""

    def __init__(self, most: int) -> None:
        self.width_s = _FIRST_WIDTH_S
        self.count = 0
        """Buckets from the beginning of the run to the latest sample."""
        self._most = most
        self._series: list[Curve | Total | Marks] = []

    def hold(self, series: "Curve | Total | Marks") -> None:
        """Widen this series, too, when the buckets widen."""
        self._series.append(series)

    def bucket(self, time_s: float) -> int:
        """The bucket of a time; before that, all buckets widen if it lies beyond the last."""
        found = int(time_s / self.width_s)
        if 0 <= found < self.count:
            return found
        return self._beyond(max(0.0, time_s))

    def _beyond(self, time_s: float) -> int:
        while time_s >= self._most * self.width_s:
            self.width_s *= 2
            self.count = (self.count + 1) // 2
            for series in self._series:
                series.widen()
        found = int(time_s / self.width_s)
        self.count = max(self.count, found + 1)
        return found


class Curve:
    """Lowest, highest and mean value of each bucket. Values that are not finite are left out."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.buckets: dict[int, list[float]] = {}
        """Lowest, highest, sum and number of the values."""
        grid.hold(self)

    def add(self, time_s: float, value: float) -> None:
        """One sample."""
        if not math.isfinite(value):
            return
        at = int(time_s / self.grid.width_s)
        if not 0 <= at < self.grid.count:
            at = self.grid.bucket(time_s)
        held = self.buckets.get(at)
        if held is None:
            self.buckets[at] = [value, value, value, 1]
            return
        if value < held[0]:
            held[0] = value
        elif value > held[1]:
            held[1] = value
        held[2] += value
        held[3] += 1

    def widen(self) -> None:
        """Join pairs of buckets."""
        old, self.buckets = self.buckets, {}
        for at, bucket in old.items():
            self.join(at // 2, bucket)

    def join(self, at: int, bucket: Sequence[float]) -> None:
        """Take the samples of another bucket into one of these."""
        low, high, total, number = bucket
        a, b, c, n = self.buckets.get(at, (low, high, 0.0, 0))
        self.buckets[at] = [min(a, low), max(b, high), c + total, n + number]

    def range_json(self) -> Mapping[str, Json]:
        """Lowest and highest of each bucket; null where there was no sample."""
        return together([self], has_mean=False)


def together(curves: Iterable[Curve], *, has_mean: bool = True) -> Mapping[str, Json]:
    """Several curves of one grid as one: lowest, highest and mean over all their samples."""
    whole: Curve | None = None
    for curve in curves:
        whole = whole or Curve(Grid(1))
        whole.grid = curve.grid
        for at, bucket in curve.buckets.items():
            whole.join(at, bucket)
    if whole is None or not whole.buckets:
        return {}
    found = [whole.buckets.get(at) for at in range(max(whole.buckets) + 1)]
    said: dict[str, Json] = {
        "low": [one and digits(one[0], 3) for one in found],
        "high": [one and digits(one[1], 3) for one in found],
    }
    if has_mean:
        said["mean"] = [one and digits(one[2] / one[3]) for one in found]
    return said


class Total:
    """A sum that only grows, as it stood at the end of each bucket."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._added: dict[int, float] = {}
        grid.hold(self)

    def add(self, time_s: float, amount: float) -> None:
        """More of it."""
        at = self._grid.bucket(time_s)
        self._added[at] = self._added.get(at, 0.0) + amount

    def widen(self) -> None:
        """Join pairs of buckets."""
        old, self._added = self._added, {}
        for at, amount in old.items():
            self._added[at // 2] = self._added.get(at // 2, 0.0) + amount

    def rates(self, over_s: float) -> Sequence[Json]:
        """Mean rate per second around each bucket over about this long, up to the last addition."""
        width_s, count = self._grid.width_s, max(self._added, default=-1) + 1
        reach = max(0, round((over_s / width_s - 1) / 2))
        sums = [0.0]
        for at in range(count):
            sums.append(sums[-1] + self._added.get(at, 0.0))
        found: list[Json] = []
        for at in range(count):
            first, last = max(0, at - reach), min(count, at + reach + 1)
            found.append(digits((sums[last] - sums[first]) / ((last - first) * width_s)))
        return found


class Marks:
    """In which buckets something happened."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._buckets: set[int] = set()
        grid.hold(self)

    def add(self, time_s: float) -> None:
        """It happened."""
        self._buckets.add(self._grid.bucket(time_s))

    def widen(self) -> None:
        """Join pairs of buckets."""
        self._buckets = {at // 2 for at in self._buckets}

    def to_json(self) -> Json:
        """First bucket and length of each unbroken stretch of them, one after the other."""
        stretches: list[int] = []
        for at in sorted(self._buckets):
            if stretches and stretches[-2] + stretches[-1] == at:
                stretches[-1] += 1
            else:
                stretches += [at, 1]
        return stretches


def digits(value: float, significant: int = 4) -> float | int:
    """A number as short as a drawing of it needs: 75854.8 ─► 75850, 0.0123456 ─► 0.01235."""
    if value == 0 or not math.isfinite(value):
        return 0
    rounded = round(value, significant - 1 - math.floor(math.log10(abs(value))))
    return int(rounded) if rounded == int(rounded) else rounded
