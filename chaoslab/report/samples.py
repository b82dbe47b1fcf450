"""Samples of a run over time: members, tokens per second, losses, load of the machine."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from chaoslab.core import payloads
from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.record.journal import History
from chaoslab.report.lanes import Rounds
from chaoslab.report.thinning import Sample

COUNTS = ("believed", "alive", "stepping", "contributing")
"""Four different numbers of learners."""


class RunSamples:
    """The fold over the events that have them; all times are in seconds of the run's clock."""

    def __init__(self) -> None:
        self.counts: dict[str, list[Sample]] = {name: [] for name in COUNTS}
        self.trained: list[Sample] = []
        """Tokens per second of all learners, over the last five seconds."""
        self.committed: list[Sample] = []
        """Tokens per second that rounds committed, over the same time."""
        self.losses: dict[str, list[Sample]] = defaultdict(list)
        self.cores: dict[str, list[Sample]] = {"idle": [], "used by others": []}
        self._before: dict[tuple[str, int], float] = {}
        self._total = 0.0
        self._trained, self._committed = Rounds(), Rounds()

    @classmethod
    def of(cls, history: History) -> Self:
        """Those of a record, at the times that it has; lines that cannot be read are left out."""
        samples = cls()
        for event in history.of(*cls.FOLDS):
            try:
                cls.FOLDS[event.kind](samples, event)
            except MalformedEvent:  # the verdict has a finding that says so
                continue
        return samples

    def _counted(self, event: Event[payloads.CountsSampled]) -> None:
        for name in COUNTS:
            self.counts[name].append((event.time_s, getattr(event.payload, name)))

    def _machine(self, event: Event[payloads.MachineSampled]) -> None:
        self.cores["idle"].append((event.time_s, event.payload.idle_cores))
        self.cores["used by others"].append((event.time_s, event.payload.others_cores))

    def _step(self, event: Event[payloads.LearnerStep]) -> None:
        said = event.payload
        self._total += said.tokens - self._before.get(said.life, 0.0)
        self._before[said.life] = said.tokens
        self._trained.merge(event.time_s, self._total)
        _take(self.trained, self._trained, event.time_s)
        if math.isfinite(said.loss):
            self.losses[said.learner].append((event.time_s, said.loss))

    def _merged(self, event: Event[payloads.RoundMerged]) -> None:
        self._committed.merge(event.time_s, event.payload.committed_tokens)
        _take(self.committed, self._committed, event.time_s)

    FOLDS: ClassVar[Mapping[Kind, Callable[["RunSamples", Event[Any]], None]]] = {
        Kind.COUNTS_SAMPLED: _counted,
        Kind.MACHINE_SAMPLED: _machine,
        Kind.LEARNER_STEP: _step,
        Kind.ROUND_MERGED: _merged,
    }


def _take(samples: list[Sample], rounds: Rounds, time_s: float) -> None:
    rate = rounds.tokens_per_s
    if rate is not None:
        samples.append((time_s, rate))
