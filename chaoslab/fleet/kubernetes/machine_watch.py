"""Watch of a machine of the cluster that a fault acts on: what the cluster says of it.

    its node ─── taint `unschedulable` ─► cordon, uncordon, of each node of the run that was there
                                                            when the fault began

It is asked once a second and not watched: that needs no right to list the machines of others. The
taint is put there by the cluster's controllers, not by the client that cordons.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.cordon import MACHINES
from chaoslab.fleet.kubernetes.parts import mappings
from chaoslab.fleet.kubernetes.watch import CLUSTER
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals, hand_over

_CORDONED: Final = "node.kubernetes.io/unschedulable"
_LOOK_S: Final = 1.0


class Whose(NamedTuple):
    """A node of the run on the machine."""

    node: str
    incarnation: int


class MachineWatch:
    """Looks at a machine on a thread of its own, until it is closed."""

    def __init__(
        self, cluster: Cluster, machine: str, whose: Sequence[Whose], arrivals: Arrivals
    ) -> None:
        self.machine = machine
        self._cluster, self._whose, self._arrivals = cluster, whose, arrivals
        self._is_closing = threading.Event()
        self._is_cordoned = False
        threading.Thread(target=self._run, name=f"machine {machine}", daemon=True).start()

    def close(self) -> None:
        """Stop, after a last look a moment later."""
        self._is_closing.set()

    # ---------------------------------------------------------------- on its thread

    def _run(self) -> None:
        is_last = False
        while not is_last and not self._cluster.is_closing:
            is_last = self._is_closing.is_set()
            time.sleep(_LOOK_S)
            with suppress(FleetError):  # the server is away
                self._look()

    def _look(self) -> None:
        taints = mappings(self._cluster.get(MACHINES, self.machine), "spec", "taints")
        is_cordoned = any(one.get("key") == _CORDONED for one in taints)
        if is_cordoned != self._is_cordoned:
            for one in self._whose:
                self._tell(one, "cordon" if is_cordoned else "uncordon")
        self._is_cordoned = is_cordoned

    def _tell(self, whose: Whose, action: str) -> None:
        reported = EngineReported(
            node=whose.node,
            incarnation=whose.incarnation,
            action=action,
            reason=_CORDONED,
            machine=self.machine,
        )
        seen = Observation.of(CLUSTER, reported)
        hand_over(
            self._arrivals, Arrival(observe=lambda: (seen,)), lambda: not self._cluster.is_closing
        )
