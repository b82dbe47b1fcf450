"""A learner that never dials again: once its stream has ended it trains on by itself.

It goes on measuring its silent link, so the record looks as it does for a link that never heals.
"""

import sys

from chaoslab.diloco import learner, messenger
from chaoslab.diloco.link import MEASURE_S, Link


class OneStreamLink(Link):
    """Rests for ever."""

    def _rest(self) -> None:
        while not self._closing.wait(MEASURE_S):
            self._keep_time(None)


if __name__ == "__main__":
    messenger.Link = OneStreamLink  # type: ignore[misc]  # the wrapped module takes ours
    sys.exit(learner.main())
