"""A learner that stops to wait for the syncer when it is far ahead of what it last adopted."""

from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.exchange import Inbox
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.selftest.mutants import Mutant, Part

_FAR_STEPS = 36
_PATIENCE_S = 3.0


class WaitingMessenger(Messenger):
    """Lets the training thread go on once something has arrived, or it has waited for long."""

    def take(self) -> Inbox:
        """What has arrived, after it has."""
        held = self._snapshot
        if held is not None and max(held.since_steps) > _FAR_STEPS:
            self.wait(_PATIENCE_S)
        return super().take()


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="Messenger", wrong=WaitingMessenger),)
)

if __name__ == "__main__":
    MUTANT.start()
