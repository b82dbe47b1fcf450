"""Mechanisms that put a stressor on a pod, by commands in it and by the cluster.

    Slowness ─┬──► StepRest: the learner's own rests, by its hook
              └──► Quota: the CPU limit of its container, resized in place
    MemoryLimit ─► Filled: the memory limit of its container, filled from within

A container has one limit of memory and one of CPU time, so two stressors of one kind on one node
are refused.
"""

from pathlib import Path

from chaoslab.core.ended import unless_ended
from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import StressCounts
from chaoslab.fleet.kubernetes import memory_filler, names, scripts
from chaoslab.fleet.kubernetes.cpu_limit import CpuLimit, await_resized, limit_of, resize
from chaoslab.fleet.kubernetes.cpu_meter import CpuCount
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.pods import Pods
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stress.slowing import CpuShare, StepRest
from chaoslab.fleet.stress.stress_process import until
from chaoslab.fleet.stressors import Mechanism, MemoryLimit, Slowness


def driver(wish: Wish[Pods]) -> StressDriver:
    """Mechanism for a stressor on a pod. FleetError if there is none."""
    life = wish.life
    match wish.stressor:
        case Slowness(mechanism=Mechanism.AUTO | Mechanism.HOOK) as slowness:
            return StepRest(life, slowness)
        case other if not isinstance(life, PodIncarnation):
            raise FleetError(
                f"stressor {other.kind}: on {life.spec.name}, which has several hosts, only test "
                "hooks are supported: choose a learner with one host"
            )
        case Slowness(mechanism=Mechanism.CGROUP) as slowness:
            if any(isinstance(one, Quota) and one.life is life for one in wish.others):
                raise FleetError(f"the CPU limit of {life.spec.name} is lowered already")
            return Quota(life, wish, slowness)
        case MemoryLimit() as limit:
            if any(isinstance(one, Filled) and one.life is life for one in wish.others):
                raise FleetError(f"the memory limit of {life.spec.name} is filled already")
            return Filled(life, limit)
        case other:
            raise FleetError(f"stressor {other.kind}: not supported by the kubernetes fleet")


class Quota(CpuShare):
    """The CPU limit of its container, lowered to a part of the CPU time that it used before."""

    def __init__(self, life: PodIncarnation, wish: Wish[Pods], stressor: Slowness) -> None:
        """FleetError while what the node uses is not known."""
        if life.cpu_used() is None:
            subject = f"the CPU time of {life.spec.name}"
            raise FleetError(f"{subject} is not measured yet: let the fault begin later")
        super().__init__(life.spec.name, wish.calm_cores, stressor)
        self.life, self._injection = life, wish.injection
        self._whole = limit_of(self.life.cluster.get(PODS, self.life.pod))
        """Its limit without stress."""
        self._before = self._count()

    @property
    def mechanism(self) -> str:
        return f"CPU limit of its container, {self._asked.limit} of {self._whole.limit}, resized"

    @property
    def _asked(self) -> CpuLimit:
        return self._whole.lowered(self._cores)

    def begin(self) -> None:
        """FleetError unless the kubelet does it."""
        self.life.open_undo(
            names.UNLIMIT_POD, self._injection,
            limit=self._whole.limit, request=self._whole.request,
        )  # fmt: skip
        self._resized(self._asked)

    def _apply(self) -> None:
        """Apply without waiting for the kubelet: training goes on, `counts` shows the effect."""
        life, asked = self.life, self._asked
        unless_ended(lambda: resize(life.cluster, life.pod, asked), lambda: life.has_exited)

    def counts(self) -> StressCounts:
        """Its share, and the time for which the kernel throttled its threads, in total."""
        now, found = self._count(), super().counts()
        if now is None or self._before is None:
            return found
        return {**found, "throttled_s": round(now.throttled_s - self._before.throttled_s, 3)}

    def end(self) -> None:
        """Unless its pod has ended, and its limit with it."""
        life = self.life
        if not life.pending_undos.is_open(names.UNLIMIT_POD, self._injection) or life.has_exited:
            return
        if unless_ended(lambda: self._resized(self._whole), lambda: life.has_exited, within_s=0.0):
            life.pending_undos.close(names.UNLIMIT_POD, self._injection)

    def _resized(self, asked: CpuLimit) -> bool:
        """True once the kubelet has done it. FleetError if it does not."""
        resize(self.life.cluster, self.life.pod, asked)
        await_resized(self.life.cluster, self.life.pod, asked)
        return True

    def _count(self) -> CpuCount | None:
        """Count; None if its container has ended."""
        said = self.life.execute(scripts.CPU_COUNT)
        return None if said is None else CpuCount.of(said)


class Filled(StressDriver):
    """The memory limit of its container, filled by `memory_filler` until the kernel kills."""

    mechanism = "the memory limit of its container, filled from within"

    def __init__(self, life: PodIncarnation, stressor: MemoryLimit) -> None:
        self.life, self._stressor = life, stressor

    def begin(self) -> None:
        """FleetError if its container has no limit: then the machine would be short of memory."""
        program = Path(memory_filler.__file__).read_text(encoding="utf-8")
        words = ("python3", "-I", "-S", "-c", program, until(self._stressor.for_s))
        self.life.open_undo(names.RELIEVE_POD)
        self.life.execute(words)

    def counts(self) -> StressCounts:
        """Whether it was killed out of memory, by the cluster's word."""
        return {"oom_kills": int(self.life.was_out_of_memory)}

    def end(self) -> None:
        """Unless its pod has ended, and all that was filled with it."""
        if not self.life.has_exited:
            self.life.execute(scripts.RELIEVE)
            self.life.pending_undos.close(names.RELIEVE_POD)
