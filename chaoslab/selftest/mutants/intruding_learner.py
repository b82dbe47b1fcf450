"""A learner, the victim, that dials once more: as another learner, of a life that is not there.

It has no token of that learner, so a sound syncer turns it away and the training is as it was.
"""

import secrets
import threading
from collections.abc import Sequence

from chaoslab.diloco.learner import messages as words
from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.exchange import Snapshot
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.model.fragments import TensorSpec
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.service import Connection
from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM, Mutant, Part, flag

_LIFE = 99
_STEPS = 50
"""By then everybody has joined."""
_STAY_S = 2.0


def intrude(specs: Sequence[TensorSpec]) -> None:
    """Say hello as the other learner, with a token that is made up, and stay for a while."""
    hello = words.hello(OTHER_VICTIM, _LIFE, secrets.randbits(63), specs=specs, held=None)
    connection = Connection(flag("--syncer"), token=f"{OTHER_VICTIM}:{secrets.token_hex(32)}")
    connection.open()
    connection.send(pb.FromLearner(hello=hello))
    threading.Event().wait(_STAY_S)
    connection.close()


class IntrudingMessenger(Messenger):
    """Says what it should, beside that."""

    has_intruded = False

    def boundary(self, snapshot: Snapshot) -> None:
        """As it should be; once, somebody else's hello as well."""
        super().boundary(snapshot)
        if flag("--name") == VICTIM and snapshot.step >= _STEPS and not self.has_intruded:
            self.has_intruded = True
            threading.Thread(target=intrude, args=(self._specs,), daemon=True).start()


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="Messenger", wrong=IntrudingMessenger),)
)

if __name__ == "__main__":
    MUTANT.start()
