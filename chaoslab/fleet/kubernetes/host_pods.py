"""Incarnation of a learner of several hosts: the pods of an indexed Job, which are one node.

    Job ─┬─ pod 0 ─► HostPod ─┐               ┌─ node.started and host.started, once all of them run
         └─ pod 1 ─► HostPod ─┴─► HostPods ───┴─ host.lost, node.exited, once all of them have ended

    nodes/<name>/<incarnation>/         files of host 0, which speaks for the learner
    nodes/<name>/<incarnation>/host-1/  those of host 1

When the first of its pods ends, the others are killed (`hosts_life`); the Job, which never replaces
a pod, ends them as well. A signal that ends or stops goes to all hosts, any other one and the test
hooks to host 0.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from secrets import token_hex
from typing import Final, TypeAlias

from chaoslab.core.events import Json, Observation
from chaoslab.core.payloads import NodeExited, NodeStarted
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.hosts_life import HostsLife, of_one_host, probed_as_one
from chaoslab.fleet.kubernetes import scripts
from chaoslab.fleet.kubernetes.pod import TO_ALL, PodIncarnation
from chaoslab.fleet.kubernetes.pod_state import PodState
from chaoslab.fleet.kubernetes.pods import Pods, RunContext
from chaoslab.fleet.kubernetes.refusals import Missing, Refused
from chaoslab.fleet.kubernetes.resources import JOBS
from chaoslab.fleet.nodes.arrivals import together

_NOTICED_S: Final = 5.0
"""Time in which the kubelet reports the end of a pod that others noticed at once."""
Hear: TypeAlias = "Callable[[int, Sequence[Observation]], list[Observation]]"
"""Number of a host and what was observed of it, to what is to be told of the learner."""


class HostPod(PodIncarnation):
    """The pod of one host. That of host 0 creates the Job of all."""

    def __init__(
        self,
        spec: NodeSpec,
        incarnation: int,
        run_context: RunContext,
        *,
        index: int,
        meeting: str,
        hear: Hear,
    ) -> None:
        self.index, self._meeting, self._hear = index, meeting, hear
        super().__init__(spec, incarnation, run_context)

    def _begin(self) -> None:
        if self.index:
            self._directory /= f"host-{self.index}"
        super()._begin()

    def _create(self, command: Sequence[str]) -> None:
        if self.index == 0:
            super()._create(command)

    def _withdraw(self) -> None:
        if self.index == 0:
            super()._withdraw()

    @property
    def _environment(self) -> Mapping[str, str]:
        return {**super()._environment, "CHAOSLAB_MEETING": self._meeting}

    def take_back(self) -> None:
        """Leave nothing of it, since another host cannot be begun."""
        self.abandon()
        self._withdraw()
        self._files.forget()

    def write(self, line: bytes) -> None:
        """Write to the hooks of this host. OSError if it has ended."""
        self._write(line)

    def take(self, chunk: bytes) -> list[Observation]:
        return self._hear(self.index, super().take(chunk))

    def begun(self) -> Sequence[Observation]:
        return self._hear(self.index, super().begun())

    def finish(self, state: PodState | None) -> list[Observation]:
        return self._hear(self.index, super().finish(state))


class HostPods(Pods):
    """All hosts of a learner."""

    def __init__(self, spec: NodeSpec, incarnation: int, run_context: RunContext) -> None:
        """Create its Job, and what its hosts need to meet.

        FleetError if the server refuses; then nothing is left of the Job.
        """
        super().__init__(spec, incarnation, run_context)
        objects = run_context.run_objects
        self.run_context = run_context
        self.job = objects.manifests.name(spec.name, str(incarnation))
        count = objects.manifests.settings.pods_of(spec)
        self._life = HostsLife(node=spec.name, count=count, noticed_s=_NOTICED_S)
        self._started: dict[int, Observation] = {}
        self._held: list[Observation] = []
        """Output of hosts before all of them had started, not reported yet."""
        self._hosts: list[HostPod] = []
        meeting = objects.meeting(spec.name)
        # the Secret that has what they share is made once, for the first incarnation
        of_host = of_one_host(spec, scripts.HOST, scripts.MEETING, token_hex(32))
        of_host = replace(of_host, hosts=spec.hosts)
        with ExitStack() as if_it_fails:
            for index in range(count):
                host = HostPod(
                    of_host, incarnation, run_context, index=index, meeting=meeting,
                    hear=self._of_host,
                )  # fmt: skip
                if_it_fails.callback(host.take_back)
                self._hosts.append(host)
            if_it_fails.pop_all()

    # ---------------------------------------------------------------- observations

    def _of_host(self, index: int, seen: Sequence[Observation]) -> list[Observation]:
        """Observations of a host: none before the last host has started, or all have ended."""
        for one in seen:
            payload = one.payload
            if isinstance(payload, NodeStarted):
                self._life.pids[index] = payload.pid
                self._host_started(index, one)
            elif isinstance(payload, NodeExited):
                self._held += self._life.exited(index, payload, self.place.clock.now_s())
                self.is_over = self._life.is_over
            else:
                self._held.append(one)
        if not self.is_over and len(self._started) < len(self._hosts):
            return []
        said, self._held = self._held, []
        return said

    def _host_started(self, index: int, seen: Observation) -> None:
        self._started[index] = seen
        if len(self._started) == len(self._hosts):
            hosts = (
                self._life.host_started(one, self.incarnation) for one in sorted(self._started)
            )
            self._held[:0] = (self._started[0], *hosts)

    def probe(self) -> Observation:
        """State of host 0, memory and time of all."""
        found: dict[int, Observation] = {}
        together(self._hosts, lambda one: found.update({one.index: one.probe()}))
        return probed_as_one([found[index] for index in sorted(found)])

    def cpu_used(self) -> tuple[float, float] | None:
        """Unknown: it is not measured steadily."""
        return None

    # ---------------------------------------------------------------- state

    @property
    def facts(self) -> Mapping[str, Json]:
        return self._hosts[0].facts

    @property
    def undo_facts(self) -> Mapping[str, Json]:
        """Undo facts of host 0: each has its own."""
        return self._hosts[0].undo_facts

    @property
    def machines(self) -> frozenset[str]:
        return frozenset[str]().union(*(one.machines for one in self._hosts))

    @property
    def has_started(self) -> bool:
        return all(one.has_started for one in self._hosts)

    @property
    def has_exited(self) -> bool:
        """Whether one of its hosts did: then the others are to end."""
        return self.is_over or any(one.has_exited for one in self._hosts)

    @property
    def waits(self) -> bool:
        """Whether `end_rest` will have something to do."""
        return self._life.waits

    def await_start(self) -> None:
        for one in self._hosts:
            one.await_start()

    # ---------------------------------------------------------------- what is done to all hosts

    def signal(self, name: str) -> None:
        """Send a signal: to all hosts if it ends processes, else to the main process of host 0."""
        if name not in TO_ALL:
            self._hosts[0].signal(name)
            return
        self._life.tell_end(range(len(self._hosts)))
        for one in self._hosts:
            one.is_ending = True
        together(self._hosts, lambda one: one.signal(name))

    def stop(self) -> None:
        together(self._hosts, HostPod.stop)

    def resume(self) -> None:
        together(self._hosts, HostPod.resume)

    def open_undo(self, do: str, whose: str = "", /, **facts: Json) -> None:
        """An entry for each pod."""
        for one in self._hosts:
            one.open_undo(do, whose, **facts)

    def close_undo(self, do: str) -> None:
        for one in self._hosts:
            one.close_undo(do)

    def delete(self) -> None:
        self._end_by(lambda: together(self._hosts, HostPod.delete))

    def evict(self) -> None:
        self._end_by(lambda: together(self._hosts, HostPod.evict))

    def delete_job(self) -> None:
        self.await_start()
        self._end_by(self._delete_job)

    def _delete_job(self) -> None:
        with ExitStack() as ending:
            for one in self._hosts:
                ending.enter_context(one.being_ended("SIGTERM", "SIGKILL", unless=Refused))
            if not self._hosts[0].cluster.delete(JOBS, self.job):
                raise Missing(f"the Job {self.job} of {self.spec.name} was gone already")

    def _end_by(self, end: Callable[[], None]) -> None:
        """Note that it is ending, unless the cluster refused that for all of its hosts."""
        try:
            end()
        finally:
            self.is_ending = any(one.is_ending for one in self._hosts)
            if self.is_ending:
                self._life.tell_end(range(len(self._hosts)))

    def abandon(self) -> None:
        self.is_over = True
        for one in self._hosts:
            one.abandon()

    # ---------------------------------------------------------------- what is done to one host

    def kill_host(self, index: int) -> None:
        """End the processes of a host by SIGKILL."""
        host = self._about_to_end(index)
        host.signal("SIGKILL")

    def fail_chip(self, index: int) -> None:
        """Let the process of a host abort, by its test hook. FleetError if it hears none."""
        host = self._about_to_end(index)
        host.note_sent("SIGABRT")
        host.tell({"do": "chip", "index": 0})

    def _about_to_end(self, index: int) -> HostPod:
        host = self._hosts[index]
        host.await_start()
        self.is_ending = host.is_ending = True
        self._life.tell_end([index])
        return host

    def end_rest(self) -> None:
        """Kill the other hosts, where it is time; of those that have not started, delete the Job.

        FleetError if a host cannot be reached.
        """
        due = [self._hosts[index] for index in self._life.due(self.place.clock.now_s())]
        if all(one.has_started for one in due):
            together(due, lambda one: one.signal("SIGKILL"))
        else:
            self._hosts[0].cluster.delete(JOBS, self.job)

    def _write(self, line: bytes) -> None:
        self._hosts[0].write(line)
