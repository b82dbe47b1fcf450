"""A syncer that believes anybody: whoever says that it is a learner is taken for it."""

from chaoslab.diloco.syncer import options, program
from chaoslab.diloco.wire.identity import Tokens, claimed_by
from chaoslab.selftest.mutants import Mutant, Part


class BelievingTokens(Tokens):
    """Every token is good for whom it names."""

    def owner(self, token: str) -> str | None:
        """Whoever it says."""
        return claimed_by(token)


MUTANT = Mutant(
    program=program, parts=(Part(module=options, name="Tokens", wrong=BelievingTokens),)
)

if __name__ == "__main__":
    MUTANT.start()
