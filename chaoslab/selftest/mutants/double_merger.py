"""A syncer that merges the victim's pushes twice in one round, and writes it down twice."""

from dataclasses import replace

from chaoslab.diloco.syncer import policy, program
from chaoslab.diloco.syncer.decisions import Abandon, Merge
from chaoslab.diloco.syncer.rounds import Rounds
from chaoslab.selftest.mutants import VICTIM, Mutant, Part


class DoubleRounds(Rounds):
    """Every contribution of the victim comes twice."""

    def close(self, now_s: float) -> list[Merge | Abandon]:
        """As decided, with the victim's work once more."""
        return [_doubled(end) if isinstance(end, Merge) else end for end in super().close(now_s)]


def _doubled(merge: Merge) -> Merge:
    again = tuple(c for c in merge.contributions if c.learner == VICTIM)
    return replace(merge, contributions=merge.contributions + again)


MUTANT = Mutant(program=program, parts=(Part(module=policy, name="Rounds", wrong=DoubleRounds),))

if __name__ == "__main__":
    MUTANT.start()
