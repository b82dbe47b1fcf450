"""Attached nodes that are pods of a Kubernetes namespace.

    pods of a namespace ─► `pod_search` ─► Found
    the log of a pod ─► a thread (`pod_log`) ─► the bytes that `read` takes
    signals ─► `pod_program` in the pod                      pod.delete ─► the cluster
    what the cluster reports of the pods (`kubernetes.pod_watch`) ─► queue ─► ENGINE_REPORTED

Nodes that ended are started again by their owner in the cluster: in the same pod, by its restart
policy, or in another one, by a Deployment, StatefulSet or Job. Nothing is created but a Lease
(`lease`).
"""

import math
import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final, Self

from chaoslab.core.ended import ENDED_S, unless_ended
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.attached.fleet import AttachedFleet
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.attached.lease import Lease
from chaoslab.fleet.attached.node import AttachedNode, AttachedPlace
from chaoslab.fleet.attached.pod_log import PodLog, past_of
from chaoslab.fleet.attached.pod_search import NodePod, ask, stopped
from chaoslab.fleet.attached.restoring import PodRecipe, written
from chaoslab.fleet.attached.restoring_pods import FILES_S, put_back, restore, resume
from chaoslab.fleet.attached.worker_pods import search_of
from chaoslab.fleet.base import Damage, NodeSpec, probed
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.contact import Contact
from chaoslab.fleet.kubernetes.log_follower import LogPosition
from chaoslab.fleet.kubernetes.names import uid_of
from chaoslab.fleet.kubernetes.pod import ending_of
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.pod_watch import PodReader, PodWatch
from chaoslab.fleet.kubernetes.pods import ClusterFleet, PodLife
from chaoslab.fleet.kubernetes.refusals import Missing, Refused
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.nodes.arrivals import Arrivals, news, together
from chaoslab.fleet.settings import FleetRequest
from chaoslab.fleet.storage.files import Reach

_LAST_LINES_S: Final = 0.3
"""Delay of the last lines of a node's output."""
_MOMENT_S: Final = 0.5
_FRESH_S: Final = 2.0
_TICKS: Final = 100
_PAGE: Final = 4096
_ARRIVALS_MOST: Final = 8192


