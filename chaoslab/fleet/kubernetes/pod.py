"""One incarnation of a node as the pod of a Job: what it prints, its files, its end.

    Job ─► pod ─► LogFollower ─► queue ─► the fleet's one thread ─► take, finish ─► observations
                                          └ lines that are no events ─► stderr.log

    nodes/<name>/<incarnation>/  command.json stdout.log stderr.log exit.json, as of a local node

A log does not tell standard output from standard error: both are in stdout.log, and stderr.log has
the lines that are no events. Signals reach its processes by a command in the pod.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

from chaoslab.core.ended import unless_ended
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.fleet.base import NodeSpec, probed
from chaoslab.fleet.incarnation_files import end_by_code
from chaoslab.fleet.kubernetes import scripts
from chaoslab.fleet.kubernetes.cpu_meter import CpuCount
from chaoslab.fleet.kubernetes.log_follower import LogFollower, PodOfJob
from chaoslab.fleet.kubernetes.manifests import NODE, PRIVATE
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.pods import Pods, RunContext
from chaoslab.fleet.kubernetes.refusals import Missing, Refused
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.nodes.arrivals import Arrival
from chaoslab.fleet.nodes.incarnation import CarriedIncarnation
from chaoslab.record.exits import ENDING_SIGNALS

TO_ALL: Final = ENDING_SIGNALS - {"SIGHUP"}
"""SIGHUP is a notice to the main process."""
_TICKS: Final = 100
_PAGE: Final = 4096
_STARTING_S: Final = 30.0
"""Time for which a request to a pod waits for its start."""


class PodIncarnation(CarriedIncarnation, Pods):
    """A pod of a Job that was created for it, or that the cluster put in the place of an earlier
    pod of the same Job. `is_over` once the end of its pod was noticed.
    """

    index = 0
    """Number of its pod in the Job."""

    def __init__(
        self,
        spec: NodeSpec,
        incarnation: int,
        run_context: RunContext,
        replacement: PodState | None = None,
        *,
        is_asked: bool = False,
    ) -> None:
        """Create its Job, unless its pod is a `replacement` that is there.

        `is_asked`: it was chaoslab that had the cluster start that.

        FleetError if the server refuses; then nothing is left of it.
        """
        super().__init__(spec, incarnation, run_context)
        self.run_context, self._arrivals = run_context, run_context.arrivals
        self.cluster = run_context.run_objects.cluster
        own_job = run_context.run_objects.job_of(spec, incarnation)
        self.job = own_job if replacement is None else replacement.job
        self._replacement = replacement
        self.started_by = "" if replacement is None or is_asked else "cluster"
        self.was_out_of_memory = False
        """Whether the kernel killed it out of memory, by the cluster's word."""
        self._cpu: CpuCount | None = None
        self._state: PodState | None = None
        self._runs = threading.Event()
        """Set once its container has started, or it never will."""
        self._has_ended = threading.Event()
        self._is_seen_dead = False
        """Seen dead in its pod, not reported yet: the cluster knows a second or two later."""
        self._begin()

    @property
    def pod(self) -> str:
        """Name of its pod. FleetError while it does not run."""
        if self._state is None:
            raise FleetError(f"{self.spec.name} has no running pod")
        return self._state.name

    @property
    def machine(self) -> str:
        """Name of the node of the cluster that it runs on; empty while it does not run."""
        return self._state.machine if self._state else ""

    @property
    def machines(self) -> frozenset[str]:
        return frozenset({self.machine} - {""})

    @property
    def facts(self) -> Mapping[str, Json]:
        return (self._state or PodState(name="")).facts

    @property
    def undo_facts(self) -> Mapping[str, Json]:
        """Cluster, namespace and pod. FleetError if it does not start."""
        self.await_start()
        return {
            "server": self.cluster.server,
            "context": self.cluster.context,
            "namespace": self.cluster.namespace,
            "pod": self.pod,
        }

    # ---------------------------------------------------------------- beginning

    def _begin(self) -> None:
        manifests = self.run_context.run_objects.manifests
        is_counted = manifests.settings.replaces_pods_of(self.spec.role)
        command = self._command(NODE, PRIVATE, scripts.INCARNATION if is_counted else "")
        with ExitStack() as if_it_fails:
            self._errors = self._open_files(if_it_fails)
            if self._replacement is None:
                if_it_fails.callback(self._withdraw)
                self._create(command)
            where: dict[str, Json] = {
                "job": self.job, "namespace": self.cluster.namespace,
                "context": self.cluster.context,
            }  # fmt: skip
            self._files.begun(self.spec, command, where)
            if_it_fails.pop_all()
        pod = "" if self._replacement is None else self._replacement.name
        self._follower = LogFollower(
            self.cluster, PodOfJob(self.job, self.index, pod), self,
            self.run_context.pods_of(self.job, self.index), start_s=self.run_context.start_s,
        )  # fmt: skip

    def _create(self, command: Sequence[str]) -> None:
        """Create its Job, and the objects that it needs."""
        objects = self.run_context.run_objects
        objects.prepare(self.spec)
        job = objects.manifests.node(self.spec, self.incarnation, command, self._environment)
        objects.create_job(self.spec, job)

    @property
    def _environment(self) -> Mapping[str, str]:
        """Environment of its processes."""
        hears = {"CHAOSLAB_HEARS": "1"} if self.spec.hears else {}
        return {**self.spec.environment, NODE_MARK: self.mark, **hears}

    def _withdraw(self) -> None:
        """Delete its Job, which may be there all the same if the server's answer was lost."""
        self.run_context.run_objects.withdraw(self.spec, self.job)

    # ---------------------------------------------------------------- on the follower's thread

    def pod_started(self, state: PodState) -> None:
        """Its container runs."""
        self._state = state
        self._runs.set()
        self._hand_over(Arrival(observe=self.begun))

    def pod_printed(self, lines: bytes) -> None:
        """Whole lines of its log."""
        self._hand_over(Arrival(observe=partial(self.take, lines)))

    def pod_ended(self, state: PodState | None) -> None:
        """End of its container; None: its pod is gone."""
        self._has_ended.set()
        self._runs.set()
        if state is None and self._state is not None:
            state = self.run_context.last_of(self._state.name)
        self._hand_over(Arrival(observe=partial(self.finish, state)))

    def pod_failed(self, error: FleetError) -> None:
        """It does not start."""
        self._has_ended.set()
        self._runs.set()
        self._hand_over(Arrival(error=FleetError(f"{self.spec.name}: {error}")))
        self._hand_over(Arrival(observe=partial(self.finish, None)))

    # ---------------------------------------------------------------- while it runs

    def begun(self) -> Sequence[Observation]:
        """Once its container runs: NODE_STARTED."""
        return () if self.is_over else (self.started(),)

    def take(self, chunk: bytes) -> list[Observation]:
        """The observations in what it printed."""
        if self.is_over:
            return []
        if not chunk.startswith(b"{"):
            with suppress(OSError):  # a full disk: stdout.log has it, or exit.json what is missing
                self._errors.write(chunk)
        return self._output.take(chunk)

    @property
    def has_started(self) -> bool:
        return self._state is not None

    def await_start(self) -> None:
        if not self._runs.wait(_STARTING_S) or self._state is None:
            raise FleetError(f"{self.spec.name} ({self.where}) has not started yet")

    @property
    def has_exited(self) -> bool:
        """Whether it ended, noticed or not."""
        if self.is_over or self._has_ended.is_set():
            return True
        if self._state is None:
            return False
        try:
            return state_of(self.cluster.pod(self._state.name)).has_ended
        except Missing:
            return True

    def signal(self, name: str) -> None:
        """A signal that ends processes to all of its processes, another one to the main one."""
        if self.is_over:
            return
        self.note_sent(name)
        if name != "SIGKILL":
            self._send(name, to_all=name in TO_ALL)
            return
        self.await_start()
        self._is_seen_dead = bool(self.execute((*scripts.KILL_ALL, "KILL")))

    def stop(self) -> None:
        self._send("SIGSTOP", to_all=True)

    def resume(self) -> None:
        """Let all its processes go on."""
        self._send("SIGCONT", to_all=True)

    def _send(self, name: str, *, to_all: bool) -> None:
        """Send a signal by a command in the pod, which does nothing if the process is gone."""
        command = scripts.SIGNAL_ALL if to_all else scripts.SIGNAL_MAIN
        self.await_start()
        self.execute((*command, name.removeprefix("SIG")))

    def execute(self, command: Sequence[str], stdin: bytes | None = None) -> str | None:
        """Output of a command in the pod; None if its container has ended."""
        return unless_ended(
            lambda: self.cluster.exec(self.pod, command, stdin=stdin), lambda: self.has_exited
        )

    def _write(self, line: bytes) -> None:
        self.await_start()
        said = self.execute(scripts.TELL, stdin=line)
        if said is None and not self.is_ending:  # else it may have ended of what it was told
            raise OSError(f"{self.where} has ended")

    def delete(self) -> None:
        self.await_start()
        with self.being_ended("SIGTERM", "SIGKILL", unless=Refused):
            if not self.cluster.delete(PODS, self.pod, is_forced=True):
                raise Missing(f"the pod {self.pod} of {self.spec.name} was gone already")

    def delete_job(self) -> None:
        self.await_start()
        with self.being_ended("SIGTERM", "SIGKILL", unless=Refused):
            if not self.run_context.run_objects.delete_job(self.job):
                raise Missing(f"the Job {self.job} of {self.spec.name} was gone already")

    def evict(self) -> None:
        self.await_start()
        with self.being_ended("SIGTERM", unless=Refused):
            self.cluster.evict(self.pod)

    def cpu_used(self) -> tuple[float, float] | None:
        """Last measured CPU time; None where it is not measured (`cpu_meter`)."""
        cpu = self._cpu
        return None if cpu is None else (cpu.at_s, cpu.used_s)

    def measure_cpu(self) -> None:
        """Measure CPU time by its cgroup. FleetError if there is none."""
        self._cpu = CpuCount.of(self.cluster.exec(self.pod, scripts.CPU_COUNT))

    def probe(self) -> Observation:
        """State, memory and CPU time of its main process, by /proc in its pod.

        Right after a kill it is gone as soon as that showed it. Another call waits for
        the cluster's word, and sees its exit as well.
        """
        name, incarnation = self.spec.name, self.incarnation
        gone = probed(name, incarnation=incarnation, pid=0)
        if self._is_seen_dead:
            self._is_seen_dead = False
            return gone
        if self._state is None and not self.is_over:
            return probed(name, incarnation=incarnation, pid=0, state="unknown")
        said = None if self.has_exited else self.execute(scripts.STAT)
        if not said:
            return gone
        fields = said.rpartition(")")[2].split()
        return probed(
            name,
            incarnation=incarnation,
            pid=0,
            state=fields[0],
            cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
            rss_bytes=int(fields[21]) * _PAGE,
        )

    # ---------------------------------------------------------------- its end

    def finish(self, state: PodState | None) -> list[Observation]:
        """Once its pod has ended or is gone: its last line, then NODE_EXITED."""
        if self.is_over:
            return []
        last = self._output.end()
        self._release()
        ending = ending_of(state, self._sent)
        self.was_out_of_memory = ending["out_of_memory"] is True
        return self._report_exit(last, ending, self._output.lost_log_bytes)

    def _close(self) -> None:
        self._follower.close()


def ending_of(state: PodState | None, sent: Sequence[str]) -> dict[str, Json]:
    """Exit code and signal of a pod that has ended.

    Of one that is gone they were not seen: then the last signal that it was sent.
    """
    if state is None or state.exit_code is None:
        signal = sent[-1] if sent else None
        return {"exit_code": None, "signal": signal, "out_of_memory": False, "is_seen": False}
    return {**end_by_code(state.exit_code), "out_of_memory": state.was_out_of_memory}
