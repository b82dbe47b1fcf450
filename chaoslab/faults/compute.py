"""Faults by which a learner's chip becomes slower: slow, jitter, thermal.

    slow     ▁▁▁███████▁▁      jitter  ▁▁▃█▁▅▂▇▁▁      thermal  ▁▂▄▆█▆█▆█▅▃▁

A chip that is slow is not a chip that is gone: the learner stays a member, contributes what it has
trained on, and the others keep their own pace. All three put one `Slowness` upon each
target and change its strength at each step; by which mechanism is the fleet's choice or the plan's.
"""

import random
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.units import Duration, Factor, Share
from chaoslab.faults.actions import Stresses, stress_all
from chaoslab.faults.base import Layer
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.pace import Stage, look_slowed
from chaoslab.faults.evidence.window import EvidenceWindow, Found
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.stressors import Mechanism, Slowness
from chaoslab.plan.model import Injection
from chaoslab.record.history import History

_NEEDS = {
    Mechanism.AUTO: Ability.SLOW,
    Mechanism.CGROUP: Ability.QUOTA,
    Mechanism.DUTY_CYCLE: Ability.DUTY_CYCLE,
    Mechanism.HOOK: Ability.HOOKS,
}
"""Abilities that a mechanism needs beside SLOW."""


class _Slowing(Stresses):
    """A fault that slows its targets in stages."""

    __slots__ = ()
    mechanism: Mechanism
    tolerance: float

    strength: ClassVar[Mapping[str, float]] = {"factor": 1.0}
    may_silence = False
    layer = Layer.SCHEDULER
    proof = "step time against its own before, less the others' slowdown; within `tolerance`"

    @property
    @abstractmethod
    def slowdown_stages(self) -> tuple[Stage, ...]:
        """Stages with offsets and largest factors: the first at once, each other one at a step."""

    def stages(self, injection: Injection) -> tuple[Stage, ...]:  # noqa: ARG002 - nothing is drawn
        """Stages of this injection."""
        return self.slowdown_stages

    def steps(self) -> tuple[float, ...]:
        """The beginning of each stage after the first."""
        return tuple(stage.offset_s for stage in self.slowdown_stages[1:])

    @property
    def needs(self) -> frozenset[Ability]:
        """A way to slow a node, or the one that the plan names."""
        return frozenset({Ability.SLOW, _NEEDS[self.mechanism]})

    def stressor(self, injection: Injection) -> Slowness:
        """The slowness of the first stage."""
        return self._slowness(injection, 0)

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """Change the slowness of every target to that of the next stage."""
        stress_all(injection, fleet, self._slowness(injection, step_index + 1))

    def requested(self) -> Mapping[str, Json]:
        """The tolerance, and the mechanism."""
        return {"tolerance": self.tolerance, "mechanism": self.mechanism.value}

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """Requested is the factor of the slowest stage."""
        factor = max(stage.factor for stage in self.stages(injection))
        found = super().evidence(injection, history)
        return tuple(replace(one, requested={"factor": factor, **one.requested}) for one in found)

    def look(self, window: EvidenceWindow) -> Found:
        """Step times, stage by stage, beside what was asked."""
        return look_slowed(window, self.stages(window.injection), tolerance=self.tolerance)

    def _slowness(self, injection: Injection, stage: int) -> Slowness:
        factor = self.stages(injection)[stage].factor
        return Slowness(factor=factor, mechanism=self.mechanism, for_s=injection.for_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeSlow(_Slowing):
    """The learner's chip is slower: each of its steps takes `factor` times as long."""

    factor: Factor = 2.0
    """2x: half the speed."""
    ramp_s: Duration = 0.0
    """Time to reach the factor, in even steps."""
    ramp_steps: int = 4
    """Number of these steps."""
    mechanism: Mechanism = Mechanism.AUTO
    """cgroup, duty_cycle or hook; auto takes the first of them that this place allows."""
    tolerance: Share = 0.5
    """Largest relative error of the measured slowness (the part beyond 1x)."""

    name = "compute.slow"
    summary = "each step takes several times as long"
    imitates = "an older chip generation or a shared chip; the device's clocks are not touched"

    def __post_init__(self) -> None:
        _refuse(self.factor, self.tolerance)
        if self.ramp_s < 0 or self.ramp_steps < 1:
            raise PlanError("`ramp` is at least 0s, in at least one of `ramp_steps`")

    @property
    def slowdown_stages(self) -> tuple[Stage, ...]:
        """The ramp, and then the whole factor."""
        steps = self.ramp_steps if self.ramp_s else 1
        return tuple(
            Stage(
                offset_s=self.ramp_s * step / steps,
                factor=1 + (self.factor - 1) * (step + 1) / steps,
            )
            for step in range(steps)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeJitter(_Slowing):
    """The learner's chip is now faster, now slower: a factor is drawn anew for each stretch."""

    factor: Factor = 3.0
    """Drawn evenly from 1x to this."""
    every_s: Duration = 3.0
    """Duration of each stretch."""
    times: int = 6
    """Number of stretches; the last one lasts until the heal."""
    seed: int = 0
    """Seed of the drawn factors, with the fault's id and number; independent of the plan's seed."""
    mechanism: Mechanism = Mechanism.AUTO
    """cgroup, duty_cycle or hook; auto takes the first of them that this place allows."""
    tolerance: Share = 0.5
    """Largest relative error of the mean measured slowness (the part beyond 1x)."""

    name = "compute.jitter"
    summary = "steps take longer by a factor that changes all the time"
    imitates = "a straggler whose speed varies: contention, input stalls, garbage collection"

    def __post_init__(self) -> None:
        _refuse(self.factor, self.tolerance)
        if self.times < 2 or self.every_s <= 0:
            raise PlanError("`times` is at least 2, and `every` a duration above 0s")

    @property
    def slowdown_stages(self) -> tuple[Stage, ...]:
        """One stage for each stretch."""
        offsets_s = (self.every_s * stretch for stretch in range(self.times))
        return tuple(Stage(offset_s=offset_s, factor=self.factor) for offset_s in offsets_s)

    def stages(self, injection: Injection) -> tuple[Stage, ...]:
        """Stages with a factor each; the same in every run."""
        rng = random.Random(f"{self.seed} {injection.spec} {injection.number}")
        return tuple(
            replace(one, factor=rng.uniform(1, self.factor)) for one in self.slowdown_stages
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeThermal(_Slowing):
    """The learner's chip gets hot: slower and slower, up and down at its limit, then it cools."""

    factor: Factor = 2.5
    """Factor at the limit."""
    ramp_s: Duration = 6.0
    """Time from the first step down to the limit, and at the end from there back."""
    plateau_s: Duration = 12.0
    """Time at the limit."""
    tooth_s: Duration = 3.0
    """Period of the sawtooth at the limit: it throttles for this long, then eases for as long."""
    tooth_share: Share = 0.4
    """Share of the slowness that is gone while it eases."""
    mechanism: Mechanism = Mechanism.AUTO
    """cgroup, duty_cycle or hook; auto takes the first of them that this place allows."""
    tolerance: Share = 0.5
    """Largest relative error of the mean measured slowness (the part beyond 1x)."""

    name = "compute.thermal"
    summary = "a chip throttles: slower by and by, a sawtooth, and back"
    imitates = "a chip that throttles with heat; its clocks and temperature are not touched"

    def __post_init__(self) -> None:
        _refuse(self.factor, self.tolerance)
        if self.ramp_s <= 0 or self.plateau_s <= 0 or self.tooth_s <= 0:
            raise PlanError("`ramp`, `plateau` and `tooth` are durations above 0s")
        if not 0 <= self.tooth_share < 1:
            raise PlanError("`tooth_share` is at least 0% and below 100%", key="tooth_share")

    @property
    def slowdown_stages(self) -> tuple[Stage, ...]:
        """Three steps up, the teeth, three steps down."""
        beyond, third_s = self.factor - 1, self.ramp_s / 3
        teeth = max(1, round(self.plateau_s / self.tooth_s))
        let_go = [1.0, 1.0 - self.tooth_share]
        shares = [0.25, 0.5, 0.75, *(let_go[tooth % 2] for tooth in range(teeth)), 0.75, 0.5, 0.25]
        lengths_s = [third_s] * 3 + [self.plateau_s / teeth] * teeth + [third_s] * 2
        offsets_s = accumulate(lengths_s, initial=0.0)
        return tuple(
            Stage(offset_s=offset_s, factor=1 + beyond * share)
            for offset_s, share in zip(offsets_s, shares, strict=True)
        )


def _refuse(factor: float, tolerance: float) -> None:
    """PlanError for what no chip can be, or no report can show."""
    if factor < 1.25:
        raise PlanError(
            f"`factor: {factor:g}x` cannot be told from noise: write 1.25x or more; for a chip "
            "that is a little slower from the start, see groups under `training.learners`",
            key="factor",
        )
    if factor > 100:
        raise PlanError(f"`factor: {factor:g}x`: use process.pause to stop a learner", key="factor")
    if not 0 < tolerance <= 1:
        raise PlanError("`tolerance` is above 0% and at most 100%", key="tolerance")
