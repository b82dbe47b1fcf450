"""Simulated evaluator: reports the modelled loss of the snapshots, and exits."""

from functools import partial

from chaoslab.core.events import Json
from chaoslab.core.payloads import EvaluationMeasured
from chaoslab.sim.process import Process, need
from chaoslab.sim.snapshots import chosen


class Evaluator(Process):
    """One life of the evaluator."""

    def begin(self) -> None:
        """It reads the snapshots after a while, one after the other."""
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
