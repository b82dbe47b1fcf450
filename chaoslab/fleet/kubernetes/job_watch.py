"""Watch of the Jobs of a run's nodes: which there are, whoever made or deleted them.

job       there is one, with its unique id        job_gone   there is none any more
"""

import time
from collections.abc import Mapping

from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import JOBS
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.kubernetes.watch import Watch


class JobWatch(Watch):
    """Watches until it is closed."""

    resource = JOBS

    def __init__(self, run_context: RunContext) -> None:
        super().__init__(run_context)
        self._jobs: dict[str, Mapping[str, Json]] = {}
        """By name: what is reported of those that are there."""

    @property
    def _there(self) -> frozenset[str]:
        return frozenset(self._jobs)

    def _see(self, found: Mapping[str, Json]) -> str:
        name, about = names.name_of(found), facts_of(found)
        before = self._jobs.get(name)
        if before is not None and before["uid"] != about["uid"]:
            self._lose(name)
        if name not in self._jobs:
            self._jobs[name] = about
            self._report({**about, "action": "job", "at_s": time.time()})
        return name

    def _lose(self, name: str) -> None:
        self._report({**self._jobs.pop(name), "action": "job_gone", "at_s": time.time()})


def facts_of(job: Mapping[str, Json]) -> Mapping[str, Json]:
    """Node, incarnation and unique id of a Job."""
    labels, metadata = names.labels_in(job), names.metadata_of(job)
    return {
        "node": labels.get(names.LABEL_NODE, ""),
        "incarnation": int(labels.get(names.LABEL_INCARNATION, "0")),
        "uid": str(metadata.get("uid", "")),
    }
