"""Watch of a machine of the cluster that a fault holds: what the cluster says of it.

    its node ───┬─ taint `unschedulable` ─► cordon, uncordon       told of each node that was
                └─ condition Ready ───────► not_ready, ready       there when the fault began
    its lease ──── renewals ──────────────► silent, renewed

It is asked once a second and not watched: that needs no right to list the machines of others. The
taint is put there by the cluster's controllers, not by whoever cordons.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.fleet.cluster_protocols import SILENT_S
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.cordon import MACHINES
from chaoslab.fleet.kubernetes.parts import mapping, mappings
from chaoslab.fleet.kubernetes.resources import Resource
from chaoslab.fleet.kubernetes.watch import CLUSTER
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals, hand_over

_LEASES: Final = Resource(
    api="apis/coordination.k8s.io/v1", plural="leases", within="namespaces/kube-node-lease/"
)
_CORDONED: Final = "node.kubernetes.io/unschedulable"
_LOOK_S: Final = 1.0
_AWAY_S: Final = 5.0
"""An answer that takes longer comes of a server that was away."""


class Whose(NamedTuple):
    """A node of the run on the machine."""

    node: str
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineState:
    """A machine at one moment, by the cluster's word."""

    is_cordoned: bool = False
    is_ready: bool = True
    reason: str = ""
    """Why it is ready or not: KubeletReady, NodeStatusUnknown, …"""
    is_silent: bool = False
    """Whether its lease was not renewed for `SILENT_S`."""


def machine_state(machine: Mapping[str, Json], *, unrenewed_s: float = 0.0) -> MachineState:
    """What a node of the cluster says. `unrenewed_s`: since its lease was renewed last."""
    taints = mappings(machine, "spec", "taints")
    conditions = mappings(machine, "status", "conditions")
    ready = next((one for one in conditions if one.get("type") == "Ready"), dict[str, Json]())
    return MachineState(
        is_cordoned=any(one.get("key") == _CORDONED for one in taints),
        is_ready=ready.get("status") == "True",
        reason=str(ready.get("reason", "")),
        is_silent=unrenewed_s >= SILENT_S,
    )


def changes(before: MachineState, now: MachineState) -> Iterator[tuple[str, str]]:
    """What happened to a machine between two looks, each with the cluster's word for why."""
    if before.is_cordoned != now.is_cordoned:
        yield ("cordon" if now.is_cordoned else "uncordon"), _CORDONED
    if before.is_silent != now.is_silent:
        yield ("silent" if now.is_silent else "renewed"), ""
    if before.is_ready != now.is_ready:
        yield ("ready" if now.is_ready else "not_ready"), now.reason


class MachineWatch:
    """Looks at a machine on a thread of its own, until it is closed."""

    def __init__(
        self, cluster: Cluster, machine: str, whose: Sequence[Whose], arrivals: Arrivals
    ) -> None:
        self.machine = machine
        self._cluster, self._whose, self._arrivals = cluster, whose, arrivals
        self._is_closing = threading.Event()
        self._state = MachineState()
        self._renewed: tuple[str, float] | None = None
        """What its lease says, and since when, by this machine's clock, but for the times in which
        the server was away: then no kubelet could renew it.
        """
        self._looked_s = time.monotonic()
        threading.Thread(target=self._run, name=f"machine {machine}", daemon=True).start()

    @property
    def is_well(self) -> bool:
        """Whether it was ready, and its lease renewed, at the last look."""
        return self._state.is_ready and not self._state.is_silent

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
        found = self._cluster.get(MACHINES, self.machine)
        now = machine_state(found, unrenewed_s=self._unrenewed_s())
        for action, reason in changes(self._state, now):
            for one in self._whose:
                self._tell(one, action, reason)
        self._state = now

    def _unrenewed_s(self) -> float:
        lease = self._cluster.get(_LEASES, self.machine)
        said = str(mapping(lease, "spec").get("renewTime"))
        now_s = time.monotonic()
        away_s, self._looked_s = now_s - self._looked_s, now_s
        if self._renewed is None or self._renewed[0] != said:
            self._renewed = said, now_s
        elif away_s > _AWAY_S:
            self._renewed = said, self._renewed[1] + away_s
        return now_s - self._renewed[1]

    def _tell(self, whose: Whose, action: str, reason: str) -> None:
        seen = Observation(
            source=CLUSTER,
            kind=Kind.ENGINE_REPORTED,
            data={
                "node": whose.node, "incarnation": whose.incarnation, "action": action,
                "at_s": time.time(), "reason": reason, "machine": self.machine,
            },
        )  # fmt: skip
        hand_over(
            self._arrivals, Arrival(observe=lambda: (seen,)), lambda: not self._cluster.is_closing
        )
