"""Mechanisms that put a stressor on a pod, by commands in it.

    Slowness ────► StepRest: the learner's own rests, by its hook
    MemoryLimit ─► Filled: the memory limit of its container, filled from within

A pod has one limit of memory, so two stressors of that kind on one node are refused.
"""

from collections.abc import Mapping
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import memory_filler, names, scripts
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.stress.keepers import until
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stress.slowing import StepRest
from chaoslab.fleet.stressors import Mechanism, MemoryLimit, Slowness


def driver(wish: Wish[PodIncarnation]) -> StressDriver:
    """Mechanism for a stressor on a pod. FleetError if there is none."""
    match wish.stressor:
        case Slowness(mechanism=Mechanism.AUTO | Mechanism.HOOK) as slowness:
            return StepRest(wish.life, slowness)
        case MemoryLimit() as limit:
            if any(isinstance(one, Filled) and one.life is wish.life for one in wish.others):
                raise FleetError(f"the memory limit of {wish.life.spec.name} is filled already")
            return Filled(wish.life, limit)
        case other:
            raise FleetError(f"the kubernetes fleet cannot put a {other.kind} upon a node")


class Filled(StressDriver):
    """The memory limit of its container, filled by `memory_filler` until the kernel kills."""

    mechanism = "the memory limit of its container, filled from within"

    def __init__(self, life: PodIncarnation, stressor: MemoryLimit) -> None:
        self.life, self._stressor = life, stressor

    def begin(self) -> None:
        """FleetError if its container has no limit: then the machine would be short of memory."""
        program = Path(memory_filler.__file__).read_text(encoding="utf-8")
        words = ("python3", "-I", "-S", "-c", program, until(self._stressor.for_s))
        self.life.owe(names.RELIEVE_POD)
        self.life.execute(words)

    def counts(self) -> Mapping[str, Json]:
        """Whether it was killed for want of memory, by the cluster's word."""
        return {"oom_kills": int(self.life.was_out_of_memory)}

    def end(self) -> None:
        """Unless its pod has ended, and all that was filled with it."""
        if not self.life.has_exited:
            self.life.execute(scripts.RELIEVE)
            self.life.pending_undos.settle(names.RELIEVE_POD)
