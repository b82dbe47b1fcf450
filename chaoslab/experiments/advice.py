"""Advice: learners, quorum and rounds for given chips, failures and links, and how sensitive it is.

    chips, failures ─► renewal, M = 1, 2, 4, … ─► goodput, uptime by quorum ─┐
    link, model, step ─► timeline, by bits, H, tau, P ─► rounds made, lag ───┴─► Advice

Two models that share nothing: failures cost time of learners and not of links, links cost rounds
and not time of learners. What neither knows is what the loss is worth: of that there are the
published scores alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.sim.renewal.engine import simulate
from chaoslab.sim.renewal.failure_models import HOUR_S, FailureModel
from chaoslab.sim.renewal.scenario import Policy, Scenario
from chaoslab.sim.timeline import engine as timeline
from chaoslab.sim.timeline.training import GBIT, Method, Training

SCORES: Final[Mapping[int, float]] = {2: 54.4, 4: 55.0, 8: 55.4, 16: 53.4}
"""Text scores by learners; 1.2M chips, one interruption per chip and year (arXiv 2604.21428)."""
MOST_LEARNERS: Final = 8
"""More had a lower score."""
FASTER_FAILURES, THINNER_LINK = 3.0, 0.5
"""Changes whose cost is shown: three times as many failures, half the rate."""
_LEARNERS: Final = (1, 2, 4, 8, 16, 32, 64)
_FAILURES_SEEN: Final = 2000.0
"""Interruptions that a simulation should see, for a goodput to about a tenth of a point."""
_MOST_SEEN: Final = 100 * _FAILURES_SEEN
"""Interruptions after which a simulation may end early: a chip that fails every hour is enough."""
_MOST_PER_S: Final = 1000.0
"""Interruptions of all chips a second: more stop every training, and take too long to simulate."""
_HORIZON_S: Final = (24 * HOUR_S, 365 * 24 * HOUR_S)
_SHORTEST_S: Final = 2 * HOUR_S
_EQUAL: Final = 0.001
"""Largest difference of goodputs that counts as none."""
_ENOUGH: Final = 0.99
"""Share of the planned rounds that must be made."""
_MERGED_BITS: Final = 16.0
"""Bits of each parameter that the syncer publishes: bf16, as the real one."""
_SYNC_EVERY, _OVERLAPS, _BITS, _FRAGMENTS = (24, 48, 96, 192), (2, 4, 8), (16, 8, 4), (
    24, 12, 8, 6, 4, 48,
)  # fmt: skip
"""H, tau, bits and P that are tried, the published values first: of two that keep pace, the earlier
is taken. A larger H or tau makes work older; fewer bits cost nothing down to 4, by the published
scores, and more bits nothing but bandwidth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Given facts."""

    chips: int
    model: FailureModel
    rate_bytes_per_s: float
    """Rate of each learner's link to the syncer, each way."""
    parameters: int
    step_s: float
    most_learners: int = MOST_LEARNERS
    slice_chips: int = 256
    change_s: float = 16.0
    seeds: int = 4

    def __post_init__(self) -> None:
        if self.chips < 2 * self.slice_chips:
            raise PlanError(
                f"must be at least two slices of {self.slice_chips}, got {self.chips}: write more "
                "chips, or smaller slices (--slice)",
                key="chips",
            )
        per_s = self.chips / self.model.mtbi_s
        if per_s > _MOST_PER_S:
            raise PlanError(
                f"must be interrupted at most {_MOST_PER_S:,.0f} times a second in all, got "
                f"{per_s:,.0f}: write fewer chips, or a longer time between interruptions",
                key="chips",
            )
        if not 0 < self.rate_bytes_per_s < math.inf:
            raise PlanError("must be above 0 and finite", key="gbps")
        self.training(_lightest())  # refuses what no training can be

    @property
    def horizon_s(self) -> float:
        """Long enough to see enough interruptions, and no longer."""
        least_s, most_s = _HORIZON_S
        between_s = self.model.mtbi_s / self.chips
        horizon_s = min(max(_FAILURES_SEEN * between_s, least_s), most_s)
        return max(min(horizon_s, _MOST_SEEN * between_s), _SHORTEST_S)

    def scenario(self, learners: int, quorum: int = 1) -> Scenario:
        """The training with this many learners; one is elastic data parallelism."""
        return Scenario(
            policy=Policy.DECOUPLED, chips=self.chips, learners=learners, quorum=quorum,
            horizon_s=self.horizon_s, change_s=self.change_s, slice_chips=self.slice_chips,
        )  # fmt: skip

    def training(self, rounds: "Rounds") -> Training:
        """The rounds of a learner over its link."""
        return Training(
            method=Method.DECOUPLED, parameters=self.parameters, step_s=self.step_s,
            sync_every=rounds.sync_every, overlap=rounds.overlap, fragments=rounds.fragments,
            bits=float(rounds.bits), merged_bits=_MERGED_BITS,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Learners:
    """Result for a number of learners."""

    learners: int
    goodput: float
    goodput_faster_failures: float
    uptime: float
    """Uptime with a quorum of one."""
    score: float | None
    """Published; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """Result for a quorum, with the advised number of learners."""

    quorum: int
    uptime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Settings of rounds."""

    sync_every: int
    overlap: int
    bits: int
    fragments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Result of rounds over a link."""

    rounds: Rounds
    made: float
    """Share of the planned rounds."""
    made_thinner: float
    """Share of them that is made over half of the link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Advice, with the results of alternatives."""

    learners: Learners
    by_learners: Sequence[Learners]
    by_quorum: Sequence[Quorum]
    pace: Pace
    least_bytes_per_s: float
    """Thinnest link on which these rounds are made."""
    neighbours: Sequence[Pace]
    keeps_pace: bool
    """Whether enough of the planned rounds are made; if not, no setting that was tried does."""
    at_thinner_link: Rounds | None
    """Advice for half of the link; None: nothing keeps pace."""

    @property
    def fewest(self) -> Learners:
        """The fewest learners with as much goodput, to a tenth of a point."""
        enough = self.learners.goodput - _EQUAL
        return next(one for one in self.by_learners if one.goodput >= enough)


def advise(
    question: Question, *, on_progress: Callable[[int, int], object] = lambda _done, _all: None
) -> Advice:
    """The advice. `on_progress` gets the number of simulations that are done, and of all."""
    numbers = [m for m in _LEARNERS if m * question.slice_chips <= question.chips]
    allowed = [m for m in numbers if m <= question.most_learners]
    steps = _Steps(2 * len(numbers) + len(_quorums_of(max(allowed))), on_progress)
    faster = replace(question.model, mtbi_s=question.model.mtbi_s / FASTER_FAILURES)
    table = []
    for number in numbers:
        goodput, uptime = _means(question, question.scenario(number), question.model)
        steps.done()
        worse, _ = _means(question, question.scenario(number), faster)
        steps.done()
        table.append(
            Learners(
                learners=number, goodput=goodput, goodput_faster_failures=worse, uptime=uptime,
                score=SCORES.get(number),
            )
        )  # fmt: skip
    best = max((one for one in table if one.learners in allowed), key=lambda one: one.goodput)
    quorums = list(_quorums(question, best.learners, steps))
    chosen = _rounds(question, question.rate_bytes_per_s)
    thinner = _rounds(question, question.rate_bytes_per_s * THINNER_LINK)
    rounds = chosen or _lightest()
    return Advice(
        learners=best,
        by_learners=table,
        by_quorum=quorums,
        pace=_pace(question, rounds),
        least_bytes_per_s=_least(question, rounds),
        neighbours=[_pace(question, one) for one in _beside(rounds)],
        keeps_pace=chosen is not None,
        at_thinner_link=thinner,
    )


class _Steps:
    def __init__(self, every: int, on_progress: Callable[[int, int], object]) -> None:
        self._every, self._done, self._on_progress = every, 0, on_progress
        on_progress(0, every)

    def done(self) -> None:
        """Count one more."""
        self._done += 1
        self._on_progress(min(self._done, self._every), self._every)


def _means(question: Question, scenario: Scenario, model: FailureModel) -> tuple[float, float]:
    results = [simulate(scenario, seed, model=model) for seed in range(question.seeds)]
    return fmean(one.goodput for one in results), fmean(one.uptime for one in results)


def _quorums(question: Question, learners: int, steps: _Steps) -> Iterator[Quorum]:
    for quorum in _quorums_of(learners):
        _, uptime = _means(question, question.scenario(learners, quorum), question.model)
        steps.done()
        yield Quorum(quorum=quorum, uptime=uptime)


def _quorums_of(learners: int) -> Sequence[int]:
    return sorted({1, max(learners // 2, 1), max(3 * learners // 4, 1), learners})


# ---------------------------------------------------------------- rounds over a link


def _rounds(question: Question, rate_bytes_per_s: float) -> Rounds | None:
    """The first that keeps pace, in the order in which they are preferred."""
    return next(
        (one for one in _tried() if _made(question, one, rate_bytes_per_s) >= _ENOUGH), None
    )


def _lightest() -> Rounds:
    """Settings that need least of a link."""
    return Rounds(
        sync_every=max(_SYNC_EVERY), overlap=max(_OVERLAPS), bits=min(_BITS),
        fragments=max(_FRAGMENTS),
    )  # fmt: skip


def _tried() -> Iterator[Rounds]:
    for sync_every, overlap, bits, fragments in product(_SYNC_EVERY, _OVERLAPS, _BITS, _FRAGMENTS):
        if fragments <= sync_every:
            yield Rounds(sync_every=sync_every, overlap=overlap, bits=bits, fragments=fragments)


def _beside(rounds: Rounds) -> Iterator[Rounds]:
    """The same with one value changed, to the next smaller or larger."""
    ways = {"sync_every": _SYNC_EVERY, "overlap": _OVERLAPS, "bits": _BITS, "fragments": _FRAGMENTS}
    for name, values in ways.items():
        ordered = sorted(values)
        at = ordered.index(getattr(rounds, name))
        for other in ordered[max(at - 1, 0) : at] + ordered[at + 1 : at + 2]:
            changed = replace(rounds, **{name: other})
            if changed.fragments <= changed.sync_every:
                yield changed


def _made(question: Question, rounds: Rounds, rate_bytes_per_s: float) -> float:
    """Share of the planned rounds; without a simulation where the bytes alone are too many."""
    training = question.training(rounds)
    period_s = training.step_s * training.sync_every
    carried = rate_bytes_per_s * period_s / max(training.sent_bytes, training.merged_bytes)
    return carried if carried < _ENOUGH else timeline.simulate(training, rate_bytes_per_s).rounds


def _pace(question: Question, rounds: Rounds) -> Pace:
    rate = question.rate_bytes_per_s
    return Pace(
        rounds=rounds,
        made=_made(question, rounds, rate),
        made_thinner=_made(question, rounds, rate * THINNER_LINK),
    )


def _least(question: Question, rounds: Rounds) -> float:
    """The thinnest link on which enough rounds are made, by bisection, to a percent."""
    low, high = 1e-4 * GBIT, 1e4 * GBIT
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _made(question, rounds, middle) >= _ENOUGH else (middle, high)
    return high


def to_json(advice: Advice) -> Mapping[str, Json]:
    """All of it; rates in Gbit/s."""
    return {
        "learners": advice.learners.learners,
        "fewest_learners_with_as_much": advice.fewest.learners,
        "quorum": 1,
        "keeps_pace": advice.keeps_pace,
        "rounds": _pace_json(advice.pace),
        "least_gbps": advice.least_bytes_per_s / GBIT,
        "goodput": advice.learners.goodput,
        "goodput_at_3x_failures": advice.learners.goodput_faster_failures,
        "by_learners": [
            {
                "learners": one.learners,
                "goodput": one.goodput,
                "goodput_at_3x_failures": one.goodput_faster_failures,
                "uptime": one.uptime,
                "published_score": one.score,
            }
            for one in advice.by_learners
        ],
        "by_quorum": [{"quorum": one.quorum, "uptime": one.uptime} for one in advice.by_quorum],
        "neighbours": [_pace_json(one) for one in advice.neighbours],
        "rounds_at_half_the_link": (
            _rounds_json(advice.at_thinner_link) if advice.at_thinner_link else None
        ),
    }


def _pace_json(pace: Pace) -> Mapping[str, Json]:
    return {
        **_rounds_json(pace.rounds),
        "rounds_made": pace.made,
        "rounds_made_at_half_the_link": pace.made_thinner,
    }


def _rounds_json(rounds: Rounds) -> Mapping[str, Json]:
    return {
        "sync_every": rounds.sync_every,
        "overlap": rounds.overlap,
        "bits": rounds.bits,
        "fragments": rounds.fragments,
    }
