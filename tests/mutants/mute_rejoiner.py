"""A learner whose later lives join, adopt and step, and never answer a pull."""

import sys

from chaoslab.diloco import learner
from chaoslab.diloco import wire_pb2 as pb
from chaoslab.diloco.messenger import Messenger, Snapshot


class MuteMessenger(Messenger):
    """Contributes in its first life only."""

    def _push(self, held: Snapshot, pull: pb.Pull) -> None:
        if self._incarnation == 1:
            super()._push(held, pull)


if __name__ == "__main__":
    learner.Messenger = MuteMessenger  # type: ignore[misc]  # the wrapped module takes ours
    sys.exit(learner.main())