class AttachedPod(PodLife, AttachedNode):
    """A life of a container, found, or begun by its owner in the cluster."""

    def __init__(
        self,
        spec: NodeSpec,
        incarnation: int,
        place: AttachedPlace,
        *,
        cluster: Cluster,
        node: NodePod,
        position: LogPosition | None = None,
    ) -> None:
        """Reads its output from `position` on, by default from its beginning."""
        self._cluster, self.node = cluster, node
        super().__init__(spec, incarnation, place)
        self._log = PodLog(cluster, node, position or LogPosition())
        self.is_taken_away = False
        """Whether its pod was deleted or evicted, and ends by itself."""
        self._shown: tuple[float, Mapping[str, Json]] | None = None
        """Last state shown by its pod, and its time, for a probe that follows at once."""
        self._was_killed, self._is_told_dead = False, False  # or may have been killed
        self._died_s = math.inf
        """Time at which it was seen dead in its pod, a second or two before the cluster knows."""

    @property
    def where(self) -> str:
        return f"pod {self.node.pod}"

    @property
    def facts(self) -> Mapping[str, Json]:
        return self.node.state.facts

    @property
    def _is_dead(self) -> bool:
        return self.has_exited or self._died_s < math.inf

    @property
    def has_exited(self) -> bool:
        """Whether it ended by the cluster's report, or soon after it was seen dead in its pod."""
        is_dead = time.monotonic() > self._died_s + _LAST_LINES_S
        return self.is_over or is_dead or self._log.has_ended.is_set()

    def signal_all(self, name: str) -> None:
        said = self._ask("send", name.removeprefix("SIG"), "all")
        if said is not None and said.get("is_dead"):
            self._died_s = time.monotonic()
        if name == "SIGSTOP" and said is not None:
            self._shown = time.monotonic(), said
            if not stopped(said):
                raise FleetError(f"{self.spec.name} ({self.where}) cannot be stopped")

    def signal(self, name: str) -> None:
        self.note_sent(name)
        said = self._ask("send", name.removeprefix("SIG"), "main")
        if said is not None and not said.get("is_sent") and name == "SIGUSR1":
            raise FleetError(f"{self.spec.name} ({self.where}) cannot be hung: it has no handler")

    def resume(self) -> None:
        if self.has_exited:
            return
        said = unless_ended(lambda: resume(self._cluster, self.node), lambda: self.has_exited)
        if said is not None and "state" in said:
            self._shown = time.monotonic(), said

    def catch_up(self) -> None:
        """Have what it has printed by now."""
        self._log.catch_up()

    def delete(self) -> None:
        """Delete its pod without grace. FleetError if no controller makes another one."""
        self._require_owner()
        with self.being_ended("SIGTERM", "SIGKILL", unless=Refused):
            uid = self.node.state.uid
            if not self._cluster.delete(PODS, self.node.pod, is_forced=True, uid=uid):
                raise Missing(f"the pod {self.node.pod} of {self.spec.name} was gone already")
        self.is_taken_away = True

    def evict(self) -> None:
        """Have it evicted, as by a drain. FleetError if no controller makes another one."""
        self._require_owner()
        with self.being_ended("SIGTERM", unless=Refused):
            self._cluster.evict(self.node.pod, uid=self.node.state.uid)
        self.is_taken_away = True

    def _require_owner(self) -> None:
        if not self.node.owner:
            raise FleetError(
                f"the pod {self.node.pod} of {self.spec.name} has no owner, such as a StatefulSet, "
                "that would make another one in its place"
            )

    def probe(self) -> Observation:
        """State by its pod; unknown while that ends and does not answer."""
        gone = partial(probed, self.spec.name, incarnation=self.incarnation, pid=0)
        shown, self._shown = self._shown, None
        if shown is not None and time.monotonic() - shown[0] < _FRESH_S:
            return self._probed(shown[1])
        try:
            said = self._ask("show", within_s=0.0 if self.is_taken_away else ENDED_S)
        except FleetError:
            if not self.is_taken_away:
                raise
            return gone(state="unknown")
        if said is None:
            if self._is_told_dead:  # the next look is to see it exited as well
                time.sleep(max(0.0, self._died_s + _LAST_LINES_S - time.monotonic()))
            self._is_told_dead = self._died_s < math.inf
            return gone()
        return self._probed(said)

    def _probed(self, said: Mapping[str, Json]) -> Observation:
        return probed(
            self.spec.name,
            incarnation=self.incarnation,
            pid=0,
            state=str(said["state"]),
            cpu_s=float(str(said["cpu_ticks"])) / _TICKS,
            rss_bytes=int(str(said["pages"])) * _PAGE,
        )

    def _ask(self, do: str, *words: str, within_s: float = math.inf) -> Mapping[str, Json] | None:
        """Answer of a program in its pod; None once it has ended; an error waits for that."""
        if self._is_dead:
            return None
        is_kill = "KILL" in words

        def asked() -> Mapping[str, Json]:
            try:
                said = ask(self._cluster, self.node, do, *words)
            except Refused as error:  # as in a container that does not run any more
                self._was_killed |= is_kill and error.broke_off
                if self._was_killed and not self.is_taken_away:
                    self._died_s = time.monotonic()
                raise
            except FleetError:
                self._was_killed |= is_kill  # perhaps: only the answer may be lost
                raise
            self._was_killed |= is_kill
            return said

        said = unless_ended(asked, lambda: self._is_dead, min(within_s, ENDED_S))
        is_gone = said is not None and said.get("is_gone") is True
        if is_gone and self._was_killed:
            self._died_s = time.monotonic()
        return None if is_gone else said

    def _printed(self) -> bytes:
        return self._log.taken()

    def _ending(self) -> dict[str, Json]:
        """Exit by the kubelet's report, if it has one already."""
        return {
            **ending_of(self._log.ending, self._sent), "container_ended_s": self._log.ended_s
        }  # fmt: skip

    def _detach(self) -> None:
        self._log.close()


class AdoptedPods(PodReader):
    """Pods in which nodes were found, for the watch; others in the namespace are ignored."""

    def __init__(self) -> None:
        self._lives: dict[str, tuple[NodePod, int]] = {}
        """Node and its newest incarnation, by unique id of the pod."""

    def add(self, node: NodePod, incarnation: int) -> None:
        """Report on it from now on."""
        self._lives[node.state.uid] = (node, incarnation)

    def state(self, pod: Mapping[str, Json]) -> PodState:
        life = self._lives.get(uid_of(pod))
        return state_of(pod_of(pod), life[0].container if life else "")

    def whose(self, state: PodState) -> tuple[str, int] | None:
        if state.uid not in self._lives:
            return None
        node, incarnation = self._lives[state.uid]
        return node.name, incarnation


