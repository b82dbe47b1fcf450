"""Search for the nodes of a training in the pods of a namespace, and questions to one of them.

    pods of a namespace ─► those whose command names a node's program ─► exec ─► NodePod
                            not those of a run of chaoslab              `pod_program`

The command line is read from the process itself, so what the cluster or a shell filled in is known.
Each life of a container is looked into once.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.attached import pod_program
from chaoslab.fleet.attached.found import Command, Found, command_of, training_of
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.names import LABEL_RUN
from chaoslab.fleet.kubernetes.parts import listed, mapping, mappings
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.kubernetes.resources import PODS

_PACKAGE: Final = "chaoslab.diloco."
"""Package of the nodes' programs, anywhere in a command."""
_TRIES, _AGAIN_S = 2, 0.3
_AT_ONCE: Final = 16
_SOURCE: Final = Path(pod_program.__file__).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePod:
    """A node that runs in a container of a pod."""

    command: Command
    state: PodState
    """State of the pod and that container, when it was found."""
    container: str
    """Name of the container."""
    pid: int
    """Pid of the node in its pod."""
    ticks: int
    """Start of the node, in ticks of the kernel."""
    was_stopped: bool = False
    """Whether some of its processes were stopped when it was looked into."""
    owner: str = ""
    """Owner that replaces the pod, such as `StatefulSet learner`; or empty."""
    is_started_again: bool = True
    """Whether the kubelet starts its container again in the same pod, after a failure at least."""

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.command.name

    @property
    def pod(self) -> str:
        """Name of the pod."""
        return self.state.name

    def replaces(self, before: "NodePod") -> bool:
        """Whether it is a later life of a node of this name, and not that of another training."""
        has_owner = bool(self.owner) and self.owner == before.owner
        syncer, before_syncer = (one.command.flags.get("--syncer") for one in (self, before))
        dials_the_same = syncer is not None and syncer == before_syncer
        is_of_it = has_owner or self.pod == before.pod or dials_the_same
        return is_of_it and self.state.container != before.state.container


_Running: TypeAlias = tuple[Mapping[str, Json], PodState, str]
"""A pod, its state, and the name of a container of it."""


