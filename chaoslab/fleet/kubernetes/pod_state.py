"""State of a node's pod, as the cluster shows it.

Pod ─► state_of ─► PodState: waits (why), runs (since when), ended (how), is being deleted (why)
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Final

from lightkube.models.core_v1 import ContainerStatus, Pod

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.manifests import CONTAINER

_HOPELESS: Final = frozenset(
    {"ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError",
     "RunContainerError"}
)  # fmt: skip
_NO_IMAGE: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
)
_OUT_OF_MEMORY: Final = "OOMKilled"
HOPELESS_S: Final = 10.0
"""A kubelet tries again what failed; on a busy machine it may take long to see a Secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod at one moment."""

    name: str
    uid: str = ""
    node: str = ""
    """Node of the training, not of the cluster."""
    incarnation: int = 0
    job: str = ""
    """Name of its Job."""
    index: int = 0
    """Number of the pod in its Job, where that has one for each host of a learner."""
    machine: str = ""
    """Node of the cluster."""
    waiting: str = ""
    """Reason for which it does not run yet; empty if it does or has ended."""
    is_hopeless: bool = False
    """Whether it waits for what does not come by itself."""
    started_s: float | None = None
    """Start of its container, in s since the epoch, by the clock of its machine."""
    ended_s: float | None = None
    """Its end, by the same clock."""
    exit_code: int | None = None
    """128 and the number of the signal, for one that a signal ended; None while it runs."""
    reason: str = ""
    """Reason of its end, in the cluster's word: Completed, Error, OOMKilled."""
    container: str = ""
    image: str = ""
    image_id: str = ""
    is_failed: bool = False
    """Whether the cluster gave it up, with or without a word on its container."""
    is_deleted: bool = False
    """Whether its deletion was asked for."""
    disruption: str = ""
    """Reason for its disruption: EvictionByEvictionAPI, DeletionByTaintManager, …"""

    @property
    def has_started(self) -> bool:
        """Whether its container runs or ran."""
        return self.started_s is not None

    @property
    def has_ended(self) -> bool:
        """Whether its container ran and ended, or how will never be known."""
        return self.exit_code is not None or (self.is_failed and self.has_started)

    @property
    def facts(self) -> Mapping[str, Json]:
        """Facts for NODE_STARTED; the process has the number 0: its own counts in the pod alone."""
        return {
            "pid": 0,
            "container": self.name,
            "image": self.image,
            "image_id": self.image_id or None,
            "container_began_s": self.started_s,
        }

    @property
    def waiting_for(self) -> str:
        """Reason for which it does not run yet, in one word of the cluster."""
        return self.waiting.partition(":")[0]

    @property
    def lacks_image(self) -> bool:
        """Whether its image cannot be had, by the cluster's word."""
        return self.waiting_for in _NO_IMAGE

    @property
    def was_out_of_memory(self) -> bool:
        """Whether the kernel killed it out of memory, by the cluster's word."""
        return self.reason == _OUT_OF_MEMORY


class Hope:
    """Patience of a caller that waits for a pod to start."""

    def __init__(self) -> None:
        self._lost_s = inf

    def is_lost(self, state: PodState) -> bool:
        """Whether it has waited for `HOPELESS_S` for what does not come by itself."""
        now_s = time.monotonic()
        self._lost_s = min(self._lost_s, now_s) if state.is_hopeless else inf
        return now_s - self._lost_s >= HOPELESS_S


def state_of(pod: Pod, container_name: str = CONTAINER) -> PodState:
    """State of a pod, and this container of it."""
    metadata, status = pod.metadata, pod.status
    labels = (metadata.labels if metadata else None) or {}
    number = labels.get(names.LABEL_INCARNATION, "")  # of other people's pods, it may be any text
    index = labels.get(names.LABEL_INDEX, "")
    conditions = (status.conditions if status else None) or []
    told = [one for one in conditions if one.type == "DisruptionTarget" and one.status == "True"]
    container = _container((status.containerStatuses if status else None) or [], container_name)
    state = container.state if container else None
    running = state.running if state else None
    ended = state.terminated if state else None
    is_over = ended is not None
    is_failed = (status.phase if status else None) == "Failed"
    waiting = "" if running or ended else _waiting(pod, container)
    return PodState(
        name=(metadata.name if metadata else None) or "",
        uid=(metadata.uid if metadata else None) or "",
        node=labels.get(names.LABEL_NODE, ""),
        incarnation=int(number) if number.isdecimal() else 0,
        job=labels.get("job-name", ""),
        index=int(index) if index.isdecimal() else 0,
        machine=(pod.spec.nodeName if pod.spec else None) or "",
        waiting=waiting,
        is_hopeless=waiting.partition(":")[0] in _HOPELESS or (bool(waiting) and is_failed),
        started_s=_epoch_s((ended.startedAt if ended else None)
                           or (running.startedAt if running else None)),
        ended_s=_epoch_s(ended.finishedAt if ended else None),
        exit_code=ended.exitCode if ended and is_over else None,
        reason=(ended.reason if ended else None) or (status.reason if status else None) or "",
        container=(container.containerID if container else None) or "",
        image=(container.image if container else None) or "",
        image_id=(container.imageID if container else None) or "",
        is_failed=is_failed,
        is_deleted=bool(metadata and metadata.deletionTimestamp),
        disruption=next((one.reason or "" for one in told), ""),
    )  # fmt: skip


def previous_of(pod: Pod, container_name: str) -> PodState | None:
    """End of the last life of a container that the cluster has restarted in its pod."""
    statuses = (pod.status.containerStatuses if pod.status else None) or []
    container = _container(statuses, container_name)
    ended = container.lastState.terminated if container and container.lastState else None
    if ended is None:
        return None
    return replace(
        state_of(pod, container_name),
        waiting="",
        started_s=_epoch_s(ended.startedAt),
        ended_s=_epoch_s(ended.finishedAt),
        exit_code=ended.exitCode,
        reason=ended.reason or "",
        container=ended.containerID or "",
    )


def _container(statuses: Sequence[ContainerStatus], name: str) -> ContainerStatus | None:
    return next((one for one in statuses if one.name == name), None)


def _waiting(pod: Pod, container: ContainerStatus | None) -> str:
    """Reason for its wait: the container's, else that of the scheduler."""
    waits = container.state.waiting if container and container.state else None
    if waits and waits.reason:
        return f"{waits.reason}: {waits.message}" if waits.message else waits.reason
    if pod.status and pod.status.phase == "Failed" and pod.status.reason:
        return f"{pod.status.reason}: {pod.status.message}"
    for one in (pod.status.conditions if pod.status else None) or []:
        if one.type == "PodScheduled" and one.status != "True":
            return f"{one.reason}: {one.message}" if one.message else one.reason or "Pending"
    return (pod.status.phase if pod.status else None) or "Pending"


def _epoch_s(at: datetime | str | None) -> float | None:
    """Seconds since the epoch of a time in the models, which may be text."""
    if at is None:
        return None
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    return moment.timestamp()
