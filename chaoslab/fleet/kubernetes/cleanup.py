"""Undo of what a dead harness left in a cluster, and what of it is still there.

    undo entry (context, namespace, run | pod | machine) ─► undo ─► what was done, in words
                                                         └► left ─► what of it is still there

`undo_verbs` names the verbs and `undo_facts` has their facts; neither imports lightkube. Everything
here raises AbilityError if the context is not in the kubeconfig any more.
"""

from contextlib import closing, suppress

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import names, scripts
from chaoslab.fleet.kubernetes.cordon import is_cordoned_by, uncordon
from chaoslab.fleet.kubernetes.cpu_limit import CpuLimit, await_resized, limit_of, resize
from chaoslab.fleet.kubernetes.manifests import CONTAINER, PROXY
from chaoslab.fleet.kubernetes.pod_state import state_of
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster
from chaoslab.fleet.kubernetes.proxy_links import ForeignProxy
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.kubernetes.run_objects import empty, remains
from chaoslab.fleet.kubernetes.undo_facts import (
    ClusterFacts,
    MachineFacts,
    PodFacts,
    PodLimitFacts,
    PodProxyFacts,
    RunFacts,
)
from chaoslab.links.proxied import undo_verbs as proxied

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
            case RunFacts(run=run, job_sets=has):
                gone = empty(cluster, run, has_job_sets=bool(has))
                return tuple(f"{one}, deleted" for one in gone)
            case PodProxyFacts():
                if (proxy := _proxy(cluster, facts)) is not None:
                    is_clear = do == names.CLEAR_POD_EFFECTS
                    return (proxied.clear if is_clear else proxied.enable)(proxy).actions
            case PodLimitFacts(pod=pod, limit=limit):
                if _limit_now(cluster, facts) is not None:
                    whole = CpuLimit(limit=limit, request=facts.request)
                    resize(cluster, pod, whole)
                    await_resized(cluster, pod, whole)
                    return (f"{pod} has its CPU limit of {limit} again",)
            case PodFacts(pod=pod):
                with suppress(Missing):  # what was done to it is gone with it
                    if _runs(cluster, pod):
                        cluster.exec(pod, _COMMANDS[do])
                        return (f"{pod} was resumed",)
        return ()


def left(do: str, facts: ClusterFacts) -> tuple[str, ...]:
    """Things that still exist. FleetError if the cluster refuses."""
    with closing(_connected(facts)) as cluster:
        match facts:
            case MachineFacts(machine=machine, run=run):
                is_left = is_cordoned_by(cluster, machine, run)
                return (f"the machine {machine} is cordoned",) if is_left else ()
            case RunFacts(run=run, job_sets=has):
                return remains(cluster, run, has_job_sets=bool(has))
            case PodProxyFacts():
                if (proxy := _proxy(cluster, facts)) is not None:
                    is_clear = do == names.CLEAR_POD_EFFECTS
                    return (proxied.effects if is_clear else proxied.refusing)(proxy)
            case PodLimitFacts(pod=pod):
                now = _limit_now(cluster, facts)
                return (f"{pod} has a CPU limit of {now.limit}",) if now is not None else ()
            case PodFacts(pod=pod) if do == names.RESUME_POD:
                with suppress(Missing):
                    stat = cluster.exec(pod, scripts.STAT) if _runs(cluster, pod) else ""
                    is_stopped = stat.rpartition(")")[2].split()[:1] == ["T"]
                    return (f"{pod} is stopped",) if is_stopped else ()
        return ()


def _connected(facts: ClusterFacts) -> ForwardingCluster:
    return connect_again(facts.server, facts.context, facts.namespace)


def _proxy(cluster: ForwardingCluster, facts: PodProxyFacts) -> ForeignProxy | None:
    """The proxy; None if its pod has ended, and every effect with it."""
    with suppress(Missing):
        if _runs(cluster, facts.pod, PROXY):
            return ForeignProxy(
                cluster=cluster, pod=facts.pod, token=facts.token, proxy=facts.proxy,
                injection=facts.injection,
            )  # fmt: skip
    return None


def _limit_now(cluster: ForwardingCluster, facts: PodLimitFacts) -> CpuLimit | None:
    """The limit that the pod asks for; None if it is as it was, or the pod has ended."""
    with suppress(Missing):
        if _runs(cluster, facts.pod):
            now = limit_of(cluster.get(PODS, facts.pod))
            return now if (now.limit, now.request) != (facts.limit, facts.request) else None
    return None


def _runs(cluster: ForwardingCluster, pod: str, container: str = CONTAINER) -> bool:
    state = state_of(cluster.pod(pod), container)
    return state.has_started and not state.has_ended


def connect_again(server: str, context: str, namespace: str) -> ForwardingCluster:
    """Connection to the cluster of an earlier run, to undo what it left.

    The namespace of a run. FleetError if its context means another cluster now.
    """
    cluster = ForwardingCluster.connect(context, namespace)
    if cluster.server != server:
        cluster.close()
        raise FleetError(
            f"context {context} is {cluster.server} now, and was {server} in the run: name the "
            "run's kubeconfig by KUBECONFIG and heal again"
        )
    return cluster
