"""A learner that nothing is done to, and that leaves in mid-training as if training had ended."""

import sys
import time

from chaoslab.diloco.learner import program
from chaoslab.selftest.mutants import OTHER_VICTIM, Mutant, Part, flag

_TRAINS_S = 3.0


class EarlyLearner(program.Learner):
    """Trains for a few seconds, then gives its final account and exits with code 0."""

    _since_s: float | None = None

    def _note_step(self) -> None:
        super()._note_step()
        self._since_s = self._since_s or time.monotonic()
        if flag("--name") == OTHER_VICTIM and time.monotonic() - self._since_s > _TRAINS_S:
            self._finish(self._replica.counters.versions)
            sys.exit(0)


MUTANT = Mutant(program=program, parts=(Part(module=program, name="Learner", wrong=EarlyLearner),))

if __name__ == "__main__":
    MUTANT.start()
