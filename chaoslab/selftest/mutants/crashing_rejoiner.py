"""A learner whose second life exits with code 1 by itself, a second after it began to train."""

import os
import time

from chaoslab.diloco.learner import program
from chaoslab.selftest.mutants import Mutant, Part, flag

_LIVES_S = 1.0


class CrashingLearner(program.Learner):
    """Trains like any other, for a second."""

    _since_s: float | None = None

    def _note_step(self) -> None:
        super()._note_step()
        self._since_s = self._since_s or time.monotonic()
        is_second_life = flag("--incarnation") == "2"
        if is_second_life and time.monotonic() - self._since_s > _LIVES_S:
            os._exit(1)


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="Learner", wrong=CrashingLearner),)
)

if __name__ == "__main__":
    MUTANT.start()
