"""A learner that hammers a link that is gone: it dials again without any pause."""

from chaoslab.diloco.learner import link, program
from chaoslab.diloco.wire.service import Backoff
from chaoslab.selftest.mutants import Mutant, Part


class NoBackoff(Backoff):
    """Never waits."""

    def next_s(self) -> float:
        """Now."""
        return 0.0


MUTANT = Mutant(program=program, parts=(Part(module=link, name="Backoff", wrong=NoBackoff),))

if __name__ == "__main__":
    MUTANT.start()
