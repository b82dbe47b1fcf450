"""A learner that never dials again: once its stream has ended it trains on by itself.

It goes on measuring its silent link, so the record looks as it does for a link that never heals.
"""

from chaoslab.diloco import learner, messenger
from chaoslab.diloco.link import MEASURE_S, Link
from chaoslab.selftest.mutants import Mutant, Part


class OneStreamLink(Link):
    """Rests for ever."""

    def _rest(self) -> None:
        while not self._closing.wait(MEASURE_S):
            self._keep_time(None)


MUTANT = Mutant(program=learner, parts=(Part(module=messenger, name="Link", wrong=OneStreamLink),))

if __name__ == "__main__":
    MUTANT.start()
