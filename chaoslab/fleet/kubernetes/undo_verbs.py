"""Undo of what was done in a cluster, leftovers there, and whether one can be used.

    delete_kubernetes_run    the objects of a run in a namespace
    resume_pod, unwedge_pod  a pod goes on
    relieve_pod              what fills its memory limit ends
    unlimit_pod              its container has its CPU limit again
    uncordon_machine         a machine takes pods again
    clear_pod_effects, enable_pod_proxy    a link through the proxy in a pod is as it was

`cleanup` asks the cluster when it comes to that: few logs have this verb, and lightkube, which this
module does not import, may be missing.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.undo_facts import (
    MachineFacts,
    PodEffectFacts,
    PodFacts,
    PodLimitFacts,
    PodProxyFacts,
    RunFacts,
)
from chaoslab.undo.verbs import Examined, Maintenance, asked, limited, missing, ok

_CLEANUP: Final = "chaoslab.fleet.kubernetes.cleanup"
"""Module that needs lightkube."""


def _diagnose() -> Iterator[Examined]:
    """The cluster that a run would use, by its own word."""
    name = "kubernetes"
    try:
        from chaoslab.fleet.kubernetes.cluster import Cluster  # noqa: PLC0415
        from chaoslab.fleet.kubernetes.rights import RIGHTS, lacking  # noqa: PLC0415

        with closing(Cluster.connect()) as cluster:
            where = f"context {cluster.context}, namespace {cluster.namespace}"
            version = cluster.version()
            lacks = lacking(cluster, RIGHTS["kubernetes"])
    except AbilityError as error:
        yield missing(name, "no cluster can be used from here", str(error))
        return
    except FleetError as error:
        yield limited(name, f"a cluster that does not answer: {error}")
        return
    if lacks:
        yield limited(name, f"{where}, {version}: you may not {', '.join(lacks)}",
                      "chaoslab doctor rights kubernetes")  # fmt: skip
        return
    yield ok(name, f"{where}, {version}")


MAINTENANCE = Maintenance(
    verbs={
        names.DELETE_RUN: asked(
            _CLEANUP, names.DELETE_RUN, RunFacts, is_safe_during_run=False, looks=True
        ),
        names.RESUME_POD: asked(_CLEANUP, names.RESUME_POD, PodFacts, looks=True),
        names.UNWEDGE_POD: asked(_CLEANUP, names.UNWEDGE_POD, PodFacts),
        names.RELIEVE_POD: asked(_CLEANUP, names.RELIEVE_POD, PodFacts),
        names.UNLIMIT_POD: asked(_CLEANUP, names.UNLIMIT_POD, PodLimitFacts, looks=True),
        names.UNCORDON: asked(_CLEANUP, names.UNCORDON, MachineFacts, looks=True),
        names.CLEAR_POD_EFFECTS: asked(
            _CLEANUP, names.CLEAR_POD_EFFECTS, PodEffectFacts, looks=True
        ),
        names.ENABLE_POD_PROXY: asked(_CLEANUP, names.ENABLE_POD_PROXY, PodProxyFacts, looks=True),
    },
    diagnose=_diagnose,
)
