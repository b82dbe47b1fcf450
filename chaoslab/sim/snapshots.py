"""Snapshots of a simulated training: when one is kept, and which of them are evaluated;
and the evaluator that reports on them.

    ················   one for each merge, until there are `2 * kept`
    · · · · · · · ·    then every second one is removed, and the distance doubles

As `diloco.node.snapshots` keeps files and `diloco.evaluate` chooses among them.
"""

import math
from collections.abc import Sequence
from functools import partial

from chaoslab.core.events import Json
from chaoslab.core.payloads import EvaluationMeasured
from chaoslab.sim.disk import Snapshot
from chaoslab.sim.process import Process, need


class Snapshots:
    """Snapshots of one training, in order of committed tokens; they outlive the syncer."""

    def __init__(self, there: list[Snapshot], *, every: int | None, kept: int | None) -> None:
        self._there, self._every, self._kept = there, every, kept
        self._distance_tokens = 0.0
        self._next_tokens = 0.0 if every or kept else math.inf
        if kept and not every and there:
            newest_tokens = there[-1].committed_tokens
            self._distance_tokens = newest_tokens / len(there) if len(there) >= kept else 0.0
            self._next_tokens = newest_tokens + self._distance_tokens

    def is_due(self, committed_tokens: float) -> bool:
        """Whether one is due at this number of committed tokens."""
        return committed_tokens >= self._next_tokens

    def add(self, snapshot: Snapshot) -> None:
        """Keep one; remove every second one if there are too many."""
        there, tokens = self._there, snapshot.committed_tokens
        if there and there[-1].committed_tokens == tokens:
            there.pop()  # a file of the same name is replaced
        there.append(snapshot)
        if self._every:
            self._next_tokens = (tokens // self._every + 1) * self._every
        elif self._kept:
            if len(there) >= 2 * self._kept:
                del there[1:-1:2]
                self._distance_tokens = tokens / self._kept
            self._next_tokens = tokens + self._distance_tokens


def chosen(there: Sequence[Snapshot], at_most: int) -> list[Snapshot]:
    """`at_most` of them, evenly spread, the first and the last included."""
    if len(there) <= at_most:
        return list(there)
    last = len(there) - 1
    return [there[round(last * place / (at_most - 1))] for place in range(at_most)]


class Evaluator(Process):
    """Simulated evaluator: reports the modelled loss of the snapshots, and exits."""

    def begin(self) -> None:
        """Read the snapshots after a while, one after the other."""
        snapshots = chosen(self.world.syncer_disk.snapshots, int(need(self.flags, "at-most")))
        delay_s = self.world.costs.evaluator_start_s
        if not snapshots:
            self.later(delay_s, lambda: self.exit(2))
            return
        for snapshot in snapshots:
            measured = partial(
                self.say,
                EvaluationMeasured,
                committed_tokens=snapshot.committed_tokens,
                round=snapshot.round,
                loss=snapshot.loss,
                is_modelled=True,
            )
            self.later(delay_s, measured)
            delay_s += self.world.costs.evaluate_s
        self.later(delay_s, self.exit)

    def _about(self) -> dict[str, Json]:
        return {"node": self.name, "incarnation": self.incarnation}
