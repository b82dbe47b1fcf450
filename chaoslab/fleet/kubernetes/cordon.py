"""Cordon of a machine: it takes no more pods, and an annotation says which run asked for that.

    cordon ─► annotation and `unschedulable`, in one patch ─► uncordon, at the undo of the run

A machine that others have cordoned is left as it is.
"""

from collections.abc import Mapping
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.parts import mapping
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import Resource

MACHINES: Final = Resource(api="api/v1", plural="nodes", within="")


def require_free(cluster: Cluster, machine: str) -> None:
    """FleetError if the machine is cordoned."""
    if mapping(cluster.get(MACHINES, machine), "spec").get("unschedulable") is True:
        raise FleetError(f"the machine {machine} is cordoned already: let it take pods, or wait")


def cordon(cluster: Cluster, machine: str, run: str) -> None:
    """Let it take no more pods."""
    cluster.patch(MACHINES, machine, _change(run, is_cordoned=True))


def uncordon(cluster: Cluster, machine: str, run: str) -> bool:
    """Whether there was something to undo: not if it is gone, or another one cordoned it."""
    if not is_cordoned_by(cluster, machine, run):
        return False
    cluster.patch(MACHINES, machine, _change(None, is_cordoned=None))
    return True


def is_cordoned_by(cluster: Cluster, machine: str, run: str) -> bool:
    """Whether this run's cordon is still there."""
    try:
        found = cluster.get(MACHINES, machine)
    except Missing:
        return False
    return mapping(found, "metadata", "annotations").get(names.CORDONED_BY) == run


def _change(run: str | None, *, is_cordoned: bool | None) -> Mapping[str, Json]:
    return {
        "metadata": {"annotations": {names.CORDONED_BY: run}},
        "spec": {"unschedulable": is_cordoned},
    }
