"""A learner that never dials again: once its stream has ended it trains on by itself.

It goes on measuring its silent link, so the record looks as it does for a link that never heals.
Since nobody can tell it that training has ended, it leaves when it has been alone for long.
"""

import os
import signal
import time

from chaoslab.diloco.learner import messenger, program
from chaoslab.diloco.learner.link import Link
from chaoslab.diloco.wire.link_meter import MEASURE_S
from chaoslab.selftest.mutants import Mutant, Part

_ALONE_S = 30.0


class OneStreamLink(Link):
    """Rests for ever."""

    def _rest(self) -> None:
        until_s = time.monotonic() + _ALONE_S
        while not self._closing.wait(MEASURE_S):
            self._keep_time(None)
            if time.monotonic() > until_s:
                os.kill(os.getpid(), signal.SIGTERM)


MUTANT = Mutant(program=program, parts=(Part(module=messenger, name="Link", wrong=OneStreamLink),))

if __name__ == "__main__":
    MUTANT.start()
