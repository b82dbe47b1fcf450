"""A learner that comes back with old weights: those that training began with, as if up to date."""

from chaoslab.core.events import Json
from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.exchange import Adoption, Handover
from chaoslab.diloco.learner.replica import Replica
from chaoslab.selftest.mutants import Mutant, Part, flag


class StaleReplica(Replica):
    """Takes over the versions, and not what they stand for, until it trains again."""

    _came_back = False

    def take_over(self, handover: Handover) -> None:
        """From a donor: hold initial values under the names of the current ones."""
        super().take_over(handover)
        self._came_back = True
        self.init(int(flag("--seed")))

    def adopt(self, adoption: Adoption) -> dict[str, Json] | None:
        """From the syncer: the same, as long as it has not made a step."""
        told = super().adopt(adoption)
        if self._came_back and self.counters.tokens == 0:
            self.init(int(flag("--seed")))
        return told


MUTANT = Mutant(program=program, parts=(Part(module=program, name="Replica", wrong=StaleReplica),))

if __name__ == "__main__":
    MUTANT.start()
