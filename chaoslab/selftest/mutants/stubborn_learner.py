"""A learner on which faults have no effect: it ignores SIGUSR1 (hang) and SIGTERM (leave)."""

import signal

from chaoslab.diloco.learner import program
from chaoslab.selftest.mutants import Mutant, Part


def ignore_signals(_learner: program.Learner) -> None:
    """In place of obeying them."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="obey_signals", wrong=ignore_signals),)
)

if __name__ == "__main__":
    MUTANT.start()
