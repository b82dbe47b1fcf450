"""Nodes as Jobs of a Kubernetes cluster: the fleet `kubernetes`.

    start ──► Pods (one Job) ──► cluster
    kill, pause, signals … ────► a command in the pod   threads ─► queue ─► poll
    delete_pod, delete_job, … ─► cluster                              ▲
    logs of the pods, what the cluster reports of them ───────────────┘

Every incarnation is a Job that the cluster never starts again, with one pod, or one for each host
of a learner (`host_pods`); where the cluster is to heal (`PodSettings.replaces`), it is a pod of
the node's one Job, or of a Job in a JobSet (`job_sets`), and `restart` waits for the next. What a
node keeps is on a claim that its next incarnation finds again, wherever the cluster puts it. The
syncer has a Service, so that its address outlives its pods. Learners are told to end, to wait and
to go on by commands in their pods: that needs no rights on the machines.

Other threads only carry bytes to the queue on which `poll` waits.
"""

import queue
import resource
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.fleet.base import Ability, Node, NodeSite, NodeSpec, Role, host_number
from chaoslab.fleet.cluster_protocols import HasJobs, HasMachines
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.contact import Contact
from chaoslab.fleet.kubernetes.cpu_meter import CpuMeter
from chaoslab.fleet.kubernetes.host_pods import HostPods
from chaoslab.fleet.kubernetes.job_watch import JobSetWatch, JobWatch
from chaoslab.fleet.kubernetes.machines import Machines
from chaoslab.fleet.kubernetes.manifests import CACHE, NODE, PROXY, SHARED, SYNCER_PORT
from chaoslab.fleet.kubernetes.names import LABEL_NODE, LABEL_RUN
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.pod_state import PodState
from chaoslab.fleet.kubernetes.pod_watch import NumberedPods, PodWatch
from chaoslab.fleet.kubernetes.pods import ClusterFleet, Pods, RunContext, Setup, killed
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from chaoslab.fleet.kubernetes.stress_drivers import driver
from chaoslab.fleet.kubernetes.watch import Watch
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.nodes.arrivals import observed, taken, together
from chaoslab.fleet.protocols import StartsTogether
from chaoslab.fleet.storage.files import FilesBeside
from chaoslab.undo.base import UndoLog

_ARRIVALS_MOST: Final = 8192
_LOOK_S: Final = 0.25
"""Interval of the looks for hosts that are to be killed, while there are any."""
_FILES: Final = 65536
"""Most open files, if the system allows it: each node has two logs and a connection."""


