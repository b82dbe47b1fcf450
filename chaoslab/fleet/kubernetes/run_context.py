"""Context of a run, shared by its pods."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.kubernetes.pod_state import PodState
from chaoslab.fleet.kubernetes.pod_watch import JobPods
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from chaoslab.fleet.nodes.arrivals import Arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Place):
    """What all pods of a run share."""

    run_objects: RunObjects
    arrivals: Arrivals
    """On which the threads of pods report."""
    start_s: float
    """How long a pod may take to start."""
    last_of: Callable[[str], PodState | None] = lambda _: None
    """A pod that is gone, by its name, as it was seen last."""
    pods_of: Callable[[str, int], JobPods] = lambda _, __: JobPods(lambda: inf)
    """The pods of a Job with an index, by the Job's name; without a watch, which hears of none,
    each is asked for."""
