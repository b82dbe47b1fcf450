"""One incarnation of a node in a cluster, whether it has one pod or one for each of its hosts.

    Pods ─┬─ PodIncarnation (`pod`): the pod of a Job
          └─ HostPods (`host_pods`): the pods of an indexed Job, each a PodIncarnation

The fleet asks either for what `Pods` promises.
"""

import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.nodes.arrivals import together
from chaoslab.fleet.nodes.incarnation import Incarnation

_log = logging.getLogger(__name__)


class Pods(Incarnation):
    """The pods of one Job. `is_over` once the end of all of them was noticed."""

    undo_pause: ClassVar[str] = names.RESUME_POD
    undo_wedge: ClassVar[str] = names.UNWEDGE_POD
    run_context: RunContext
    job: str
    """Name of its Job."""

    @property
    def where(self) -> str:
        return f"job {self.job}"

    @property
    @abstractmethod
    def machines(self) -> frozenset[str]:
        """Names of the nodes of the cluster that it runs on."""

    @property
    @abstractmethod
    def has_started(self) -> bool:
        """Whether all its pods run or ran."""

    @abstractmethod
    def await_start(self) -> None:
        """Wait a while until all its pods run. FleetError if they do not."""

    @abstractmethod
    def stop(self) -> None:
        """Stop all its processes."""

    @abstractmethod
    def delete(self) -> None:
        """Delete its pods by force: even then they get SIGTERM, and SIGKILL soon after.

        FleetError if others have deleted one, so that it is not taken for ours.
        """

    @abstractmethod
    def evict(self) -> None:
        """Have the cluster take its pods away in order: SIGTERM, then SIGKILL."""

    @abstractmethod
    def delete_job(self) -> None:
        """Delete its Job, and its pods with it: SIGTERM, and SIGKILL after their grace.

        FleetError if others have deleted it.
        """

    @abstractmethod
    def abandon(self) -> None:
        """Stop following it, and record no end of it."""


def killed(lives: Iterable[Pods]) -> Sequence[Pods]:
    """Those that could be killed, at the end of a run whose objects are deleted anyway."""
    told: list[Pods] = []

    def kill(life: Pods) -> None:
        try:
            life.signal("SIGKILL")
        except FleetError as error:
            _log.warning("%s could not be killed: %s", life.where, error)
        else:
            told.append(life)

    together(lives, kill)
    return told
