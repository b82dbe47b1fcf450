"""Workers of a training of the user's own in the pods of a namespace, one in each pod.

    pods with the labels ─► seat: index and owner, or name of the pod ─► worker-0, worker-1, …
    the default container of each ─► `pod_program find main` ─► its program

A seat outlives its pods where the owner numbers them. Of others, as a Deployment's, a new pod takes
the seat of the worker that has ended.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from chaoslab.core.errors import AbilityError
from chaoslab.core.events import Json
from chaoslab.fleet.attached.found import Command, Found, of_script
from chaoslab.fleet.attached.pod_search import NodePod, PodSearch, owner_of, require_restarts
from chaoslab.fleet.base import Role
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.log_follower import LogPosition, log_lines
from chaoslab.fleet.kubernetes.parts import mapping, mappings
from chaoslab.fleet.kubernetes.pod_state import PodState, state_of
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.trainers.reading import plain_lines

_DEFAULT: Final = "kubectl.kubernetes.io/default-container"
_INDEXES: Final = (
    "jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/worker-index",
    "volcano.sh/task-spec", "volcano.sh/task-index",
)  # fmt: skip
"""Labels and annotations by which owners number their pods, as these projects document them."""
_TAIL_BYTES: Final = 256 << 10


class WorkerPods(PodSearch):
    """Looks for the workers, any number of times; names are those of the first look."""

    _find = ("find", "main")

    def __init__(self, cluster: Cluster, selector: str) -> None:
        super().__init__(cluster)
        self.selector = selector
        self._names: dict[str, str] = {}
        """Name of a worker by its seat."""

    def look(self) -> Sequence[NodePod]:
        seats = sorted({_seat(pod) for pod, _, _ in self._running()}, key=_natural)
        self._names = {seat: f"worker-{rank}" for rank, seat in enumerate(seats)}
        return sorted(super().look(), key=lambda node: _natural(node.name))

    def replacement(self, before: NodePod) -> NodePod | None:
        found = super().replacement(before)
        for pod, state, _ in self._running() if found is None else ():
            if _seat(pod) not in self._names and owner_of(pod) == before.owner:
                self._names[_seat(pod)] = before.name
                return self._first(lambda one: one.name == before.name, state.name)
        return found

    def _containers(self, pod: Mapping[str, Json]) -> Iterator[str]:
        """The default one, if its worker is known."""
        names = [str(one.get("name")) for one in mappings(pod, "spec", "containers")]
        default = mapping(pod, "metadata", "annotations").get(_DEFAULT)
        yield str(default) if default in names else names[0]

    def _command(self, pod: Mapping[str, Json], words: Sequence[str]) -> Command | None:  # noqa: ARG002
        name = self._names.get(_seat(pod))
        return None if name is None else Command(role=Role.LEARNER, flags={"--name": name})

    def _found(self, nodes: Sequence[NodePod], namespace: str) -> Sequence[Found]:
        if not nodes:
            raise AbilityError(
                f"namespace:{namespace}: no running pod has the labels {self.selector!r}: "
                f"`kubectl -n {namespace} get pods --show-labels` lists them"
            )
        for node in nodes:
            require_restarts(node)
        return [
            of_script(node.name, f"pod {namespace}/{node.pod}", node.pod, is_first=node.pid == 1)
            for node in nodes
        ]

    def there(self) -> Iterator[tuple[PodState, str]]:
        """Each pod that is neither over nor being deleted, whether it runs or not, with the name of
        its worker's container.
        """
        for pod in self._cluster.list(PODS, self.selector)[0]:
            is_over = mapping(pod, "status").get("phase") in ("Succeeded", "Failed")
            for container in () if is_over else self._containers(pod):
                state = state_of(pod_of(pod), container)
                if not state.is_deleted:
                    yield state, container

    def printed(self) -> Mapping[str, Sequence[str]]:
        """The last lines that each worker has printed."""
        found = {}
        for node in self.look():
            position, text = LogPosition(), b""
            for line in log_lines(self._cluster, node.pod, node.container):
                text = (text + (position.new(line) or b"") + b"\n")[-_TAIL_BYTES:]
            found[node.name] = plain_lines(text)
        return found


def search_of(cluster: Cluster, selector: str) -> PodSearch:
    """Search for the workers in pods with these labels; without, for chaoslab's own nodes."""
    return WorkerPods(cluster, selector) if selector else PodSearch(cluster)


def _seat(pod: Mapping[str, Json]) -> str:
    """What a pod has in common with those that its owner makes in its place. The order of seats is
    that of the ranks: a LeaderWorkerSet has owners of its own for leaders and for workers.
    """
    told = {**mapping(pod, "metadata", "annotations"), **mapping(pod, "metadata", "labels")}
    indexes = [str(told[name]) for name in _INDEXES if name in told]
    if not indexes:
        return str(mapping(pod, "metadata").get("name"))
    return "/".join((*indexes, owner_of(pod)))


def _natural(text: str) -> list[tuple[int, str]]:
    """Numbers in it by their value."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", text)]
