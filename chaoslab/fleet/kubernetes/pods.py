"""One incarnation of a node in a cluster, and what all fleets of a cluster do with them.

    PodLife ─┬─ Pods ─┬─ PodIncarnation (`pod`): the pod of a Job
             │        └─ HostPods (`host_pods`): the pods of an indexed Job, each a PodIncarnation
             └─ a pod that others deployed (`attached.pods`)

A fleet of Jobs asks any of them for what `Pods` promises.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, TypeVar

from chaoslab.core.errors import FleetError
from chaoslab.fleet.cluster_protocols import HasPods
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.contact import Contact
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pod_state import PodState
from chaoslab.fleet.kubernetes.pod_watch import JobPods
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from chaoslab.fleet.kubernetes.watch import Watch
from chaoslab.fleet.nodes.arrivals import Arrivals, together
from chaoslab.fleet.nodes.fleet import NodeFleet
from chaoslab.fleet.nodes.incarnation import Incarnation
from chaoslab.fleet.protocols import HearsLate

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What the pods of a run are like, and who waits for whom how long."""

    pods: PodSettings
    start_s: float
    """Longest start of a pod."""
    lease_s: float
    """If the harness is gone for so long, the cluster deletes all of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Place):
    """Context of a run, shared by its pods."""

    run_objects: RunObjects
    arrivals: Arrivals
    """Queue of the threads of pods."""
    start_s: float
    """Longest start of a pod."""
    last_of: Callable[[str], PodState | None] = lambda _: None
    """A pod that is gone, by its name, as it was seen last."""
    pods_of: Callable[[str, int], JobPods] = lambda _, __: JobPods(lambda: inf)
    """The pods of a Job with an index, by the Job's name; without a watch, which hears of none,
    each is asked for."""


class PodLife(Incarnation):
    """A life of a node in pods, which the cluster can take away."""

    @abstractmethod
    def delete(self) -> None:
        """Delete its pods by force: even then they get SIGTERM, and SIGKILL soon after.

        FleetError if others have deleted one, so that it is not taken for ours.
        """

    @abstractmethod
    def evict(self) -> None:
        """Have the cluster take its pods away in order: SIGTERM, then SIGKILL."""


_Life = TypeVar("_Life", bound=PodLife)


class ClusterFleet(NodeFleet[_Life], HasPods, HearsLate):
    """A fleet of pods, of which it hears through the API server of a cluster."""

    end_s_max = 60.0
    _cluster: Cluster
    _watches: Sequence[Watch | Contact] = ()

    def _hear_by(self, *watches: Watch | Contact) -> None:
        self._watches = watches
        for one in watches:
            one.start()

    def _close_cluster(self) -> None:
        for one in self._watches:
            one.close()
        self._cluster.close()

    def hear_out(self) -> None:
        for one in self._watches:
            if isinstance(one, Contact):
                one.hear_out()

    def _thaw(self, life: _Life) -> None:
        if life.is_paused:
            life.resume()

    def delete_pod(self, *names: str) -> None:
        """Delete the pod by force, without grace."""
        together([self._running(name) for name in names], lambda life: life.delete())

    def evict_pod(self, *names: str) -> None:
        """Evict the pod by the eviction API, which respects budgets. FleetError: it refused."""
        together([self._running(name) for name in names], lambda life: life.evict())


class Pods(PodLife):
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
    def delete_job(self) -> None:
        """Delete its Job, and its pods with it: SIGTERM, and SIGKILL after their grace.

        FleetError if others have deleted it.
        """

    @abstractmethod
    def abandon(self) -> None:
        """Stop following it, and record no end of it."""


def killed(lives: Iterable[Pods]) -> Sequence[Pods]:
    """Pods that could be killed, at the end of a run whose objects are deleted anyway."""
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
