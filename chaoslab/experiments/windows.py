"""Windows of a renewal trace, in both tiers: what the pauses cost by formula, and by the policy.

    renewal ─► pauses of learners in a window ─┬─► shares of the time without them
                                               └─► faults at their times ─► sim fleet ─► its record

Both get the same pauses. A pause takes a learner's training away and leaves its
state, as where slices change (`process.pause`); or takes the state as well (`process.kill`), so
that the learner joins again with that of another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration
from chaoslab.experiments.run_measures import Stretch, measures_of
from chaoslab.experiments.simulated_runs import made_ready, simulated
from chaoslab.faults.catalogue import FAULTS
from chaoslab.plan.model import (
    Baseline,
    FaultPlan,
    FaultSpec,
    FleetSpec,
    Limits,
    Outage,
    Stop,
    Target,
    Training,
    Trigger,
)
from chaoslab.plan.schedule.chance import stream
from chaoslab.sim.costs import Costs
from chaoslab.sim.renewal.failure_models import Fleet
from chaoslab.sim.renewal.learner import Pause, pauses
from chaoslab.sim.renewal.scenario import Policy, Scenario
from chaoslab.sim.settings import Sim

_SHARES: Final = ("goodput", "contributors", "uptime", "rounds", "committed")
MEASURES: Final = tuple(f"{one}_{of}" for one in _SHARES for of in ("sums", "policy", "difference"))
_WARMUP, _BASELINE = 6, 12
"""Rounds before the faults: to warm up, and to measure."""
_LEAD: Final = 2.5
"""Rounds of all fragments before the window begins: longer than the baseline."""
_JOINED_STEPS: Final = 2
"""Pauses with fewer steps between them are one: no step can be seen there."""
_PATIENCE_S: Final = 3600.0
"""A learner that keeps its state is not dropped: its pauses are shorter."""


class State(StrEnum):
    """State that a pause leaves to a learner."""

    KEPT = "kept"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window of a training under failures of its chips."""

    chips: units.Count
    """Chips of the training, in equal parts for the learners."""
    learners: int
    """Learners of the training."""
    quorum: int = 1
    """The run advances while at least as many learners train."""
    failures: Fleet = Fleet.ONE_PER_YEAR
    """Failures of the fleet; of single chips."""
    change_s: Duration = 16.0
    """Pause of a learner for one change of its slices, as in `renewal`."""
    horizon_s: Duration = 86400.0
    """The window is drawn from this time of the renewal process."""
    length_s: Duration = 600.0
    """Length of the window."""
    state: State = State.KEPT
    """State that a pause leaves to a learner. `kept`: all, it continues as after SIGSTOP. `lost`:
    nothing, it joins again with the state of another, as after SIGKILL."""
    step_time_s: Duration = 0.5
    """Duration of a step."""
    fragments: int = 12
    """P: fragments of the model."""
    sync_every: int = 24
    """H: steps between two rounds of one fragment."""
    overlap: int = 2
    """tau: steps made during a round."""

    def __post_init__(self) -> None:
        _ = self.scenario, self.training  # their own rules
        if not 0 < self.length_s <= self.horizon_s:
            raise PlanError("must be above 0s and at most `horizon`", key="length")

    @property
    def scenario(self) -> Scenario:
        """The training for the renewal simulation."""
        return Scenario(
            policy=Policy.DECOUPLED, chips=self.chips, learners=self.learners, quorum=self.quorum,
            failures=self.failures, change_s=self.change_s, horizon_s=self.horizon_s,
        )  # fmt: skip

    @property
    def training(self) -> Training:
        """The training for the sim fleet."""
        patience_s = _PATIENCE_S if self.state is State.KEPT else 10 * self.step_time_s
        return Training(
            learners=self.learners, step_time=self.step_time_s, fragments=self.fragments,
            sync_every=self.sync_every, overlap=self.overlap, quorum=self.quorum,
            suspect_after_s=4 * self.step_time_s, drop_after_s=patience_s,
            stop=Stop(time_s=self.lead_s + self.length_s + self.sync_every * self.step_time_s),
        )  # fmt: skip

    @property
    def lead_s(self) -> float:
        """Beginning of the window in the policy's run."""
        return _LEAD * self.sync_every * self.step_time_s + _WARMUP


def measure(window: Window, seed: int) -> Mapping[str, float]:
    """Measures of a window in each tier, and the difference of the second from the first."""
    drawn = pauses_in(window, seed)
    sums, policy = _by_sums(window, drawn), _by_policy(window, drawn)
    return {
        name: value
        for one in _SHARES
        for name, value in (
            (f"{one}_sums", sums[one]),
            (f"{one}_policy", policy[one]),
            (f"{one}_difference", policy[one] - sums[one]),
        )
    }


