"""Machines of the cluster that faults of one run hold, by injection.

    drain ──────► undo log ─► cordon ─► evictions ─┐
                                                   ├─► MachineWatch ─► … ─► uncordon, await_kubelet
    stop_kubelet ──► a Job on the machine ─────────┘

The pods of others stay where they are: only this run's are evicted. A kubelet that was stopped goes
on by itself (`kubelet_stopper`), so nothing of it is owed.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from chaoslab.core.errors import FleetError
from chaoslab.fleet.cluster_protocols import SILENT_S, STOPPED_MOST_S
from chaoslab.fleet.kubernetes import cordon, names
from chaoslab.fleet.kubernetes.machine_watch import MachineWatch, Whose
from chaoslab.fleet.kubernetes.manifests import CONTAINER
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.pod_state import state_of
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import JOBS, PODS
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.kubernetes.stopper import stopper
from chaoslab.fleet.nodes.arrivals import together
from chaoslab.undo.base import PendingUndos

_LATE_S: Final = 15.0
"""How much longer than asked for a stop may take, its pod's start included."""
_log = logging.getLogger(__name__)


class _Stopped(NamedTuple):
    """A machine whose kubelet was stopped, and the Job that stops it."""

    watch: MachineWatch
    job: str
    until_s: float
    """After this, on the monotonic clock, a Job that has not started will not."""


class Machines:
    """Machines that are cordoned or without a kubelet now."""

    def __init__(self, run_context: RunContext) -> None:
        self._context = run_context
        self._cluster, self._run = run_context.run_objects.cluster, run_context.run_objects.run
        self._undos = PendingUndos(run_context.undo_log)
        self._cordoned: dict[str, list[MachineWatch]] = defaultdict(list)
        """By injection."""
        self._stopped: dict[str, list[_Stopped]] = defaultdict(list)
        """The same."""

    # ---------------------------------------------------------------- drains

    def drain(self, injection: str, lives: Sequence[PodIncarnation]) -> None:
        """Cordon their machines, then evict these pods, and what else this run has there."""
        machines = sorted({life.machine for life in lives})
        for machine in machines:
            cordon.require_free(self._cluster, machine)
        for machine in machines:
            self._undos.owe(
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
            self._undos.settle(names.UNCORDON, watch.machine)
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

    # ---------------------------------------------------------------- kubelets

    def stop_kubelet(self, injection: str, lives: Sequence[PodIncarnation], for_s: float) -> None:
        """Have the kubelets of their machines stopped; returns before they are.

        FleetError for a time that nobody would see, or that is too long.
        """
        if not SILENT_S < for_s <= STOPPED_MOST_S:
            raise FleetError(
                f"`for` must be above {SILENT_S:g}s and at most {STOPPED_MOST_S:g}s: a "
                "shorter stop is not seen, and after a longer one the cluster deletes the pods"
            )
        manifests, machines = self._context.run_objects.manifests, {life.machine for life in lives}
        for number, machine in enumerate(sorted(machines)):
            job = manifests.name("kubelet", injection, str(number))
            self._cluster.create(stopper(manifests, job, machine, for_s))
            until_s = time.monotonic() + for_s + _LATE_S
            self._stopped[injection].append(_Stopped(self._watch(machine, lives), job, until_s))

    def await_kubelet(self, injection: str) -> None:
        """FleetError unless all of them are back, by the word of the cluster and of the Jobs."""
        for stopped in tuple(self._stopped[injection]):
            machine = stopped.watch.machine
            if not (self._has_ended(stopped) and stopped.watch.is_well):
                raise FleetError(f"the kubelet of {machine} is not back: it goes on by itself")
            self._cluster.delete(JOBS, stopped.job)
            stopped.watch.close()
            self._stopped[injection].remove(stopped)

    def is_without_kubelet(self, machine: str) -> bool:
        """Whether the kubelet of a machine may be stopped now: then no pod there can be asked.

        Any thread may ask.
        """
        stopped = tuple(self._stopped.values())
        return any(one.watch.machine == machine for all_of in stopped for one in all_of)

    def _has_ended(self, stopped: _Stopped) -> bool:
        """Whether a Job has stopped and continued its kubelet, or could not even begin to."""
        job = stopped.job
        begun = [one for one in map(state_of, self._cluster.pods(f"job-name={job}"))
                 if one.has_started]  # fmt: skip
        for one in begun:
            if one.exit_code:
                lines = self._cluster.lines(PODS, one.name, {"container": CONTAINER}, silent_s=10.0)
                _log.warning("%s: %s", job, b" ".join(lines).decode(errors="replace"))
        if not begun and time.monotonic() > stopped.until_s:
            _log.warning("%s has not started: may pods see the processes of a machine here?", job)
            return True
        return bool(begun) and all(one.has_ended for one in begun)

    def _watch(self, machine: str, lives: Sequence[PodIncarnation]) -> MachineWatch:
        whose = [Whose(one.spec.name, one.incarnation) for one in lives if one.machine == machine]
        return MachineWatch(self._cluster, machine, whose, self._context.arrivals)
