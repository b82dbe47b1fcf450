"""Abilities of a fleet whose nodes run in a cluster; see `protocols`.

    node ─ runs in ─► pod ─ belongs to ─► Job
                       └─ is on ─► machine of the cluster, with its kubelet

A fault acts on one of them, and the node is lost with it.
"""

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

SILENT_S: Final = 20.0
"""A machine of a cluster is silent whose lease was not renewed for so long: a kubelet renews it
every 10 s."""
STOPPED_MOST_S: Final = 240.0
"""A kubelet may be stopped for so long: after 300 s the cluster deletes the pods of a machine that
it does not reach."""


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
class HasImages(Protocol):
    """Can have its nodes started from an image that nobody has."""

    def withhold_image(self, *names: str) -> None:
        """Delete their Jobs, and ask for the next ones with an image that nobody has.

        `restart` asks with the image that they had.
        """
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

    def stop_kubelet(self, injection: str, *names: str, for_s: float) -> None:
        """Stop the kubelets of their machines for so long; each goes on by itself then.

        Told by ENGINE_REPORTED. FleetError, and nothing is done, if another node is there.
        """
        ...

    def await_kubelet(self, injection: str) -> None:
        """FleetError while one of the kubelets that it stopped is not back."""
        ...
