"""Learners that adopt something else than was published: other values, or in the wrong place.

The victim changes every value by a thousandth; the other victim moves each tensor to the place of
the next one. Both say that they adopted what they were sent.
"""

import numpy as np

from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.inner_steps import Flat, Inner, LearnerState
from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM, Mutant, Part, flag


class WrongInner(Inner):
    """Adopts wrongly."""

    def adopt(self, state: LearnerState, fragment: int, flat: Flat) -> LearnerState:
        """Something else."""
        name = flag("--name")
        if name == VICTIM:
            flat = (flat * np.float32(1.001)).astype(np.float32)
        elif name == OTHER_VICTIM:
            shape = self.specs[self._fragments[fragment][0]][1]
            flat = np.roll(flat, int(np.prod(shape)))
        return super().adopt(state, fragment, flat)


MUTANT = Mutant(program=program, parts=(Part(module=program, name="Inner", wrong=WrongInner),))

if __name__ == "__main__":
    MUTANT.start()