def pauses_in(window: Window, seed: int) -> Sequence[Pause]:
    """Pauses of a window that is drawn from the horizon; times from its beginning on."""
    start_s = stream(seed, "window").random() * (window.horizon_s - window.length_s)
    found = [
        replace(
            one,
            start_s=max(one.start_s - start_s, 0.0),
            end_s=min(one.end_s - start_s, window.length_s),
        )
        for one in pauses(window.scenario, seed, until_s=start_s + window.length_s)
        if one.end_s > start_s
    ]
    return [
        one for one in _joined(found, _JOINED_STEPS * window.step_time_s) if one.end_s > one.start_s
    ]


def _joined(found: Sequence[Pause], near_s: float) -> Sequence[Pause]:
    """Pauses of a learner that are hardly apart as one."""
    joined: list[Pause] = []
    for one in found:
        last = joined[-1] if joined else None
        if last and last.learner == one.learner and one.start_s - last.end_s < near_s:
            joined[-1] = replace(last, end_s=max(last.end_s, one.end_s))
        else:
            joined.append(one)
    return joined


# ---------------------------------------------------------------- by sums of the pauses


def _by_sums(window: Window, found: Sequence[Pause]) -> Mapping[str, float]:
    """Time in which a quorum trains; for the rounds, in which a quorum is ready.

    A learner that comes back is ready when it has made the steps between two rounds anew.
    """
    away_s = sum(one.end_s - one.start_s for one in found)
    goodput = 1 - away_s / (window.length_s * window.learners)
    ready_s = (window.sync_every - window.overlap) * window.step_time_s
    not_ready = [replace(one, end_s=one.end_s + ready_s) for one in found]
    uptime, present = _with_quorum(window, found)
    rounds, _ = _with_quorum(window, not_ready)
    return {
        "goodput": goodput, "contributors": present, "uptime": uptime, "rounds": rounds,
        "committed": goodput,
    }  # fmt: skip


def _with_quorum(window: Window, away: Sequence[Pause]) -> tuple[float, float]:
    """Share of the time with a quorum, and the mean share of learners in that time."""
    quorate = [one for one in _stretches(away, window) if one[1] >= window.quorum]
    length_s = sum(length_s for length_s, _ in quorate)
    present_s = sum(length_s * number for length_s, number in quorate)
    share = present_s / window.learners / length_s if length_s else 0.0
    return length_s / window.length_s, share


def _stretches(found: Sequence[Pause], window: Window) -> Iterator[tuple[float, int]]:
    """Lengths of the times between two changes, and how many learners train in each."""
    ends_s = {0.0, window.length_s}
    for one in found:
        ends_s |= {min(one.start_s, window.length_s), min(one.end_s, window.length_s)}
    for start_s, end_s in pairwise(sorted(ends_s)):
        away = {one.learner for one in found if one.start_s <= start_s < one.end_s}
        yield end_s - start_s, window.learners - len(away)


# ---------------------------------------------------------------- by the policy


def _by_policy(window: Window, found: Sequence[Pause]) -> Mapping[str, float]:
    plan = plan_of(window, found)
    judged = simulated(made_ready(plan))
    stretch = Stretch(
        history=judged.history, plan=plan, start_s=window.lead_s,
        end_s=window.lead_s + window.length_s,
    )  # fmt: skip
    shown = measures_of(stretch)
    return {name: shown[name] for name in _SHARES}


def plan_of(window: Window, found: Sequence[Pause]) -> FaultPlan:
    """The window as a plan: each pause is a fault of its learner at its time."""
    return FaultPlan(
        name="window",
        training=window.training,
        fleet=FleetSpec(kind="sim", settings=Sim()),
        baseline=Baseline(warmup=_WARMUP, window=_BASELINE, max_variation=5.0),
        limits=Limits(min_alive=0, timeout_s=2 * _PATIENCE_S + window.length_s),
        settle_s=600.0,
        faults=tuple(_fault(window, number, one) for number, one in enumerate(found)),
    )


def _fault(window: Window, number: int, pause: Pause) -> FaultSpec:
    name = "process.pause" if window.state is State.KEPT else "process.kill"
    costs = Costs()
    restart_s = costs.start_s + costs.compile_s if window.state is State.LOST else 0.0
    lasts_s = max(pause.end_s - pause.start_s - restart_s, window.step_time_s)
    return FaultSpec(
        id=f"pause-{number}",
        fault=name,
        settings=FAULTS[name](),
        target=Target(names=(f"learner-{pause.learner}",)),
        at=Trigger(time_s=window.lead_s + pause.start_s),
        outage=Outage(seconds=round(lasts_s, 6)),
    )
