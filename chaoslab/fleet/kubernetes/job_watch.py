"""Watches of the Jobs of a run's nodes, which there are, by whatever they were made or deleted; and
of their JobSets.

job       there is one, with its unique id        job_gone   there is none any more
"""

from collections.abc import Mapping
from dataclasses import replace

from chaoslab.core.events import Json
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.job_sets import ACTION
from chaoslab.fleet.kubernetes.parts import listed, mapping, mappings
from chaoslab.fleet.kubernetes.resources import JOB_SETS, JOBS
from chaoslab.fleet.kubernetes.watch import Watch
from chaoslab.fleet.nodes.arrivals import Arrivals


class JobWatch(Watch):
    """Watches until it is closed."""

    resource = JOBS

    def __init__(self, cluster: Cluster, selector: str, arrivals: Arrivals) -> None:
        super().__init__(cluster, selector, arrivals)
        self._jobs: dict[str, EngineReported] = {}
        """Reports of the existing Jobs, by unique id."""

    @property
    def _there(self) -> frozenset[str]:
        return frozenset(self._jobs)

    def _see(self, found: Mapping[str, Json]) -> None:
        uid = names.uid_of(found)
        if uid not in self._jobs:
            self._jobs[uid] = reported(found)
            self._report(self._jobs[uid])

    def _lose(self, uid: str) -> None:
        self._report(replace(self._jobs.pop(uid), action="job_gone"))


def reported(job: Mapping[str, Json]) -> EngineReported:
    """Report of a Job, for a node and incarnation."""
    labels = names.labels_in(job)
    lives = (names.LABEL_INCARNATION, names.LABEL_ATTEMPT)
    return EngineReported(
        node=labels.get(names.LABEL_NODE, ""),
        incarnation=sum(int(labels.get(one, "0")) for one in lives),
        action="job",
        uid=names.uid_of(job),
    )


class JobSetWatch(Watch):
    """Watch of the JobSets of a run: how often each says that it has started a Job again.

    job_set      there is one with this node, with its unique id
    job_restart  its count of the node's Job went up (`jobRestarts`): it makes that Job anew
    """

    resource = JOB_SETS

    def __init__(self, cluster: Cluster, selector: str, arrivals: Arrivals) -> None:
        super().__init__(cluster, selector, arrivals)
        self._counts: dict[str, Mapping[str, int]] = {}
        """Restarts of a Job, by unique id of its JobSet and node."""

    @property
    def _there(self) -> frozenset[str]:
        return frozenset(self._counts)

    def _see(self, found: Mapping[str, Json]) -> None:
        uid, counts = names.uid_of(found), restarts_of(found)
        before = self._counts.get(uid)
        self._counts[uid] = counts
        for node, restarts in counts.items():
            if before is None:
                self._tell(node, "job_set", restarts, uid=uid)
            if restarts > (before or {}).get(node, 0):
                self._tell(node, "job_restart", restarts, reason=ACTION)

    def _lose(self, uid: str) -> None:
        del self._counts[uid]

    def _tell(
        self, node: str, action: str, restarts: int, *, uid: str = "", reason: str = ""
    ) -> None:
        said = EngineReported(
            node=node,
            incarnation=restarts,
            action=action,
            restarts=restarts,
            uid=uid,
            reason=reason,
        )
        self._report(said)


def restarts_of(job_set: Mapping[str, Json]) -> Mapping[str, int]:
    """Number of restarts of each node's Job alone, by the JobSet's status."""
    counts = {
        str(one.get("name")): sum(
            times for times in listed(one, "jobRestarts") if isinstance(times, int)
        )
        for one in mappings(job_set, "status", "replicatedJobsStatus")
    }
    found = {}
    for one in mappings(job_set, "spec", "replicatedJobs"):
        if node := names.labels_in(mapping(one, "template")).get(names.LABEL_NODE):
            found[node] = counts.get(str(one.get("name")), 0)
    return found
