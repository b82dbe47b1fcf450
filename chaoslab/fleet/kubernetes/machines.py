"""Machines of the cluster that faults of one run have drained or cordoned, by injection.

    drain ─► undo log ─► MachineWatch ─► cordon ─► evictions ─► … ─► uncordon

The pods of others stay where they are: only this run's are evicted.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import cordon, names
from chaoslab.fleet.kubernetes.machine_watch import MachineWatch, Whose
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.pod_state import state_of
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.nodes.arrivals import together
from chaoslab.undo.base import PendingUndos


class Machines:
    """Machines that are cordoned now."""

    def __init__(self, run_context: RunContext) -> None:
        self._context = run_context
        self._cluster, self._run = run_context.run_objects.cluster, run_context.run_objects.run
        self._undos = PendingUndos(run_context.undo_log)
        self._cordoned: dict[str, list[MachineWatch]] = defaultdict(list)
        """By injection."""

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