class PodSearch:
    """Looks for nodes of chaoslab's own training, any number of times."""

    selector = ""
    """Labels of the pods that may have one."""
    _find: tuple[str, ...] = ("find",)
    """What `pod_program` is asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, NodePod] = {}
        """Pods by id of the container."""

    def _containers(self, pod: Mapping[str, Json]) -> Iterator[str]:
        """Names of the containers of a pod that may run a node."""
        for container in mappings(pod, "spec", "containers"):
            words = [*listed(container, "command"), *listed(container, "args")]
            if any(_PACKAGE in str(word) for word in words):
                yield str(container.get("name"))

    def _command(self, pod: Mapping[str, Json], words: Sequence[str]) -> Command | None:  # noqa: ARG002
        """The node of a process that was found in a pod."""
        return command_of(words)

    def look(self) -> Sequence[NodePod]:
        """The nodes that run now. FleetError: what may be one cannot be looked into."""
        running = tuple(self._running())
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [node for node in pool.map(self._node, running) if node is not None]

    def training(self) -> tuple[Sequence[NodePod], Sequence[Found]]:
        """The nodes that run now, and the same as any attached training has them.

        AbilityError if they are no training, or it cannot be broken.
        """
        try:
            nodes = self.look()
        except FleetError as error:
            raise AbilityError(f"namespace:{self._cluster.namespace}: {error}") from error
        return nodes, self._found(nodes, self._cluster.namespace)

    def _found(self, nodes: Sequence[NodePod], namespace: str) -> Sequence[Found]:
        return found_of(nodes, namespace)

    def replacement(self, before: NodePod) -> NodePod | None:
        """The next life of a node; None: it does not run. FleetError as of `look`."""
        return self._first(lambda one: one.name == before.name and one.replaces(before))

    def named(self, name: str, first: str = "") -> Sequence[NodePod]:
        """The node of this name, looked for in the pod `first` at first; and before it those in
        pods that are being deleted, but take their time. FleetError as of `look`.
        """
        found = []
        for running in self._running("", is_deleted=True):
            with suppress(FleetError):  # it has ended meanwhile
                node = self._node(running)
                found += [node] if node is not None and node.name == name else []
        last = self._first(lambda one: one.name == name, first)
        return found if last is None else [*found, last]

    def _first(self, is_it: Callable[[NodePod], bool], first: str = "") -> NodePod | None:
        errors: list[FleetError] = []
        for running in self._running(first):
            try:
                node = self._node(running)
            except FleetError as error:
                errors.append(error)  # it may be in another pod
                continue
            if node is not None and is_it(node):
                return node
        if errors:
            raise errors[0]
        return None

    def _running(self, first: str = "", *, is_deleted: bool = False) -> Iterator[_Running]:
        """Containers that run and may have a node."""
        pods = self._cluster.list(PODS, self.selector)[0]
        for pod in sorted(pods, key=lambda one: mapping(one, "metadata").get("name") != first):
            if LABEL_RUN in mapping(pod, "metadata", "labels"):
                continue
            for container in self._containers(pod):
                state = state_of(pod_of(pod), container)
                runs = state.has_started and not state.has_ended
                if runs and state.is_deleted == is_deleted:
                    yield pod, state, container

    def _node(self, running: _Running) -> NodePod | None:
        pod, state, container = running
        node = self._known.get(state.container) or self._look_into(pod, state, container)
        if node is not None:
            self._known[state.container] = node
        return node

    def _look_into(
        self, pod: Mapping[str, Json], state: PodState, container: str
    ) -> NodePod | None:
        """Node of a container; None while it runs none. FleetError if it runs several."""
        found = _asked(self._cluster, state.name, container, *self._find)
        nodes = []
        for one in mappings(found, "nodes"):
            command = self._command(pod, [str(word) for word in listed(one, "words")])
            if command is not None:
                nodes.append(NodePod(
                    command=command, state=state, container=container,
                    pid=_whole(one, "pid"), ticks=_whole(one, "ticks"), owner=owner_of(pod),
                    was_stopped=bool(listed(one, "stopped")),
                    is_started_again=mapping(pod, "spec").get("restartPolicy") != "Never",
                ))  # fmt: skip
        if len(nodes) > 1:
            raise FleetError(
                f"container {container} of pod {state.name} runs "
                f"{', '.join(node.name for node in nodes)}, whose output cannot be told apart: "
                "give each a container of its own"
            )
        return nodes[0] if nodes else None


def found_of(nodes: Sequence[NodePod], namespace: str) -> Sequence[Found]:
    """The same as any attached training has them; AbilityError if they are none."""
    for node in nodes:
        if node.pid == 1:
            raise AbilityError(
                f"{node.name} is the first process of its container in pod {node.pod}, which the "
                "kernel keeps from being killed or stopped from inside: set "
                "`shareProcessNamespace: true` in the spec of the pod"
            )
        require_restarts(node)
    found = [
        Found(
            name=node.name,
            role=node.command.role,
            where=f"pod {namespace}/{node.pod}",
            handle=node.pod,
            command=node.command,
        )
        for node in nodes
    ]
    none = (
        "no running pod has a command that names `chaoslab.diloco.syncer` or "
        f"`chaoslab.diloco.learner`: `kubectl get namespace {namespace}` tells whether it exists, "
        f"`kubectl -n {namespace} get pods` lists its pods"
    )
    return training_of(found, f"namespace:{namespace}", none)


def require_restarts(node: NodePod) -> None:
    """AbilityError if nothing would start it again after a fault."""
    if not node.owner and not node.is_started_again:
        raise AbilityError(
            f"nothing would start {node.name} again after a fault: pod {node.pod} has "
            "`restartPolicy: Never` and no owner, such as a StatefulSet"
        )


def ask(cluster: Cluster, node: NodePod, do: str, *words: str) -> Mapping[str, Json]:
    """Answer of `pod_program` about a node's process. Missing: its container is gone.

    FleetError if it is refused there.
    """
    process = (str(node.pid), str(node.ticks))
    return _asked(cluster, node.pod, node.container, do, *process, *words)


def stopped(said: Mapping[str, Json]) -> Sequence[Json]:
    """Processes that are stopped, by what `ask` returned."""
    return listed(said, "stopped")


# ---------------------------------------------------------------- JSON of the cluster and of pods


def _asked(cluster: Cluster, pod: str, container: str, *words: str) -> Mapping[str, Json]:
    """Asked again where the connection broke: to signal the same process twice does no harm."""
    command = ("python3", "-I", "-S", "-c", _SOURCE, *words)
    for tried in range(_TRIES + 1):
        try:
            said = cluster.exec(pod, command, container=container)
            break
        except Refused as error:
            error.broke_off = tried > 0
            raise
        except FleetError:
            if tried == _TRIES or cluster.is_closing:
                raise
            time.sleep(_AGAIN_S)
    try:
        answer = json.loads(said)
    except ValueError as error:
        raise FleetError(f"pod {pod} did not print JSON: {said[-300:]!r}") from error
    if not isinstance(answer, dict) or "refused" in answer:
        why = answer.get("refused") if isinstance(answer, dict) else answer
        raise FleetError(f"`{' '.join(words)}` in pod {pod}: {why}")
    return answer


def owner_of(pod: Mapping[str, Json]) -> str:
    """Owner of a pod, without the part of a Deployment's that differs for each template."""
    metadata = mapping(pod, "metadata")
    template = mapping(metadata, "labels").get("pod-template-hash")
    for one in mappings(metadata, "ownerReferences"):
        if one.get("controller") is True:
            return f"{one.get('kind')} {one.get('name')}".removesuffix(f"-{template}")
    return ""


def _whole(found: Mapping[str, Json], key: str) -> int:
    inner = found.get(key)
    return inner if isinstance(inner, int) else 0
