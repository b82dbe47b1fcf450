"""A syncer that says it accepted the victim's pushes, and never merges them."""

from chaoslab.diloco.syncer import program
from chaoslab.diloco.syncer.decisions import Action, Offer
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.selftest.mutants import VICTIM, Mutant, Part


class DeafPolicy(Policy):
    """Takes the victim's answers for empty ones."""

    def accept(self, now_s: float, epoch: int, offer: Offer) -> list[Action]:
        """As if there were nothing in it."""
        member = self.membership.find(epoch)
        if member is not None and member.learner == VICTIM:
            return self.spoil(now_s, epoch, offer.round)
        return super().accept(now_s, epoch, offer)


MUTANT = Mutant(program=program, parts=(Part(module=program, name="Policy", wrong=DeafPolicy),))

if __name__ == "__main__":
    MUTANT.start()
