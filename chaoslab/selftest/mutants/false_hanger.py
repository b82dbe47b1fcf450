"""A learner that plays dead: told to hang, it says nothing of its steps any more, and trains on."""

import signal

from chaoslab.diloco.learner import program
from chaoslab.diloco.learner.program import Learner
from chaoslab.diloco.learner.signals import Trainee, obey_signals
from chaoslab.selftest.mutants import Mutant, Part


class FalseHanger(Learner):
    """Keeps its steps to itself between SIGUSR1 and SIGUSR2."""

    plays_dead = False

    def _sample(self) -> None:
        if not self.plays_dead:
            super()._sample()


def play_dead(trainee: Trainee) -> None:
    """In place of obeying all signals."""
    obey_signals(trainee)
    signal.signal(signal.SIGUSR1, lambda *_: setattr(trainee, "plays_dead", True))
    signal.signal(signal.SIGUSR2, lambda *_: setattr(trainee, "plays_dead", False))


MUTANT = Mutant(
    program=program,
    parts=(
        Part(module=program, name="Learner", wrong=FalseHanger),
        Part(module=program, name="obey_signals", wrong=play_dead),
    ),
)

if __name__ == "__main__":
    MUTANT.start()
