"""Abilities of a fleet whose nodes run in a cluster; see `protocols`.

    node ─ runs in ─► pod ─ belongs to ─► Job
                       └─ is on ─► machine of the cluster

A fault acts on one of them, and the node is lost with it.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class HasPods(Protocol):
    """Has nodes in pods of a cluster, and can do to these what others do."""

    def delete_pod(self, *names: str) -> None:
        """Delete their pods by force, side by side. FleetError for a dead node."""
        ...

    def evict_pod(self, *names: str) -> None:
        """Have their pods evicted, as the drain of a machine does. FleetError if refused."""
        ...


@runtime_checkable
class HasJobs(Protocol):
    """Has made a Job of a cluster for each node."""

    def delete_job(self, *names: str) -> None:
        """Delete the Jobs to which their pods belong, and the pods with them."""
        ...


@runtime_checkable
class HasMachines(Protocol):
    """Has nodes on machines of a cluster, and can do to these what others do. Kept by injection."""

    def beside(self, *names: str) -> Sequence[str]:
        """All nodes on the machines of these, themselves included.

        FleetError for a dead node, or while a node has no machine yet.
        """
        ...

    def drain(self, injection: str, *names: str) -> None:
        """Cordon the machines of these nodes, and have all pods of the run on them evicted.

        FleetError, and nothing is done, if another node is there, or a machine is cordoned already.
        """
        ...

    def uncordon(self, injection: str) -> None:
        """Let the machines that it cordoned take pods again."""
        ...
