"""A learner whose later lives join, adopt and step, and never answer a pull."""

from chaoslab.diloco import learner
from chaoslab.diloco import wire_pb2 as pb
from chaoslab.diloco.exchange import Snapshot
from chaoslab.diloco.messenger import Messenger
from tests.mutants import start


class MuteMessenger(Messenger):
    """Contributes in its first life only."""

    def _push(self, held: Snapshot, pull: pb.Pull) -> None:
        if self._incarnation == 1:
            super()._push(held, pull)


if __name__ == "__main__":
    start(learner, Messenger=MuteMessenger)
