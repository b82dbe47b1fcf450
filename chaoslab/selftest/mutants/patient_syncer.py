"""A syncer that waits for everyone: while anybody on the roster is away, no round begins."""

from chaoslab.diloco.syncer import policy, program
from chaoslab.diloco.syncer.decisions import Pull
from chaoslab.diloco.syncer.rounds import Rounds
from chaoslab.selftest.mutants import Mutant, Part


class PatientRounds(Rounds):
    """Begins rounds of the whole roster only."""

    def begin(self, now_s: float) -> list[Pull]:
        """None while somebody is missing."""
        if len(self._membership.members) < len(self._settings.learners):
            return []
        return super().begin(now_s)


MUTANT = Mutant(program=program, parts=(Part(module=policy, name="Rounds", wrong=PatientRounds),))

if __name__ == "__main__":
    MUTANT.start()
