"""A syncer that does not recognise what it has accepted before: a push that comes twice counts."""

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer import policy, program
from chaoslab.diloco.syncer.decisions import Offer, Refusal
from chaoslab.diloco.syncer.membership import Member, Membership
from chaoslab.diloco.syncer.rounds import Rounds
from chaoslab.selftest.mutants import Mutant, Part


class ReplayingRounds(Rounds):
    """Takes for new whatever it took before."""

    def __init__(self, settings: Settings, membership: Membership) -> None:
        super().__init__(settings, membership)
        self._taken: set[tuple[int, int]] = set()

    def judge(self, member: Member, offer: Offer) -> Refusal | None:
        """As it should be for what comes for the first time."""
        refusal = super().judge(member, offer)
        push = member.epoch, offer.round
        if refusal in (Refusal.REPLAY, Refusal.LATE) and push in self._taken:
            return None
        if refusal is None:
            self._taken.add(push)
        return refusal


MUTANT = Mutant(program=program, parts=(Part(module=policy, name="Rounds", wrong=ReplayingRounds),))

if __name__ == "__main__":
    MUTANT.start()
