"""Plain learners: elastic, without outages of domains, their chips all alike and without a memory.

    a stream of possible failures per learner ─► Batch ─┬─► useful training, changes
                                                        └─► pauses ─► time with a quorum

Most simulations have no others, and a batch computes thousands of their failures at once. What
comes of them is what comes of `Learner` with the same draws.
"""

from typing import Final

import numpy as np

from chaoslab.plan.schedule.chance import stream
from chaoslab.sim.distributions import Exponential
from chaoslab.sim.portable_math import Numbers
from chaoslab.sim.renewal.batch import Batch, Costs, Indices, Possible
from chaoslab.sim.renewal.draws import quantiles, rows
from chaoslab.sim.renewal.failure_models import FailureModel
from chaoslab.sim.renewal.quorum import advanced_s
from chaoslab.sim.renewal.scenario import Policy, Scenario

_BATCH: Final = 6144
"""Possible failures that are computed together: arrays of them fit into a processor's cache."""
_AHEAD: Final = 0.25
"""How far a learner may be ahead of the last one, in batches; its pauses are kept until then."""
_LEAST: Final = 16
"""Possible failures of each learner in a batch."""
_AWAY: Final = 0.1
"""Where a larger share of the chips is out of service, a batch takes too many rounds."""


def are_plain(scenario: Scenario, model: FailureModel) -> bool:
    """Whether the learners of a scenario are plain, with few of their chips out of service."""
    repair = model.repair or scenario.repair
    away_s = scenario.slice_chips * (repair.mean_s + scenario.grow_every_s)
    return scenario.policy is not Policy.RIGID and away_s < _AWAY * model.mtbi_s and not (
        model.slow_share or model.hang_share or model.bad_share or model.relapse_share
        or model.shape != 1 or model.domains or model.trace
    )  # fmt: skip


class PlainLearners:
    """All learners of a scenario, and what came of them when `run` has returned."""

    def __init__(self, scenario: Scenario, model: FailureModel, seed: int) -> None:
        self._scenario, self._number = scenario, scenario.learners
        self._costs = Costs(
            chips=scenario.chips / self._number, slice_chips=scenario.slice_chips,
            change_s=scenario.change_s, grow_every_s=scenario.grow_every_s,
        )  # fmt: skip
        self._gap = Exponential(mean_s=model.mtbi_s / self._costs.chips)
        self._repair = model.repair or scenario.repair
        self._rows = [rows(stream(seed, "learner", str(i))) for i in range(self._number)]
        self._size = self._batch_size()
        self._trained_s, self._since_s = np.zeros(self._number), np.zeros(self._number)
        """Of each learner: trained time, and the time at which it trains on from there."""
        self._away, self._ready_s = np.zeros(0, np.int64), np.zeros(0)
        """Slices that are out of service: their learners in order, and when they are ready."""
        self._pauses_s, self._counted_s = np.zeros(0), 0.0
        """Begins of pauses that have not been counted to their end, and until when they have."""
        self.useful_s = self.advanced_s = 0.0
        """Useful training of all learners; time in which a quorum trained."""
        self.interruptions = self.changes = 0

    def run(self) -> None:
        """Simulate until the horizon; NoChipsLeft if a learner may lose all."""
        horizon_s = self._scenario.horizon_s
        while (least_s := float(self._since_s.min())) < horizon_s:
            until_s = min(horizon_s, least_s + _AHEAD * self._size * self._gap.mean_s)
            self._advance(np.flatnonzero(self._since_s < until_s))
            self._count_pauses(min(horizon_s, float(self._since_s.min())))

    def _batch_size(self) -> int:
        """Possible failures of each learner: those until the horizon, in equal batches."""
        scenario, rate = self._scenario, 1 / self._gap.mean_s
        changes = rate + min(rate, 1 / scenario.grow_every_s)
        expected = rate * scenario.horizon_s / (1 + changes * scenario.change_s)
        batches = int(expected * self._number / _BATCH) + 1
        return int((expected + 3 * expected**0.5) / batches) + _LEAST

    def _advance(self, who: Indices) -> None:
        """A batch of failures of these learners."""
        began_s, since_s = self._trained_s[who], self._since_s[who]
        possible, is_theirs = self._possible(who), np.isin(self._away, who)
        away = np.searchsorted(who, self._away[is_theirs])
        ready_s = self._ready_s[is_theirs] - since_s[away]
        batch = Batch(self._costs, possible, began_s, away, ready_s)
        batch.settle()
        ends_s = batch.ends_s() + since_s
        row, ready_s = batch.still_out()
        away = np.concatenate((self._away[~is_theirs], who[row]))
        ready_s = np.concatenate((self._ready_s[~is_theirs], ready_s + since_s[row]))
        order = np.argsort(away, kind="stable")
        self._away, self._ready_s = away[order], ready_s[order]
        self._trained_s[who], self._since_s[who] = possible.trained_s[:, -1], ends_s
        self._count(batch, began_s, since_s, who)

    def _possible(self, who: Indices) -> Possible:
        """The next possible failures of these learners."""
        shares = np.stack([self._rows[i].random((self._size, 3)) for i in who])
        gaps_s, places, repairs_s = quantiles(shares, self._gap, self._repair)
        gaps_s[:, 0] += self._trained_s[who]
        trained_s = np.cumsum(gaps_s, axis=1)
        return Possible(trained_s=trained_s, places=places, repairs_s=repairs_s)

    def _count(self, batch: Batch, began_s: Numbers, since_s: Numbers, who: Indices) -> None:
        """What a batch adds, up to the horizon."""
        horizon_s = self._scenario.horizon_s
        row, begins_s = batch.changes()
        begins_s += since_s[row]
        trained_s, is_over = self._trained_s[who], self._since_s[who] >= horizon_s
        if is_over.any():
            pauses_s = np.clip(horizon_s - begins_s, 0.0, self._costs.change_s)
            paused_s = np.bincount(row, pauses_s, who.size)
            trained_s[is_over] = (began_s + (horizon_s - since_s) - paused_s)[is_over]
        row, left_s, returned_s = batch.absences()
        away_s = np.maximum(np.minimum(returned_s, trained_s[row]) - left_s, 0.0)
        self.useful_s += float((trained_s - began_s).sum())
        self.useful_s -= float(away_s.sum()) * (self._costs.slice_chips / self._costs.chips)
        self.interruptions += int((begins_s[: batch.failures] < horizon_s).sum())
        begins_s = begins_s[begins_s < horizon_s]
        self.changes += begins_s.size
        self._pauses_s = np.concatenate((self._pauses_s, begins_s))

    def _count_pauses(self, end_s: float) -> None:
        """Time with a quorum until `end_s`, before which all pauses are known."""
        begins_s = np.sort(self._pauses_s)
        ends_s = begins_s + self._costs.change_s
        known = np.searchsorted(begins_s, end_s)
        self._pauses_s = begins_s[np.searchsorted(ends_s, end_s, side="right") :]
        self.advanced_s += advanced_s(
            np.maximum(begins_s[:known], self._counted_s), np.minimum(ends_s[:known], end_s),
            too_many=self._number - self._scenario.quorum + 1, began_s=self._counted_s, end_s=end_s,
        )  # fmt: skip
        self._counted_s = end_s
