"""Evaluator of a simulated training: reports the modelled loss of the snapshots, and exits.

Which of them it reads is what `diloco.evaluate` chooses.
"""

from collections.abc import Sequence
from functools import partial

from chaoslab.core.payloads import EvaluationMeasured
from chaoslab.sim.disk import Snapshot
from chaoslab.sim.process import Process, need


def chosen(there: Sequence[Snapshot], at_most: int) -> list[Snapshot]:
    """`at_most` of them, evenly spread, the first and the last included."""
    if len(there) <= at_most:
        return list(there)
    last = len(there) - 1
    return [there[round(last * place / (at_most - 1))] for place in range(at_most)]


class Evaluator(Process):
    """Simulated evaluator."""

    def begin(self) -> None:
        """Read the snapshots after a while, one after the other."""
        snapshots = chosen(self.world.syncer_disk.snapshots, int(need(self.flags, "at-most")))
        delay_s = self.world.costs.evaluator_start_s
        if not snapshots:
            self.later(delay_s, lambda: self.exit(2))
            return
        for snapshot in snapshots:
            measured = EvaluationMeasured(
                committed_tokens=snapshot.committed_tokens,
                round=snapshot.round,
                loss=snapshot.loss,
                is_modelled=True,
            )
            self.later(delay_s, partial(self.say, measured))
            delay_s += self.world.costs.evaluate_s
        self.later(delay_s, self.exit)
