"""A syncer that publishes other bytes to the victim than to everybody else, as the same version."""

from dataclasses import replace

from chaoslab.diloco import syncer
from chaoslab.diloco.books import Publication
from chaoslab.diloco.deeds import Deeds
from chaoslab.diloco.membership import Member
from chaoslab.selftest.mutants import VICTIM, Mutant, Part


class TwoFacedDeeds(Deeds):
    """Turns the lowest bit of every fragment that goes to the victim."""

    def _publish(self, member: Member, publication: Publication) -> None:
        if member.learner == VICTIM:
            first, *others = publication.payload
            other = memoryview(bytes([first ^ 1, *others]))
            publication = replace(publication, payload=other)
        super()._publish(member, publication)


MUTANT = Mutant(program=syncer, parts=(Part(module=syncer, name="Deeds", wrong=TwoFacedDeeds),))

if __name__ == "__main__":
    MUTANT.start()
