"""Watch of the JobSets of a run: how often each says that it has started a Job again.

job_set      there is one with this node, with its unique id
job_restart  its count of the node's Job went up (`jobRestarts`): it makes that Job anew
"""

from collections.abc import Iterator, Mapping

from chaoslab.core.events import Json
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.job_sets import ACTION
from chaoslab.fleet.kubernetes.parts import mapping, mappings
from chaoslab.fleet.kubernetes.resources import JOB_SETS
from chaoslab.fleet.kubernetes.watch import Watch
from chaoslab.fleet.nodes.arrivals import Arrivals


class JobSetWatch(Watch):
    """Watches until it is closed."""

    resource = JOB_SETS

    def __init__(self, cluster: Cluster, selector: str, arrivals: Arrivals) -> None:
        super().__init__(cluster, selector, arrivals)
        self._counts: dict[str, Mapping[str, int]] = {}
        """By unique id of a JobSet and node: restarts of its Job."""

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
    """How often the Job of each node was started again alone, by the JobSet's status."""
    counts = {
        str(one.get("name")): sum(_whole(one.get("jobRestarts")))
        for one in mappings(job_set, "status", "replicatedJobsStatus")
    }
    found = {}
    for one in mappings(job_set, "spec", "replicatedJobs"):
        if node := names.labels_in(mapping(one, "template")).get(names.LABEL_NODE):
            found[node] = counts.get(str(one.get("name")), 0)
    return found


def _whole(counts: Json) -> Iterator[int]:
    for one in counts if isinstance(counts, list) else ():
        if isinstance(one, int):
            yield one
