"""Contact with the API server of a cluster: a time in which it did not answer is reported.

    asked for its version ─► answered late, or after failures ─► queue ─► harness.stalled

All that nodes print and all that the cluster reports comes through that server. What happened while
it was away is heard of late: checks then go by the clocks of the nodes, as far as such a time
explains it.
"""

import math
import threading
from typing import Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import HarnessStalled
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals, hand_over

_ASK_S: Final = 0.5
"""After an answer it is asked again so soon."""
_GAP_S: Final = 1.0
"""An answer that takes longer is reported."""
_LATE_S: Final = 2.0
"""This long after its return what was said meanwhile may still arrive."""
_TOLD_S: Final = 5.0
"""Time for which a run that ends waits for the report."""


class Contact:
    """Asks the cluster on a thread of its own, until it is closed."""

    def __init__(self, cluster: Cluster, clock: Clock, arrivals: Arrivals) -> None:
        self._cluster, self._clock, self._arrivals = cluster, clock, arrivals
        self._is_closing = threading.Event()
        self._is_told = threading.Event()
        """Whether it answers, and no time in which it did not is still to be reported."""
        self._is_told.set()
        self._thread = threading.Thread(target=self._run, name="contact", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        self._is_closing.set()
        self._is_told.set()

    def hear_out(self) -> None:
        """Return when a time without an answer is reported, if there was one just now."""
        self._is_told.wait(_TOLD_S)

    # ---------------------------------------------------------------- on its thread

    def _run(self) -> None:
        heard_s, unanswered_s = self._clock.now_s(), math.inf
        while not self._is_closing.wait(_ASK_S):
            unanswered_s = min(unanswered_s, self._clock.now_s())
            self._is_told.clear()
            if not self._is_answered():
                continue
            if self._clock.now_s() - unanswered_s >= _GAP_S:
                self._is_closing.wait(_LATE_S)
                self._report(heard_s)
            heard_s, unanswered_s = self._clock.now_s(), math.inf
            self._is_told.set()

    def _is_answered(self) -> bool:
        try:
            self._cluster.version()
        except Refused:  # an answer, too
            return True
        except FleetError:
            return False
        return True

    def _report(self, since_s: float) -> None:
        stalled = HarnessStalled(
            silent_s=self._clock.now_s() - since_s,
            since_s=since_s,
            host=f"the API server of {self._cluster.context}",
        )
        seen = Observation.of("harness", stalled)
        arrival = Arrival(observe=lambda: (seen,))
        hand_over(self._arrivals, arrival, lambda: not self._is_closing.is_set())