class KubernetesFleet(ClusterFleet[Pods], HasJobs, HasMachines, StartsTogether):
    """A fleet of Jobs; see `base.Fleet` and `protocols` for what each verb promises."""

    kind = "kubernetes"
    lacking = frozenset(
        {
            Ability.VOLUME,
            Ability.CUT_POWER,
            Ability.DUTY_CYCLE,
            Ability.CROWD,
        }
    )
    node_site = NodeSite(
        python="python3",
        listen=f"0.0.0.0:{SYNCER_PORT}",
        snapshots=f"{SHARED}/snapshots",
        cache=f"{CACHE}/steps",
    )

    def __init__(
        self,
        run_directory: Path,
        clock: Clock,
        *,
        undo_log: UndoLog,
        cluster: Cluster,
        setup: Setup,
        node_links: NodeLinks | None = None,
    ) -> None:
        """Logs go below `run_directory`, undo entries to `undo_log`."""
        directory = run_directory.resolve()
        self._objects = RunObjects(cluster, directory, undo_log, setup.pods, setup.lease_s)
        self._run_context = RunContext(
            run_directory=directory,
            clock=clock,
            undo_log=undo_log,
            run_objects=self._objects,
            arrivals=queue.Queue(_ARRIVALS_MOST),
            start_s=setup.start_s,
        )
        super().__init__(self._run_context, node_links, driver)
        self._cluster = cluster
        self._machines = Machines(self._run_context)
        self._cpu_meter = CpuMeter(self._measured)
        self._replacements: dict[str, PodState] = {}
        """Pod that the cluster put in the place of a node's last one, by node."""
        self._asked: set[str] = set()
        """Nodes whose next pod the cluster starts on our request."""

    def __enter__(self) -> Self:
        _allow_files()
        with ExitStack() as if_it_fails:
            if_it_fails.callback(self._abandon)
            self._open()
            super().__enter__()
            if_it_fails.pop_all()
        return self

    def _open(self) -> None:
        self._objects.open()
        run, arrivals = self._run_context, self._run_context.arrivals
        selector = f"{LABEL_RUN}={self._objects.run},{LABEL_NODE}"
        pods = PodWatch(self._cluster, selector, arrivals, NumberedPods(self._note_replacement))
        contact = Contact(self._cluster, run.clock, arrivals)
        jobs = JobWatch(self._cluster, selector, arrivals)
        watches: list[Watch | Contact] = [pods, jobs, contact]
        if self._objects.manifests.settings.in_job_sets:
            of_run = f"{LABEL_RUN}={self._objects.run}"
            watches.append(JobSetWatch(self._cluster, of_run, arrivals))
        self._run_context = replace(run, last_of=pods.last_of, pods_of=pods.pods_of)
        self._hear_by(*watches)
        if self._objects.manifests.settings.measures_cpu:
            self._cpu_meter.start()

    def _abandon(self) -> None:
        """Leave what there is to the undo: its lease is renewed no more."""
        self._cpu_meter.close()
        self._objects.abandon()
        self._close_cluster()

    @property
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        return (
            self._cpu_meter.close,
            self._machines.close,
            self._end_all,
            self._stress_registry.relieve_all,
            self._close_links,
            self._close_objects,
        )

    def _end_all(self) -> list[str]:
        """End all pods; the rest is deleted with the objects of the run."""
        alive = [
            life for life in self._lives.values()
            if life.has_started and not life.is_over
        ]  # fmt: skip
        try:
            self._wait_for(killed(alive), self.end_s_max)
        finally:
            for life in self._lives.values():
                life.abandon()
        return []

    def _close_objects(self) -> None:
        try:
            self._objects.close()
        finally:
            self._close_cluster()

    # ---------------------------------------------------------------- verbs

    @contextmanager
    def start_together(self) -> Iterator[str | None]:
        if not self._objects.manifests.settings.in_job_sets:
            yield None
            return
        with self._objects.job_sets.gathering():
            yield self.node_site.listen

    def delete_job(self, *names: str) -> None:
        """Delete the Job with its pod, which has its grace."""
        lives = [self._running(name) for name in names]
        together(lives, lambda life: life.delete_job())

    def beside(self, *names: str) -> Sequence[str]:
        lives = [life for life in tuple(self._lives.values()) if not life.is_over]
        if waiting := [life.spec.name for life in lives if not life.has_started]:
            raise FleetError(f"{', '.join(waiting)} has not started, and may be put on any machine")
        machines = frozenset[str]().union(*(self._running(name).machines for name in names))
        hit = [life for life in lives if life.machines & machines]
        if several := [life.spec.name for life in hit if isinstance(life, HostPods)]:
            raise FleetError(
                f"{', '.join(several)} has several hosts, and would be hit: a drain is "
                "for learners of one"
            )
        if self.links and self._objects.machines_of(PROXY) & machines:
            raise FleetError(
                "the proxy that carries the links of the run would be hit: keep learners apart "
                "from it by fleet.pod and fleet.other_pods, such as a nodeSelector"
            )
        return tuple(life.spec.name for life in hit)

    def drain(self, injection: str, *names: str) -> None:
        """FleetError unless they are all of the run on their machines."""
        if more := sorted(set(self.beside(*names)) - set(names)):
            raise FleetError(f"{', '.join(more)} would be hit, too, on the same machine")
        lives = map(self._running, names)
        alone = [life for life in lives if isinstance(life, PodIncarnation)]  # see `beside`
        self._machines.drain(injection, alone)

    def uncordon(self, injection: str) -> None:
        self._machines.uncordon(injection)

    def kill_host(self, name: str, host: int) -> None:
        life = self._running(name)
        if isinstance(life, HostPods):
            life.kill_host(host_number(life.spec, host))
        else:
            super().kill_host(name, host)

    def fail_chip(self, name: str, host: int) -> None:
        life = self._running(name)
        if isinstance(life, HostPods):
            life.fail_chip(host_number(life.spec, host))
        else:
            super().fail_chip(name, host)

    def restart(self, name: str) -> Node:
        """Where the cluster is to start it, take up what it has started; until then it is dead.

        Of a JobSet, it also starts one that left in order, once the completed Job is deleted.
        """
        life = self._latest(name)
        settings = self._objects.manifests.settings
        if life is None or not settings.replaces_pods_of(life.spec.role):
            return super().restart(name)
        has_left = self._objects.has_ended(life.job)  # in order: the cluster replaces it no more
        if has_left and not self._objects.job_sets.has(life.job):
            return super().restart(name)
        if not life.is_over and (life.is_ending or life.has_exited):
            self._await_end(life)  # meanwhile the next one may be taken up
        if has_left and life.is_over and name not in self._asked:
            self._objects.delete_job(life.job)
            self._asked.add(name)
        return self._node(name)

    def _address(self, name: str) -> str:
        """Address of its Service, which is made for it."""
        return self._objects.address(name)

    # ---------------------------------------------------------------- incarnations

    def _measured(self) -> Sequence[PodIncarnation]:
        """Learners of one pod whose CPU time can be measured; on the thread of the meter."""
        return [
            life for life in tuple(self._lives.values())
            if isinstance(life, PodIncarnation) and life.spec.role is Role.LEARNER
            and life.has_started and not life.is_over
        ]  # fmt: skip

    def _begin(self, spec: NodeSpec, incarnation: int) -> Pods:
        pods = self._objects.manifests.settings.pods_of(spec)
        kind = PodIncarnation if pods == 1 else HostPods
        return kind(spec, incarnation, self._run_context)

    def _say_started(self, begun: Pods) -> None:
        """Nothing yet: its pods say so when they run."""

    def _disk(self, spec: NodeSpec) -> FilesBeside:
        return FilesBeside(spec, NODE, partial(self._objects.run_beside, spec.name))

    def _signal(self, lives: Sequence[Pods], name: str) -> None:
        together([life for life in lives if not life.is_over], lambda life: life.signal(name))

    def _pause(self, lives: Sequence[Pods]) -> None:
        together(lives, lambda life: life.stop())

    def _wait(self, limit_s: float) -> None:
        """Record what has arrived, after waiting for the first of it."""
        several = [one for one in tuple(self._lives.values()) if isinstance(one, HostPods)]
        if due := [life for life in several if life.waits]:
            limit_s = min(limit_s, _LOOK_S)
        for life in due:
            self._tend(life.spec.name, partial(_end_rest, life))
        for arrival in taken(self._run_context.arrivals, limit_s):
            self._record(observed(arrival, self._troubles, is_open=self._is_open))
        self._take_up_replacements()

    def _note_replacement(self, state: PodState) -> Sequence[Observation]:
        self._replacements[state.node] = state
        return ()

    def _take_up_replacements(self) -> None:
        """Pods that the cluster has started, each once the one before it is over."""
        for name, state in list(self._replacements.items()):
            life = self._lives[name]
            if life.is_over:
                del self._replacements[name]
                if state.incarnation > life.incarnation and self._is_open:
                    begun = PodIncarnation(
                        life.spec, state.incarnation, self._run_context, state,
                        is_asked=name in self._asked,
                    )  # fmt: skip
                    self._asked.discard(name)
                    self._lives[name] = begun


def _end_rest(life: HostPods) -> None:
    with suppress(FleetError):  # the server does not answer: it is asked again later
        life.end_rest()


def _allow_files() -> None:
    """Raise the limit of this process, which is 1024 on most systems, as far as it may."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
