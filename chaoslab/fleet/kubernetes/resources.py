"""Paths of objects in the API of Kubernetes, by kind."""

from dataclasses import dataclass
from typing import Final

from chaoslab.fleet.kubernetes.names import JOB_SET_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Path of the objects of one kind in the API."""

    api: str
    """`api/v1`, or `apis/GROUP/VERSION`."""
    plural: str
    within: str = "namespaces/{}/"
    """Path of a namespace; empty: of the whole cluster."""

    @property
    def singular(self) -> str:
        """Name of one object in messages."""
        return self.plural[:-1]


PODS: Final = Resource(api="api/v1", plural="pods")
SERVICES: Final = Resource(api="api/v1", plural="services")
SECRETS: Final = Resource(api="api/v1", plural="secrets")
CLAIMS: Final = Resource(api="api/v1", plural="persistentvolumeclaims")
JOBS: Final = Resource(api="apis/batch/v1", plural="jobs")
JOB_SETS: Final = Resource(api=f"apis/jobset.x-k8s.io/{JOB_SET_VERSION}", plural="jobsets")
"""JobSets, in clusters with their controller."""
LEASES: Final = Resource(api="apis/coordination.k8s.io/v1", plural="leases")
KINDS: Final = {"Service": SERVICES, "Secret": SECRETS, "PersistentVolumeClaim": CLAIMS,
                 "Job": JOBS, "JobSet": JOB_SETS, "Lease": LEASES}  # fmt: skip
