"""CPU limit of a pod's container, changed while it runs, by the resize of Kubernetes.

    limit_of ─► CpuLimit ─ lowered ─► resize ─► PATCH pods/NAME/resize ─► kubelet ─► cgroup
                                      await_resized ◄── the container's status ◄──┘

A resize changes a limit and cannot remove it, so a container without one cannot be slowed by it. No
request may be above its limit: it goes down with the limit, no further than it has to, because
others may take the room that it leaves.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.manifests import CONTAINER
from chaoslab.fleet.kubernetes.names import name_of
from chaoslab.fleet.kubernetes.parts import mapping, mappings
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.kubernetes.undo_facts import CORES

_LEAST_MILLICORES: Final = 10
"""A quota of 1 ms in each period of 100 ms: the kernel takes no smaller one."""
_RESIZED_S: Final = 4.0
"""Time limit of a kubelet. The harness stalls meanwhile, and may not for 5 s."""
_LOOK_S: Final = 0.1
_NEEDED: Final = (1, 33)
"""Version of Kubernetes that resizes pods without being told to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLimit:
    """Limit and request of a container, as Kubernetes writes them: 2 or 250m."""

    limit: str
    request: str

    @property
    def cores(self) -> float:
        """The limit as a number."""
        return _millicores(self.limit) / 1000

    def lowered(self, cores: float) -> Self:
        """At most this many cores, and no more than this.

        Limit and request stay equal, or different: a pod's class of service may not change.
        """
        limit = min(_millicores(self.limit), max(_LEAST_MILLICORES, round(cores * 1000)))
        most = limit if self.request == self.limit else limit - 1
        request = min(_millicores(self.request), most)
        return type(self)(limit=_written(limit), request=_written(request))


def require_resizes(cluster: Cluster) -> None:
    """FleetError if the server is too old to resize pods."""
    version = cluster.version()
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) < _NEEDED:
        raise _too_old(version)


def limit_of(pod: Mapping[str, Json]) -> CpuLimit:
    """CPU limit and request of a pod. FleetError if its container has no limit."""
    resources = _container_of(mapping(pod, "spec"), "containers")
    limit = mapping(resources, "limits").get("cpu")
    request = mapping(resources, "requests").get("cpu", limit)
    found = [str(one) for one in (limit, request)]
    if not all(CORES.fullmatch(one) for one in found):
        raise FleetError(f"the pod {name_of(pod)} has no CPU limit that could be lowered: {limit}")
    return CpuLimit(limit=found[0], request=found[1])


def resize(cluster: Cluster, pod: str, asked: CpuLimit) -> None:
    """Ask for another limit. Missing if the pod is gone; FleetError if the server refuses."""
    resources: dict[str, Json] = {
        "limits": {"cpu": asked.limit}, "requests": {"cpu": asked.request},
    }  # fmt: skip
    container: dict[str, Json] = {"name": CONTAINER, "resources": resources}
    changes: dict[str, Json] = {"spec": {"containers": [container]}}
    try:
        cluster.patch(PODS, f"{pod}/resize", changes, kind="strategic-merge")
    except Missing as error:
        cluster.get(PODS, pod)  # Missing if it is the pod that is not there
        raise _too_old(cluster.version()) from error


def await_resized(cluster: Cluster, pod: str, asked: CpuLimit) -> None:
    """Wait until the container has this limit. Missing if the pod is gone.

    FleetError if the kubelet puts it off, cannot do it at all, or takes too long.
    """
    deadline = time.monotonic() + _RESIZED_S
    while True:
        found = cluster.get(PODS, pod)
        status = mapping(found, "status")
        if mapping(_container_of(status, "containerStatuses"), "limits").get("cpu") == asked.limit:
            return
        said = "; ".join(_said(found))
        is_pending = any(one["type"] == "PodResizePending" for one in _conditions(found))
        if is_pending or time.monotonic() > deadline:
            raise FleetError(
                f"the CPU limit of pod {pod} is not {asked.limit} yet: {said or 'no reason given'}"
            )
        time.sleep(_LOOK_S)


def _said(pod: Mapping[str, Json]) -> Iterator[str]:
    """Reasons of the kubelet, such as `PodResizePending, Infeasible: …`."""
    for one in _conditions(pod):
        words = (str(one[key]) for key in ("type", "reason") if one.get(key))
        yield f"{', '.join(words)}: {one.get('message', 'no message')}"


def _conditions(pod: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Conditions of the last requested resize."""
    now = mapping(pod, "metadata").get("generation")
    for one in mappings(pod, "status", "conditions"):
        if str(one.get("type")).startswith("PodResize"):
            is_true = one.get("status") == "True"
            if is_true and one.get("observedGeneration", now) == now:
                yield one


def _container_of(of: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    """Resources of the node's container in a spec or a status; empty without any."""
    own = (one for one in mappings(of, key) if one.get("name") == CONTAINER)
    return mapping(next(own, {}), "resources")


def _millicores(written: str) -> int:
    return int(written[:-1]) if written.endswith("m") else int(written) * 1000


def _written(millicores: int) -> str:
    """Number of cores as the server writes it."""
    return f"{millicores}m" if millicores % 1000 else str(millicores // 1000)


def _too_old(version: str) -> FleetError:
    needed = ".".join(map(str, _NEEDED))
    return FleetError(
        f"this cluster, {version}, cannot resize pods: that needs Kubernetes {needed} or newer; "
        "leave out mechanism: cgroup, and the learner itself rests"
    )
