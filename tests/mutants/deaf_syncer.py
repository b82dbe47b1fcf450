"""A syncer that says it accepted the victim's pushes, and never merges them."""

from chaoslab.diloco import syncer
from chaoslab.diloco.decisions import Action, Offer
from chaoslab.diloco.policy import Policy
from tests.mutants import VICTIM, start


class DeafPolicy(Policy):
    """Takes the victim's answers for empty ones."""

    def accept(self, now_s: float, epoch: int, offer: Offer) -> list[Action]:
        member = self.membership.find(epoch)
        if member is not None and member.learner == VICTIM:
            return self.spoil(now_s, epoch, offer.round)
        return super().accept(now_s, epoch, offer)


if __name__ == "__main__":
    start(syncer, Policy=DeafPolicy)
