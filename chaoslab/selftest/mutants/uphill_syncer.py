"""A syncer that goes the wrong way: all books are in order, and the loss runs away."""

from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.syncer import program, syncer_state
from chaoslab.diloco.syncer.merge import OuterState, outer_step
from chaoslab.selftest.mutants import Mutant, Part

_HOW_FAR = -4.0


def uphill(state: OuterState, delta: FloatArray, lr: float, momentum: float) -> OuterState:
    """In place of the outer step: away from where the learners went."""
    return outer_step(state, delta, _HOW_FAR * lr, momentum)


MUTANT = Mutant(
    program=program, parts=(Part(module=syncer_state, name="outer_step", wrong=uphill),)
)

if __name__ == "__main__":
    MUTANT.start()
