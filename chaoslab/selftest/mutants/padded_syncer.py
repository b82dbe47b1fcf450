"""A syncer that counts what it commits twice: its running sum is twice what everybody gave."""

from dataclasses import replace

from chaoslab.diloco.syncer import policy, program
from chaoslab.diloco.syncer.decisions import Abandon, Merge
from chaoslab.diloco.syncer.rounds import Rounds
from chaoslab.selftest.mutants import Mutant, Part


class PaddedRounds(Rounds):
    """Adds the tokens of every merge once more."""

    def close(self, now_s: float) -> list[Merge | Abandon]:
        """As decided, with another sum."""
        ends = super().close(now_s)
        for number, end in enumerate(ends):
            if isinstance(end, Merge):
                self.fragment_tokens += sum(c.offer.c_tokens for c in end.contributions)
                ends[number] = replace(end, fragment_tokens=self.fragment_tokens)
        return ends


MUTANT = Mutant(program=program, parts=(Part(module=policy, name="Rounds", wrong=PaddedRounds),))

if __name__ == "__main__":
    MUTANT.start()
