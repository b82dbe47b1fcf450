"""Undo of what a dead harness left in a cluster, and what of it is still there.

    undo entry (context, namespace, run | pod | machine) ─► undo ─► what was done, in words
                                                         └► left ─► what of it is still there

`undo_verbs` names the verbs and `undo_facts` has their facts; neither imports lightkube. Everything
here raises AbilityError if the context is not in the kubeconfig any more.
"""

from contextlib import closing, suppress

from chaoslab.fleet.kubernetes import names, scripts
from chaoslab.fleet.kubernetes.cluster import Cluster, Missing
from chaoslab.fleet.kubernetes.cordon import is_cordoned_by, uncordon
from chaoslab.fleet.kubernetes.pod_state import state_of
from chaoslab.fleet.kubernetes.reconnection import connect_again
from chaoslab.fleet.kubernetes.run_objects import empty, remains
from chaoslab.fleet.kubernetes.undo_facts import ClusterFacts, MachineFacts, PodFacts, RunFacts

_COMMANDS = {
    names.RESUME_POD: (*scripts.SIGNAL_ALL, "CONT"),
    names.UNWEDGE_POD: (*scripts.SIGNAL_MAIN, "USR2"),
    names.RELIEVE_POD: scripts.RELIEVE,
}


def undo(do: str, facts: ClusterFacts) -> tuple[str, ...]:
    """Do one undo; what was done. FleetError if the cluster refuses."""
    with closing(_connected(facts)) as cluster:
        match facts:
            case MachineFacts(machine=machine, run=run):
                is_done = uncordon(cluster, machine, run)
                return (f"the machine {machine} takes pods again",) if is_done else ()
            case RunFacts(run=run):
                return tuple(f"{one}, deleted" for one in empty(cluster, run))
            case PodFacts(pod=pod):
                with suppress(Missing):  # what was done to it is gone with it
                    if _runs(cluster, pod):
                        cluster.exec(pod, _COMMANDS[do])
                        return (f"{pod} was told to go on",)
        return ()


def left(do: str, facts: ClusterFacts) -> tuple[str, ...]:
    """What is still there. FleetError if the cluster refuses."""
    with closing(_connected(facts)) as cluster:
        match facts:
            case MachineFacts(machine=machine, run=run):
                is_left = is_cordoned_by(cluster, machine, run)
                return (f"the machine {machine} is cordoned",) if is_left else ()
            case RunFacts(run=run):
                return remains(cluster, run)
            case PodFacts(pod=pod) if do == names.RESUME_POD:
                with suppress(Missing):
                    stat = cluster.exec(pod, scripts.STAT) if _runs(cluster, pod) else ""
                    is_stopped = stat.rpartition(")")[2].split()[:1] == ["T"]
                    return (f"{pod} is stopped",) if is_stopped else ()
        return ()


def _connected(facts: ClusterFacts) -> Cluster:
    return connect_again(facts.server, facts.context, facts.namespace)


def _runs(cluster: Cluster, pod: str) -> bool:
    state = state_of(cluster.pod(pod))
    return state.has_started and not state.has_ended
