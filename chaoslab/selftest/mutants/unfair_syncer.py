"""A syncer for which the victim's work weighs a tenth of what its tokens are worth."""

from chaoslab.diloco.syncer import policy, program
from chaoslab.diloco.syncer.decisions import Contribution
from chaoslab.selftest.mutants import VICTIM, Mutant, Part

_SHARE = 0.1


class UnfairContribution(Contribution):
    """Weighs otherwise."""

    @property
    def weight(self) -> float:
        """As it should be, for everybody else."""
        weight = super().weight
        return _SHARE * weight if self.learner == VICTIM else weight


MUTANT = Mutant(
    program=program, parts=(Part(module=policy, name="Contribution", wrong=UnfairContribution),)
)

if __name__ == "__main__":
    MUTANT.start()
