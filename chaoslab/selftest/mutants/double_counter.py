"""A learner, the victim, that counts every token twice, and so weighs four times as much."""

from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.model.task import Batch
from chaoslab.selftest.mutants import VICTIM, Mutant, Part, flag


class DoubleReplica(Replica):
    """A batch counts as two."""

    def step(self, batch: Batch) -> None:
        """One step, and the tokens of two."""
        super().step(batch)
        if flag("--name") == VICTIM:
            self.counters.tokens += self._tokens_per_batch


MUTANT = Mutant(program=program, parts=(Part(module=program, name="Replica", wrong=DoubleReplica),))

if __name__ == "__main__":
    MUTANT.start()
