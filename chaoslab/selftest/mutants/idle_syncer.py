"""A syncer that does everything but merge: each version holds what the one before it held."""

from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.syncer import program, syncer_state
from chaoslab.diloco.syncer.merge import OuterState
from chaoslab.selftest.mutants import Mutant, Part


def no_step(state: OuterState, delta: FloatArray, lr: float, momentum: float) -> OuterState:  # noqa: ARG001 - in the place of `outer_step`
    """In place of the outer step: where it was."""
    return state


MUTANT = Mutant(
    program=program, parts=(Part(module=syncer_state, name="outer_step", wrong=no_step),)
)

if __name__ == "__main__":
    MUTANT.start()
