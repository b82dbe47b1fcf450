"""Curves of the training: losses, gaps between rounds, tokens per second, step times, counts.

Each class takes the events of its table `FOLDS` and nothing else, and keeps a bounded state.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind
from chaoslab.report.web.buckets import Curve, Grid, Marks, Total, digits, together

_RATE_OVER_S, _RATE_OVER_ROUNDS = 3.0, 8
"""A rate is a mean over so long, and over so many rounds."""


class Losses:
    """Training loss of each learner, and the loss of the global parameters on held-out data."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._curves: dict[str, Curve] = {}
        self._committed: list[tuple[float, float]] = []
        """Committed tokens after each round, and its time: an evaluation says tokens, no time."""
        self._evaluated: list[Json] = []

    def _step(self, event: Event[payloads.LearnerStep]) -> None:
        learner = event.payload.learner
        if learner not in self._curves:
            self._curves[learner] = Curve(self._grid)
        self._curves[learner].add(event.time_s, event.payload.loss)

    def _merged(self, event: Event[payloads.RoundMerged]) -> None:
        self._committed.append((event.payload.committed_tokens, event.time_s))

    def _evaluation(self, event: Event[payloads.EvaluationMeasured]) -> None:
        said = event.payload
        reached = bisect_left(self._committed, (said.committed_tokens - 1,))  # rounded by one
        if math.isfinite(said.loss) and said.committed_tokens and reached < len(self._committed):
            merged_s = self._committed[reached][1]
            self._evaluated.append([digits(merged_s, 5), digits(said.loss), said.committed_tokens])

    def to_json(self, victims: Collection[str]) -> Mapping[str, Json]:
        """Of victims and of survivors together, each with its range, and the evaluations."""
        hit = [curve for who, curve in self._curves.items() if who in victims]
        spared = [curve for who, curve in self._curves.items() if who not in victims]
        return {
            "width_s": self._grid.width_s,
            "victims": together(hit),
            "survivors": together(spared),
            "evaluated": list(self._evaluated),
        }

    FOLDS: ClassVar[Mapping[Kind, Callable[["Losses", Event[Any]], None]]] = {
        Kind.LEARNER_STEP: _step,
        Kind.ROUND_MERGED: _merged,
        Kind.EVALUATION_MEASURED: _evaluation,
    }


class Rounds:
    """Gaps between merged rounds, and the rounds that were abandoned."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._gaps = Curve(grid)
        self._known: set[int] = set()
        self._abandoned = Marks(grid)
        self._last_s: float | None = None

    def _merged(self, event: Event[payloads.RoundMerged]) -> None:
        said = event.payload
        if said.is_restated and said.round in self._known:
            return
        self._known.add(said.round)
        if self._last_s is not None:
            self._gaps.add(event.time_s, max(0.0, event.time_s - self._last_s))
        self._last_s = event.time_s

    def _round_abandoned(self, event: Event[payloads.RoundAbandoned]) -> None:
        self._abandoned.add(event.time_s)

    def to_json(self, end_s: float) -> Mapping[str, Json]:
        """The longest gap that ended in each bucket, and the one that was open at `end_s`."""
        left_s = 0.0 if self._last_s is None else max(0.0, end_s - self._last_s)
        return {
            "width_s": self._grid.width_s,
            "gap_s": self._gaps.range_json().get("high", []),
            "open_s": digits(left_s),
            "last_s": digits(self._last_s or 0.0, 6),
            "abandoned": self._abandoned.to_json(),
            "merged": len(self._known),
        }

    FOLDS: ClassVar[Mapping[Kind, Callable[["Rounds", Event[Any]], None]]] = {
        Kind.ROUND_MERGED: _merged,
        Kind.ROUND_ABANDONED: _round_abandoned,
    }


class Tokens:
    """Tokens per second: those trained by all learners, and those that rounds committed."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._raw, self._committed = Total(grid), Total(grid)
        self._trained: dict[tuple[str, int], float] = defaultdict(float)
        self._before = 0.0

    def _step(self, event: Event[payloads.LearnerStep]) -> None:
        said = event.payload
        self._raw.add(event.time_s, said.tokens - self._trained[said.life])
        self._trained[said.life] = said.tokens

    def _merged(self, event: Event[payloads.RoundMerged]) -> None:
        now = event.payload.committed_tokens
        self._committed.add(event.time_s, max(0.0, now - self._before))
        self._before = max(now, self._before)

    def to_json(self, round_s: float | None) -> Mapping[str, Json]:
        """Both rates; `round_s` is the usual time between two rounds."""
        over_s = max(_RATE_OVER_S, _RATE_OVER_ROUNDS * (round_s or 0.0), 2 * self._grid.width_s)
        return {
            "width_s": self._grid.width_s,
            "over_s": digits(over_s, 2),
            "raw": self._raw.rates(over_s),
            "committed": self._committed.rates(over_s),
        }

    FOLDS: ClassVar[Mapping[Kind, Callable[["Tokens", Event[Any]], None]]] = {
        Kind.LEARNER_STEP: _step,
        Kind.ROUND_MERGED: _merged,
    }


class StepTimes:
    """How long a step of each learner takes, in milliseconds."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._curves: dict[str, Curve] = {}

    def _step(self, event: Event[payloads.LearnerStep]) -> None:
        said = event.payload
        if not said.steps:  # the last report of a life may have none, and so no step time
            return
        if said.learner not in self._curves:
            self._curves[said.learner] = Curve(self._grid)
        self._curves[said.learner].add(event.time_s, said.step_s * 1000)

    def to_json(self) -> Mapping[str, Json]:
        """By learner, each with the lowest and the highest of each bucket."""
        rows = {who: curve.range_json() for who, curve in self._curves.items()}
        return {"width_s": self._grid.width_s, "rows": rows}

    FOLDS: ClassVar[Mapping[Kind, Callable[["StepTimes", Event[Any]], None]]] = {
        Kind.LEARNER_STEP: _step,
    }


class Counts:
    """Learners believed to be members, alive, stepping and contributing: four different numbers."""

    NAMES = ("believed", "alive", "stepping", "contributing")

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._curves = {name: Curve(grid) for name in self.NAMES}

    def _counts(self, event: Event[payloads.CountsSampled]) -> None:
        for name, curve in self._curves.items():
            curve.add(event.time_s, getattr(event.payload, name))

    def to_json(self) -> Mapping[str, Json]:
        """By name, each with the lowest number of each bucket: that somebody is missing counts."""
        rows = {name: curve.range_json().get("low") for name, curve in self._curves.items()}
        return {"width_s": self._grid.width_s, "rows": rows}

    FOLDS: ClassVar[Mapping[Kind, Callable[["Counts", Event[Any]], None]]] = {
        Kind.COUNTS_SAMPLED: _counts,
    }
