"""Machines of the cluster that faults of one run have drained or cordoned, by injection.

    drain ─► undo log ─► MachineWatch ─► cordon ─► evictions ─► … ─► uncordon

The pods of others stay where they are: only this run's are evicted.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.kubernetes import cordon, names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.cordon import MACHINES
from chaoslab.fleet.kubernetes.parts import mappings
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.pod_state import state_of
from chaoslab.fleet.kubernetes.pods import RunContext
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.watch import CLUSTER
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals, hand_over, together
from chaoslab.undo.base import PendingUndos

_CORDONED: Final = "node.kubernetes.io/unschedulable"
_LOOK_S: Final = 1.0


class Whose(NamedTuple):
    """A node of the run on the machine."""

    node: str
    incarnation: int


class MachineWatch:
    """Watch of a machine of the cluster that a fault acts on: what the cluster says of it.

        its node ── taint `unschedulable` ─► cordon, uncordon, of each node of the run that was
                                             there when the fault began

    It is asked once a second, on a thread, and not watched: that needs no right to list the
    machines of others. The taint is put there by the cluster's controllers, not by the client that
    cordons.
    """

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


class Machines:
    """Machines that are cordoned now."""

    def __init__(self, run_context: RunContext) -> None:
        self._context = run_context
        self._cluster, self._run = run_context.run_objects.cluster, run_context.run_objects.run
        self._undos = PendingUndos(run_context.undo_log)
        self._cordoned: dict[str, list[MachineWatch]] = defaultdict(list)
        """Watches of cordoned machines, by injection."""

    def drain(self, injection: str, lives: Sequence[PodIncarnation]) -> None:
        """Cordon their machines, then evict these pods, and what else this run has there."""
        machines = sorted({life.machine for life in lives})
        for machine in machines:
            cordon.require_free(self._cluster, machine)
        for machine in machines:
            self._undos.open(
                names.UNCORDON, machine, server=self._cluster.server,
                context=self._cluster.context, namespace=self._cluster.namespace, run=self._run,
                machine=machine,
            )  # fmt: skip
            self._cordoned[injection].append(self._watch(machine, lives))
            cordon.cordon(self._cluster, machine, self._run)
        together(lives, PodIncarnation.evict)
        selector = f"{names.LABEL_RUN}={self._run},!{names.LABEL_NODE}"
        for state in map(state_of, self._cluster.pods(selector)):
            if state.machine in machines and not state.has_ended:
                with suppress(Missing):  # it has just gone by itself
                    self._cluster.evict(state.name)

    def uncordon(self, injection: str) -> None:
        """Let the machines that it drained take pods again. FleetError if the cluster refuses."""
        for watch in tuple(self._cordoned[injection]):
            cordon.uncordon(self._cluster, watch.machine, self._run)
            self._undos.close(names.UNCORDON, watch.machine)
            watch.close()
            self._cordoned[injection].remove(watch)

    def close(self) -> None:
        """Uncordon all of them; FleetError names those that stay cordoned."""
        refused = []
        for injection in tuple(self._cordoned):
            try:
                self.uncordon(injection)
            except FleetError as error:
                refused.append(str(error))
        if refused:
            raise FleetError("; ".join(refused))

    def _watch(self, machine: str, lives: Sequence[PodIncarnation]) -> MachineWatch:
        whose = [Whose(one.spec.name, one.incarnation) for one in lives if one.machine == machine]
        return MachineWatch(self._cluster, machine, whose, self._context.arrivals)
