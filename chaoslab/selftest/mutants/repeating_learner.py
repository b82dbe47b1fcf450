"""A learner whose later lives begin their data anew: they train again on what they had seen."""

from chaoslab.diloco import learner
from chaoslab.diloco.fragments import Layout
from chaoslab.diloco.replica import Replica
from chaoslab.selftest.mutants import Mutant, Part


class RepeatingReplica(Replica):
    """Goes on at the step that it is told, with the first batch."""

    def cut(self, layout: Layout, *, step: int, data_position: int) -> None:  # noqa: ARG002 - it does not listen
        """From the beginning of its data."""
        super().cut(layout, step=step, data_position=0)


MUTANT = Mutant(
    program=learner, parts=(Part(module=learner, name="Replica", wrong=RepeatingReplica),)
)

if __name__ == "__main__":
    MUTANT.start()