class NamespaceFleet(ClusterFleet[AttachedPod], AttachedFleet[AttachedPod]):
    """A training whose nodes are pods of a Kubernetes namespace."""

    kind = "namespace"

    def __init__(
        self, place: Place, request: FleetRequest, *, cluster: Cluster, selector: str = ""
    ) -> None:
        """`selector`: labels of the pods of a script."""
        super().__init__(place, request, restarts=False)
        self._cluster, self._search = cluster, search_of(cluster, selector)
        self._lease = Lease(cluster, self._place.run_directory, place.undo_log)
        self._nodes: dict[str, NodePod] = {}
        """The newest life of each node that was found."""
        self._recipes: dict[str, PodRecipe] = {}
        self._stopped: tuple[str, ...] = ()
        """Nodes that `take_down` has stopped."""
        self._adopted_pods = AdoptedPods()
        self._arrivals: Arrivals = queue.Queue(_ARRIVALS_MOST)

    def __enter__(self) -> Self:
        watch = PodWatch(self._cluster, "", self._arrivals, self._adopted_pods)
        self._hear_by(watch, Contact(self._cluster, self._place.clock, self._arrivals))
        return super().__enter__()

    @property
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        return (*super()._leaving, self._close_cluster)

    def _news(self) -> list[Observation]:
        """Reports of the cluster. FleetError if the training may be another run's now."""
        self._lease.require()
        return news(self._arrivals, self._troubles, is_open=self._is_open)

    def _find(self) -> Sequence[Found]:
        nodes, found = self._search.training()
        self._nodes = {node.name: node for node in nodes}
        return found

    def _identity(self, nodes: Sequence[Found]) -> str:  # noqa: ARG002 - the base's signature
        return f"namespace {self._cluster.server} {self._cluster.namespace}"

    def _lock(self, nodes: Sequence[Found], locked: ExitStack) -> None:
        """Against runs of this machine, and those of others."""
        super()._lock(nodes, locked)
        locked.callback(self._lease.give_back)
        self._lease.take()

    def _recipe(self, found: Found) -> bytes:
        recipe = PodRecipe(
            node=found.name,
            server=self._cluster.server,
            context=self._cluster.context,
            namespace=self._cluster.namespace,
            pod=found.handle,
            selector=self._search.selector,
            keeps=self._folder(found.name),
        )
        self._recipes[found.name] = recipe
        return written(recipe)

    def _adopted(self, spec: NodeSpec, found: Found) -> AttachedPod:
        node, position = self._nodes[found.name], LogPosition()
        past = past_of(self._cluster, node, position)
        if spec.reads is not None:
            return self._life(spec, 1, position)
        past.require_complete(
            spec.name, spec.role,
            "the kubelet keeps a part of a log (containerLogMaxSize): start it again by `kubectl "
            f"-n {self._cluster.namespace} delete pod {node.pod}`",
        )  # fmt: skip
        life = self._life(spec, past.incarnation or 1, position)
        life.past = past
        return life

    def _begun(self, spec: NodeSpec, incarnation: int) -> AttachedPod:
        if self._nodes[spec.name] is self._lives[spec.name].node:
            raise FleetError(f"{spec.name} has ended as soon as it was started")
        return self._life(spec, incarnation)

    def _life(
        self, spec: NodeSpec, incarnation: int, position: LogPosition | None = None
    ) -> AttachedPod:
        node = self._nodes[spec.name]
        self._adopted_pods.add(node, incarnation)
        return AttachedPod(
            spec, incarnation, self._place,
            cluster=self._cluster, node=node, position=position,
        )  # fmt: skip

    def _runs_again(self, name: str) -> bool:
        node = None
        with suppress(FleetError):
            node = self._search.replacement(self._lives[name].node)
        if node is None:
            return False
        self._nodes[name] = node
        return True

    def _restore(self, name: str) -> None:
        restore(self._recipes[name])

    # ---------------------------------------------------------------- files

    def take_down(self, *names: str) -> None:
        """Only stop them: no command is run in a container that has ended, and its owner or the
        kubelet begins the next one at once.
        """
        self.pause(*names)
        self._stopped = names

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:
        """Damage its files, then kill it. If that fails, whoever is still stopped goes on."""
        try:
            super().damage(name, how, every=every)
        except FleetError:
            for one in self._stopped:
                self.resume(one)
            raise
        self.kill(name)

    def _reach(self, spec: NodeSpec) -> Reach:
        def run(command: tuple[str, ...]) -> str:
            node = self._nodes[spec.name]
            return self._cluster.exec(node.pod, command, container=node.container, within_s=FILES_S)

        return Reach(
            run=run,
            put_back=partial(put_back, self._recipes[spec.name]),
            undo_facts=lambda: self._lives[spec.name].undo_facts,
        )

    def _pause(self, lives: Sequence[AttachedPod]) -> None:
        """Read earlier output, which would seem to be printed during the pause, then pause."""
        super()._pause(lives)
        together(lives, AttachedPod.catch_up)

    def _await_end(self, life: AttachedPod) -> None:
        """Of a pod that was taken away only a moment, while the run goes on: it is asked again."""
        if not life.is_taken_away:
            super()._await_end(life)
            return
        self._wait_for([life], _MOMENT_S if self._is_open else self.end_s_max)
        if not life.is_over:
            raise FleetError(f"{life.spec.name} ({life.where}) has not ended yet")
