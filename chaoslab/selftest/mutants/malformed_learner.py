"""A learner, the victim, that prints lines by the hundred that claim to be events and are none."""

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.program import Learner
from chaoslab.diloco.node.events import say
from chaoslab.selftest.mutants import VICTIM, Mutant, Part, flag


class MalformedLearner(Learner):
    """After each event come ten of the same kind without any data."""

    def _say(self, kind: Kind, **data: Json) -> None:
        super()._say(kind, **data)
        for _ in range(10 if flag("--name") == VICTIM else 0):
            say(kind, {})


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="Learner", wrong=MalformedLearner),)
)

if __name__ == "__main__":
    MUTANT.start()
