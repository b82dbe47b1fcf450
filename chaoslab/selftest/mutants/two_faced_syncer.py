"""A syncer that publishes other bytes to the victim than to everybody else, as the same version."""

from dataclasses import replace

from chaoslab.diloco.syncer import program
from chaoslab.diloco.syncer.action_executor import ActionExecutor
from chaoslab.diloco.syncer.membership import Member
from chaoslab.diloco.syncer.syncer_state import Publication
from chaoslab.selftest.mutants import VICTIM, Mutant, Part


class TwoFacedDeeds(ActionExecutor):
    """Turns the lowest bit of every fragment that goes to the victim."""

    def _publish(self, member: Member, publication: Publication) -> None:
        if member.learner == VICTIM:
            first, *others = publication.payload
            other = memoryview(bytes([first ^ 1, *others]))
            publication = replace(publication, payload=other)
        super()._publish(member, publication)


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="ActionExecutor", wrong=TwoFacedDeeds),)
)

if __name__ == "__main__":
    MUTANT.start()
