"""Restoring of a node in a pod of an attached training; see `restoring`.

PodRecipe ─► Cluster: the pod in which the node runs now ─► SIGCONT, SIGUSR2
          └► all pods with its labels ─► their files, once their containers run

No pod is started: its owner in the cluster does that.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final

from chaoslab.core.ended import unless_ended
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.attached.pod_log import look
from chaoslab.fleet.attached.pod_search import NodePod, ask, stopped
from chaoslab.fleet.attached.restoring import PodRecipe
from chaoslab.fleet.attached.worker_pods import WorkerPods, search_of
from chaoslab.fleet.kubernetes.cleanup import connect_again
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.storage.files import as_script, measured

_RUNS_S: Final = 330.0
"""Longest time until a container runs that fails again and again: the kubelet waits 5 minutes."""
_AGAIN_S: Final = 0.1
FILES_S: Final = 300.0
"""Time limit of a command on files: a large checkpoint is copied and read several times."""
_LATE_S: Final = 2.0
"""Delay of a command in a pod if the harness has not seen the pod's end."""


def lacks(recipe: PodRecipe) -> tuple[str, ...]:
    """Differences of the node from before, a clause each. FleetError: no cluster."""
    with _found(recipe) as (_, nodes):
        return tuple(
            f"{recipe.node} (pod {node.pod}) is stopped" for node in nodes if node.was_stopped
        )


def restore(recipe: PodRecipe) -> tuple[str, ...]:
    """Let it go on, if it runs; what was done. FleetError if that fails."""
    done = _resumed(recipe)
    if not done:  # what was asked for by a harness that died then may be carried out only now
        time.sleep(_LATE_S)
        done = _resumed(recipe)
    return done


def _resumed(recipe: PodRecipe) -> tuple[str, ...]:
    with _found(recipe) as (cluster, nodes):
        return tuple(
            f"{recipe.node} (pod {node.pod}), resumed"
            for node in nodes
            if node.was_stopped and _unless_ended(cluster, node, resume) is not None
        )


def release(recipe: PodRecipe) -> tuple[str, ...]:
    """Tell its training thread to go on; whether that hung cannot be seen from here."""
    with _found(recipe) as (cluster, nodes):
        return tuple(
            f"{recipe.node} (pod {node.pod}) was resumed"
            for node in nodes
            if (_unless_ended(cluster, node, _released) or {}).get("is_sent")
        )


def put_back(recipe: PodRecipe) -> tuple[str, ...]:
    """Put checkpoints back; what was done. FleetError for a pod whose container never runs.

    Of which worker a pod is, only its run knew: all of them are asked.
    """
    done: dict[str, tuple[str, ...]] = {}
    deadline = time.monotonic() + _RUNS_S
    with closing(connect_again(recipe.server, recipe.context, recipe.namespace)) as cluster:
        while left := [one for one in _places(cluster, recipe) if one[0] not in done]:
            for uid, pod, container in left:
                with suppress(FleetError):  # it does not run now
                    done[uid] = _files(cluster, recipe, pod, container, "put_back")
            if time.monotonic() > deadline:
                raise FleetError(f"{recipe.node}: files of {left[0][1]}, which does not run")
            time.sleep(_AGAIN_S)
    return tuple(f"{recipe.node}: {one}, put back" for files in done.values() for one in files)


def not_put_back(recipe: PodRecipe) -> tuple[str, ...]:
    """What of the checkpoints is not as it was. FleetError: it cannot be looked at."""
    with closing(connect_again(recipe.server, recipe.context, recipe.namespace)) as cluster:
        return tuple(
            f"{recipe.node}: {one} (pod {pod}) is not as it was"
            for _, pod, container in _places(cluster, recipe)
            for one in _files(cluster, recipe, pod, container, "kept")
        )


def _places(cluster: Cluster, recipe: PodRecipe) -> Sequence[tuple[str, str, str]]:
    """Unique id and name of each pod, and its container."""
    pods = WorkerPods(cluster, recipe.selector).there()
    return [(state.uid, state.name, container) for state, container in pods]


def _files(
    cluster: Cluster, recipe: PodRecipe, pod: str, container: str, do: str
) -> tuple[str, ...]:
    command = as_script(do, recipe.keeps)
    said = cluster.exec(pod, command, container=container, within_s=FILES_S)
    return tuple(measured(said, f"{recipe.node}: files in pod {pod}"))


def _released(cluster: Cluster, node: NodePod) -> Mapping[str, Json]:
    return ask(cluster, node, "send", "USR2", "main")


def _unless_ended(
    cluster: Cluster, node: NodePod, done: Callable[[Cluster, NodePod], Mapping[str, Json]]
) -> Mapping[str, Json] | None:
    """Answer, unless the container has ended, as one of a deleted pod does."""
    return unless_ended(lambda: done(cluster, node), lambda: look(cluster, node).is_over)


def resume(cluster: Cluster, node: NodePod) -> Mapping[str, Json]:
    """Let all processes of a node go on; what `ask` says of it then. FleetError if some do not."""
    said = ask(cluster, node, "send", "CONT", "all")
    if left := stopped(said):
        raise FleetError(
            f"{node.name} (pod {node.pod}) cannot be resumed: still stopped are {left}"
        )
    return said


@contextmanager
def _found(recipe: PodRecipe) -> Iterator[tuple[Cluster, Sequence[NodePod]]]:
    connected = connect_again(recipe.server, recipe.context, recipe.namespace)
    with closing(connected) as cluster:
        search = search_of(cluster, recipe.selector)
        if recipe.selector:  # whose worker a pod is, only its run knew: all of them are to go on
            yield cluster, search.look()
        else:
            yield cluster, search.named(recipe.node, first=recipe.pod)
