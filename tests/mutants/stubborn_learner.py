"""A learner on which faults have no effect: it ignores SIGUSR1 (hang) and SIGTERM (leave)."""

import signal
import sys

from chaoslab.diloco import learner


def ignore_signals(_learner: learner.Learner) -> None:
    """In place of obeying them."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    learner.obey_signals = ignore_signals
    sys.exit(learner.main())
