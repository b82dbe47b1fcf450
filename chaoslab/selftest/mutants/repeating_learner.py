"""A learner whose later lives begin their data anew: they train again on what they had seen."""

from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.model.fragments import Layout
from chaoslab.selftest.mutants import Mutant, Part


class RepeatingReplica(Replica):
    """Goes on at the step that it is told, with the first batch."""

    def cut(self, layout: Layout, *, step: int, data_position: int) -> None:  # noqa: ARG002 - it does not listen
        """From the beginning of its data."""
        super().cut(layout, step=step, data_position=0)


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="Replica", wrong=RepeatingReplica),)
)

if __name__ == "__main__":
    MUTANT.start()
