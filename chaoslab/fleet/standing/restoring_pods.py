"""What lets a node in a pod of a standing training go on; see `restoring`.

PodRecipe ─► Cluster: the pod in which the node runs now ─► SIGCONT, SIGUSR2

No pod is started: whoever deployed the training does that.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.reconnection import connect_again
from chaoslab.fleet.kubernetes.undo_facts import RunFacts
from chaoslab.fleet.standing import lease
from chaoslab.fleet.standing.pod_search import NodePod, PodSearch, ask, stopped
from chaoslab.fleet.standing.restoring import PodRecipe


def lacks(recipe: PodRecipe) -> tuple[str, ...]:
    """What of the node is not as it was, as half a sentence each. FleetError: no cluster."""
    with _found(recipe) as (_, node):
        is_stopped = node is not None and node.was_stopped
        return (f"{recipe.node} (pod {node.pod}) is stopped",) if node and is_stopped else ()


def restore(recipe: PodRecipe) -> tuple[str, ...]:
    """Let it go on, if it runs; what was done. FleetError if that fails."""
    with _found(recipe) as (cluster, node):
        if node is None or not node.was_stopped:
            return ()
        resume(cluster, node)
        return (f"{recipe.node} (pod {node.pod}), resumed",)


def release(recipe: PodRecipe) -> tuple[str, ...]:
    """Tell its training thread to go on; whether that hung cannot be seen from here."""
    with _found(recipe) as (cluster, node):
        if node is None or not ask(cluster, node, "send", "USR2", "main").get("is_sent"):
            return ()
        return (f"{recipe.node} (pod {node.pod}) was told to go on",)


def resume(cluster: Cluster, node: NodePod) -> Mapping[str, Json]:
    """Let all processes of a node go on; what `ask` says of it then. FleetError if some do not."""
    said = ask(cluster, node, "send", "CONT", "all")
    if left := stopped(said):
        raise FleetError(
            f"{node.name} (pod {node.pod}) cannot be resumed: still stopped are {left}"
        )
    return said


def give_back(facts: RunFacts) -> tuple[str, ...]:
    """Delete the lease of a run, if it has it; what was done."""
    with closing(connect_again(facts.server, facts.context, facts.namespace)) as cluster:
        was_held = lease.release(cluster, facts.run)
    return (f"the lease {lease.NAME} of {facts.namespace}, given back",) if was_held else ()


def holds(facts: RunFacts) -> tuple[str, ...]:
    """Whether a run has the lease, in words."""
    with closing(connect_again(facts.server, facts.context, facts.namespace)) as cluster:
        is_held = lease.is_held(cluster, facts.run)
    return (f"the lease {lease.NAME} of {facts.namespace}",) if is_held else ()


@contextmanager
def _found(recipe: PodRecipe) -> Iterator[tuple[Cluster, NodePod | None]]:
    connected = connect_again(recipe.server, recipe.context, recipe.namespace)
    with closing(connected) as cluster:
        yield cluster, PodSearch(cluster).named(recipe.node, first=recipe.pod)
