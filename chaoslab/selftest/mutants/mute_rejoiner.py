"""A learner whose later lives join, adopt and step, and never answer a pull."""

from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.exchange import Snapshot
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.selftest.mutants import Mutant, Part


class MuteMessenger(Messenger):
    """Contributes in its first life only."""

    def _push(self, held: Snapshot, pull: pb.Pull) -> None:
        if self._incarnation == 1:
            super()._push(held, pull)


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="Messenger", wrong=MuteMessenger),)
)

if __name__ == "__main__":
    MUTANT.start()
