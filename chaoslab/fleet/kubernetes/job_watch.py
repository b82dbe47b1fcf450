"""Watch of the Jobs of a run's nodes: which there are, by whatever they were made or deleted.

job       there is one, with its unique id        job_gone   there is none any more
"""

from collections.abc import Mapping
from dataclasses import replace

from chaoslab.core.events import Json
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.resources import JOBS
from chaoslab.fleet.kubernetes.watch import Watch
from chaoslab.fleet.nodes.arrivals import Arrivals


class JobWatch(Watch):
    """Watches until it is closed."""

    resource = JOBS

    def __init__(self, cluster: Cluster, selector: str, arrivals: Arrivals) -> None:
        super().__init__(cluster, selector, arrivals)
        self._jobs: dict[str, EngineReported] = {}
        """By unique id: the report of those that are there."""

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
    """That there is a Job, for a node and incarnation."""
    labels = names.labels_in(job)
    lives = (names.LABEL_INCARNATION, names.LABEL_ATTEMPT)
    return EngineReported(
        node=labels.get(names.LABEL_NODE, ""),
        incarnation=sum(int(labels.get(one, "0")) for one in lives),
        action="job",
        uid=names.uid_of(job),
    )
