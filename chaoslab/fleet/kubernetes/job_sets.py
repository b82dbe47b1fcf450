"""JobSets of a run: where the cluster has them, they start nodes again, each alone.

    nodes of the start ─► JobSet chaoslab-RUN ─┬─► Job chaoslab-RUN-syncer-0 ─► pod
                                               └─► Job chaoslab-RUN-learner-0-0 ─► pod
    one that joins later ─► JobSet chaoslab-RUN-NODE ─► Job chaoslab-RUN-NODE-NODE-0 ─► pod

    pod fails ─► Job fails ─► its JobSet counts that in `jobRestarts` and makes this Job anew, with
                              the same name; all other Jobs run on (RestartJobAndIgnoreMaxRestarts)

The Jobs have the labels of nodes, as Jobs without a JobSet do: watches and logs tell no difference.
A JobSet cannot be given more Jobs later, so that of the start is made once all of them are known.
Its learners depend on the syncer: their Jobs are made, at the start and after a restart, once the
pod of the syncer is ready. A Job that was completed is not made anew, unless it is deleted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from chaoslab.core.events import Json
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.manifests import Manifests
from chaoslab.fleet.kubernetes.resources import JOB_SETS, JOBS

ACTION: Final = "RestartJobAndIgnoreMaxRestarts"
"""Action of a failure policy: the failed Job is made anew, without limit, and no other Job."""
_VERSION: Final = f"jobset.x-k8s.io/{names.JOB_SET_VERSION}"
EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of Jobs, with a label of machines: each has the machines of one value to itself."""


class NodeJob(NamedTuple):
    """A node and the manifest of its Job."""

    spec: NodeSpec
    job: Mapping[str, Json]


class JobSets:
    """JobSets of one run."""

    def __init__(self, cluster: Cluster, manifests: Callable[[], Manifests]) -> None:
        self._cluster, self._manifests = cluster, manifests
        self._gathered: list[NodeJob] | None = None
        """Nodes of a JobSet that is still to be made; None: each gets one of its own."""
        self._sets: dict[str, str] = {}
        """Name of the JobSet of each node."""

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Gather the nodes that are put meanwhile into one JobSet. FleetError if it is refused."""
        gathered: list[NodeJob] = []
        self._gathered = gathered
        try:
            yield
        finally:
            self._gathered = None
        if gathered:
            manifests = self._manifests()
            self._cluster.create(job_set(manifests, manifests.name(), gathered))

    def job_of(self, node: str) -> str:
        """Name of the Job that a node has here."""
        manifests = self._manifests()
        own = manifests.name() if self._gathered is not None else manifests.name(node)
        return f"{self._sets.setdefault(node, own)}-{_entry(node)}-0"

    def has(self, job: str) -> bool:
        """Whether a Job is one of a JobSet."""
        return any(self.job_of(node) == job for node in self._sets)

    def put(self, one: NodeJob) -> None:
        """Put a node into the gathered JobSet, or into one of its own."""
        if self._gathered is not None:
            self._gathered.append(one)
        else:
            name = self._sets[one.spec.name]
            self._cluster.create(job_set(self._manifests(), name, [one]))

    def withdraw(self, node: str) -> None:
        """Take a node back that cannot be begun."""
        if self._gathered is not None:
            self._gathered[:] = [one for one in self._gathered if one.spec.name != node]
        else:
            self._cluster.delete(JOB_SETS, self._sets[node])

    def delete_job(self, job: str) -> bool:
        """Delete a Job, whose JobSet makes it anew once its pod is gone; whether it was there."""
        return self._cluster.delete(JOBS, job, is_last=True)


def job_set(manifests: Manifests, name: str, nodes: Sequence[NodeJob]) -> Mapping[str, Json]:
    """The JobSet of these nodes."""
    settings, metadata = manifests.settings, manifests.metadata(name)
    rule: dict[str, Json] = {"name": "restartAlone", "action": ACTION}
    ordered = sorted(nodes, key=lambda one: one.spec.role is not Role.SYNCER)
    syncers = [one.spec.name for one in ordered if one.spec.role is Role.SYNCER]
    return {
        "apiVersion": _VERSION,
        "kind": "JobSet",
        "metadata": {
            **metadata, "labels": {**settings.labels, **names.labels_of(manifests.run)},
        },
        "spec": {
            "network": {"enableDNSHostnames": False},
            "failurePolicy": {"maxRestarts": 0, "rules": [rule]},
            "replicatedJobs": [
                _replicated(one, syncers, settings.exclusive_topology) for one in ordered
            ],
        },
    }  # fmt: skip


def trial() -> Mapping[str, Json]:
    """JobSet without nodes that only a server accepts whose JobSets restart single Jobs."""
    container: dict[str, Json] = {"name": "trial", "image": "trial", "command": ["true"]}
    pod: dict[str, Json] = {"restartPolicy": "Never", "containers": [container]}
    job: dict[str, Json] = {"spec": {"template": {"spec": pod}}}
    rule: dict[str, Json] = {"name": "restartAlone", "action": ACTION}
    return {
        "apiVersion": _VERSION,
        "kind": "JobSet",
        "metadata": {"name": "chaoslab-trial"},
        "spec": {
            "failurePolicy": {"rules": [rule]},
            "replicatedJobs": [{"name": "trial", "template": job}],
        },
    }


def _replicated(one: NodeJob, syncers: Sequence[str], exclusive: str) -> dict[str, Json]:
    is_learner = one.spec.role is Role.LEARNER
    metadata: dict[str, Json] = {"labels": {**names.labels_in(one.job)}}
    if is_learner and exclusive:
        metadata["annotations"] = {EXCLUSIVE: exclusive}
    after: list[Json] = [{"name": _entry(name), "status": "Ready"} for name in syncers]
    return {
        "name": _entry(one.spec.name),
        "replicas": 1,
        "template": {"metadata": metadata, "spec": one.job["spec"]},
        **({"dependsOn": after} if is_learner and after else {}),
    }


def _entry(node: str) -> str:
    """Name of a node in a JobSet."""
    return node.lower().replace("_", "-")
