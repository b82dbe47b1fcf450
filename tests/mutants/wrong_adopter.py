"""Learners that adopt something else than was published: other values, or in the wrong place.

The victim changes every value by a thousandth; the other victim moves each tensor to the place of
the next one. Both say that they adopted what they were sent.
"""

import sys

import numpy as np

from chaoslab.diloco import learner
from chaoslab.diloco.inner import Flat, Inner, LearnerState
from tests.mutants import OTHER_VICTIM, VICTIM, start

_NAME = sys.argv[sys.argv.index("--name") + 1] if "--name" in sys.argv else ""


class WrongInner(Inner):
    """Adopts wrongly."""

    def adopt(self, state: LearnerState, fragment: int, flat: Flat) -> LearnerState:
        if _NAME == VICTIM:
            flat = (flat * np.float32(1.001)).astype(np.float32)
        elif _NAME == OTHER_VICTIM:
            shape = self.specs[self._fragments[fragment][0]][1]
            flat = np.roll(flat, int(np.prod(shape)))
        return super().adopt(state, fragment, flat)


if __name__ == "__main__":
    start(learner, Inner=WrongInner)
