"""Samples of a run over time, and the curves of bounded size that reports draw of them.

    event ─► Samples.see ─► (time, value), … ─┬─► thinned: fewer, with every peak and dip
                                              ├─► ranges: lowest, highest, mean of each bucket
    when something came ──────────────────────┼─► stretches: of buckets in which any came
    what was added when ──────────────────────┴─► rates: around each bucket

Buckets have equal widths, and begin with the run. All times are in seconds of the run's clock.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, groupby, pairwise
from typing import Any, ClassVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind

Sample = tuple[float, float]
"""Time in seconds, and value."""
Curves = defaultdict[str, list[Sample]]
"""Samples by node, link or other part."""
COUNTS = ("members", "alive", "stepping", "contributing")
"""Four different numbers of learners, equal only while all is well."""
RATE_OVER_S = 5.0
"""Seconds over which tokens per second are averaged."""
_FIRST_WIDTH_S = 0.25


class Samples:
    """The samples of one run."""

    def __init__(self) -> None:
        self.learners = Curves(list)
        """Number of learners over time, by each of `COUNTS`."""
        self.losses, self.step_ms = Curves(list), Curves(list)
        """Curves of each learner."""
        self.cores = Curves(list)
        self.rates: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
        """Payload rates in kB/s, by link and direction, while payloads arrived."""
        self.round_trips_ms = Curves(list)
        """Round trips by link."""
        self.trained: list[Sample] = []
        """Tokens that learners report to have trained on since they reported last."""
        self.committed: list[Sample] = []
        """Committed tokens of each merged round."""
        self.committed_in_all: list[Sample] = []
        self.evaluations: list[Sample] = []
        """Loss on held-out data, by committed tokens."""
        self.contributed: defaultdict[str, list[float]] = defaultdict(list)
        self.adopted: defaultdict[str, list[float]] = defaultdict(list)
        """Times, by learner."""
        self.abandoned: list[float] = []
        """Times of rounds that were."""
        self._before: defaultdict[tuple[str, int], float] = defaultdict(float)
        self._rounds: set[int] = set()

    def see(self, event: Event) -> None:
        """Take one event in; MalformedEvent if its data is broken."""
        if fold := self._FOLDS.get(event.kind):
            fold(self, event)

    def forget(self, before_s: float) -> None:
        """Leave out what is older; of committed tokens the last total stays."""
        timed = (self.learners, self.losses, self.step_ms, self.cores, self.round_trips_ms)
        curves = [*chain.from_iterable(one.values() for one in timed), *self.rates.values()]
        for curve in (*curves, self.trained, self.committed):
            del curve[: bisect_left(curve, (before_s,))]
        for times_s in (*self.contributed.values(), *self.adopted.values(), self.abandoned):
            del times_s[: bisect_left(times_s, before_s)]
        totals = self.committed_in_all
        del totals[: min(len(totals) - 1, bisect_left(totals, (before_s,)))]

    @property
    def gaps(self) -> list[Sample]:
        """Time between each merged round and the one before it."""
        times_s = [time_s for time_s, _ in self.committed]
        return [(to_s, max(0.0, to_s - from_s)) for from_s, to_s in pairwise(times_s)]

    @property
    def evaluated(self) -> list[tuple[float, float, float]]:
        """Time of the merge, loss and committed tokens of each evaluation, which says no time."""
        totals = [total for _, total in self.committed_in_all]
        found = []
        for tokens, loss in self.evaluations:
            reached = bisect_left(totals, tokens - 1)  # rounded by one
            if math.isfinite(loss) and tokens and reached < len(totals):
                found.append((self.committed_in_all[reached][0], loss, tokens))
        return found

    def _counted(self, event: Event[payloads.CountsSampled]) -> None:
        for name in COUNTS:
            self.learners[name].append((event.time_s, getattr(event.payload, name)))

    def _machine(self, event: Event[payloads.MachineSampled]) -> None:
        self.cores["idle"].append((event.time_s, event.payload.idle_cores))
        self.cores["used by others"].append((event.time_s, event.payload.others_cores))

    def _step(self, event: Event[payloads.LearnerStep]) -> None:
        said = event.payload
        self.trained.append((event.time_s, said.tokens - self._before[said.life]))
        self._before[said.life] = said.tokens
        if said.loss is not None:
            self.losses[said.learner].append((event.time_s, said.loss))
        if said.steps:  # the last report of a life may have none, and so no step time
            self.step_ms[said.learner].append((event.time_s, 1000 * said.step_s))

    def _merged(self, event: Event[payloads.RoundMerged]) -> None:
        said = event.payload
        for contributor in said.contributors:
            self.contributed[contributor.learner].append(event.time_s)
        if said.is_restated and said.round in self._rounds:
            return
        self._rounds.add(said.round)
        before = self.committed_in_all[-1][1] if self.committed_in_all else 0.0
        self.committed.append((event.time_s, max(0.0, said.committed_tokens - before)))
        self.committed_in_all.append((event.time_s, max(before, said.committed_tokens)))

    def _abandoned(self, event: Event[payloads.RoundAbandoned]) -> None:
        self.abandoned.append(event.time_s)

    def _adopted(self, event: Event[payloads.LearnerAdopted]) -> None:
        self.adopted[event.payload.learner].append(event.time_s)

    def _evaluation(self, event: Event[payloads.EvaluationMeasured]) -> None:
        self.evaluations.append((event.payload.committed_tokens, event.payload.loss))

    def _link(self, event: Event[payloads.LinkMeasured]) -> None:
        said = event.payload
        if said.bytes_per_s is not None:
            self.rates[said.learner, said.direction].append((event.time_s, said.bytes_per_s / 1000))
        delay_s = said.rtt_s if said.probe_rtt_s is None else said.probe_rtt_s
        if delay_s is not None and said.direction == "down":
            self.round_trips_ms[said.learner].append((event.time_s, 1000 * delay_s))

    _FOLDS: ClassVar[Mapping[Kind, Callable[["Samples", Event[Any]], None]]] = {
        Kind.COUNTS_SAMPLED: _counted,
        Kind.MACHINE_SAMPLED: _machine,
        Kind.LEARNER_STEP: _step,
        Kind.ROUND_MERGED: _merged,
        Kind.ROUND_ABANDONED: _abandoned,
        Kind.LEARNER_ADOPTED: _adopted,
        Kind.EVALUATION_MEASURED: _evaluation,
        Kind.LINK_MEASURED: _link,
    }


# ---------------------------------------------------------------- fewer samples


def thinned(samples: Sequence[Sample], most: int) -> Sequence[Sample]:
    """At most this many of the finite samples, in order; every peak and dip is among them."""
    samples = [one for one in samples if math.isfinite(one[1])]
    if len(samples) <= most:
        return samples
    began_s, ended_s = samples[0][0], samples[-1][0]
    width_s = (ended_s - began_s) / (most // 2 - 1)
    if width_s <= 0:
        return samples[:most]
    kept: list[Sample] = []
    for _, group in groupby(samples, key=lambda sample: int((sample[0] - began_s) / width_s)):
        stretch = list(group)
        kept += sorted({min(stretch, key=_value), max(stretch, key=_value)})
    return kept


def every(count: int, most: int) -> int:
    """Stride at which at most this many slices are drawn; 1 draws all."""
    return max(1, -(-count // most))


def _value(sample: Sample) -> float:
    return sample[1]


# ---------------------------------------------------------------- buckets of time


def bucket_s(end_s: float, most: int) -> float:
    """Width with which at most this many buckets cover a run."""
    width_s = _FIRST_WIDTH_S
    while end_s >= most * width_s:
        width_s *= 2
    return width_s


def ranges(
    curves: Iterable[Sequence[Sample]], width_s: float, *, has_mean: bool = False, first: int = 0
) -> Mapping[str, Json]:
    """Lowest, highest and mean of each bucket, from the `first` on, over all finite samples; null
    where there is none.

    Empty without any sample.
    """
    found: dict[int, tuple[float, float, float, int]] = {}
    for time_s, value in chain.from_iterable(curves):
        if math.isfinite(value):
            at = _bucket(time_s, width_s)
            low, high, total, number = found.get(at, (value, value, 0.0, 0))
            found[at] = min(low, value), max(high, value), total + value, number + 1
    if not found:
        return {}
    buckets = [found.get(at) for at in range(first, max(found) + 1)]
    said: dict[str, Json] = {
        "low": [one and digits(one[0], 3) for one in buckets],
        "high": [one and digits(one[1], 3) for one in buckets],
    }
    if has_mean:
        said["mean"] = [one and digits(one[2] / one[3]) for one in buckets]
    return said


def rates(
    added: Sequence[Sample], width_s: float, over_s: float, *, first: int = 0
) -> Sequence[float]:
    """Mean rate per second around each bucket, from the `first` on, over about this long, up to the
    last addition.
    """
    amounts: defaultdict[int, float] = defaultdict(float)
    for time_s, amount in added:
        amounts[_bucket(time_s, width_s) - first] += amount
    count = max(amounts, default=-1) + 1
    reach = max(0, round((over_s / width_s - 1) / 2))
    sums = [0.0]
    for at in range(count):
        sums.append(sums[-1] + amounts[at])
    found = []
    for at in range(count):
        low, high = max(0, at - reach), min(count, at + reach + 1)
        found.append((sums[high] - sums[low]) / ((high - low) * width_s))
    return found


def rate_curve(added: Sequence[Sample], end_s: float, most: int) -> Sequence[Sample]:
    """The same over five seconds as at most this many samples."""
    width_s = bucket_s(end_s, most)
    found = rates(added, width_s, max(RATE_OVER_S, width_s))
    return [((at + 0.5) * width_s, rate) for at, rate in enumerate(found)]


def stretches(times_s: Iterable[float], width_s: float) -> Sequence[int]:
    """First bucket and length of each unbroken stretch of those in which any of these times is."""
    found: list[int] = []
    for at in sorted({_bucket(time_s, width_s) for time_s in times_s}):
        if found and found[-2] + found[-1] == at:
            found[-1] += 1
        else:
            found += [at, 1]
    return found


def _bucket(time_s: float, width_s: float) -> int:
    return int(max(0.0, time_s) / width_s)


def digits(value: float, significant: int = 4) -> float | int:
    """A number as short as a drawing of it needs: 75854.8 ─► 75850, 0.0123456 ─► 0.01235."""
    if value == 0 or not math.isfinite(value):
        return 0
    rounded = round(value, significant - 1 - math.floor(math.log10(abs(value))))
    return int(rounded) if rounded == int(rounded) else rounded
