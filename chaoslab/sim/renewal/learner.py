"""One learner as a renewal process: trains, fails, pauses for a change of its slices, trains on.

    training ──failure──► pause (change, or until repaired) ──► training
       │  ▲                                                        │
       │  └──────────── pause (change) ◄── grow point, slices are back
       └─ no chips left: down until the first are back

Two clocks: *time* is that of the fleet, *trained* counts this learner's training alone. Failures
and grow points come by the second, repairs and outages of domains by the first. What fails in a
pause would be found by the change that is under way, so chips fail only while they train; and a
failure of a chip that is out of service is none.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from chaoslab.core.errors import PlanError
from chaoslab.plan.schedule.chance import stream
from chaoslab.sim.distributions import Exponential, weibull
from chaoslab.sim.renewal.failure_models import FailureModel
from chaoslab.sim.renewal.scenario import Policy, Scenario

Times: TypeAlias = NDArray[np.float64]
"""Seconds."""

_ROUNDING_S = 1e-6
"""Times that differ by less are equal."""


class Learner:
    """State of one learner. Its owner calls `advance`, and between two calls `lose` for outages."""

    __slots__ = (
        "_bad", "_change_s", "_chips", "_due_at", "_gap", "_grow_every_s", "_grows", "_horizon_s",
        "_is_rigid", "_life", "_lives", "_model", "_out", "_out_bad", "_place", "_possible_rng",
        "_relapse", "_repair", "_repair_s", "_returns", "_rng", "_slice", "_slow_until_s",
        "_strikes_at", "changes", "downs", "interruptions", "next_s", "since_s", "trained_s",
        "useful_s",
    )  # fmt: skip

    def __init__(self, scenario: Scenario, model: FailureModel, rng: Random) -> None:
        self._model = model
        self._chips = scenario.chips / scenario.learners
        self._is_rigid = scenario.policy is Policy.RIGID
        self._slice, self._change_s = scenario.slice_chips, scenario.change_s
        self._grow_every_s, self._horizon_s = scenario.grow_every_s, scenario.horizon_s
        self._relapse = Exponential(mean_s=model.relapse_s)
        self._life = weibull(mean_s=model.mtbi_s, shape=model.shape) if model.shape != 1 else None
        self._bad = self._chips * model.bad_share
        self._repair = model.repair or scenario.repair
        self._gap = Exponential(mean_s=model.mtbi_s / self._chips)
        self._possible_rng = np.random.Generator(np.random.PCG64(rng.getrandbits(128)))
        """Of possible failures alone, so that they do not depend on what comes of them."""
        self._rng = rng
        self._strikes_at = self._place = self._repair_s = 0.0
        """Next possible failure: trained time, place among all chips, repair."""
        self._out = self._out_bad = 0.0
        self._returns: list[tuple[float, float, float, bool]] = []
        """Returns of chips: time, number, number of bad ones, and whether one of them failed."""
        self._lives: list[float] = []
        """Trained time at which chips fail that have failed before, if they have a memory."""
        self._due_at, self._grows = 0.0, False
        """Trained time of the next event, and whether it is a grow point."""
        self._slow_until_s = 0.0
        self.since_s = self.trained_s = self.useful_s = 0.0
        """Trains since, or again from, this time; training until then; of it, with all chips."""
        self.interruptions = self.changes = 0
        self.next_s = 0.0
        self.downs: list[float] = []
        """Times at which it went down and came back, in turns, until they are taken."""
        self._next_possible()
        self._plan()

    def advance(self, until_s: float) -> None:
        """All events before a time."""
        while self.next_s < until_s:
            self.act(self.next_s)

    def act(self, time_s: float) -> float:
        """The event that is due; until when the learner is down, or `time_s` if it is not."""
        if self._is_empty:
            self._take_back(time_s)
            self._pause(time_s + self._change_s)
        else:
            self.settle(time_s)
            self.trained_s = self._due_at  # without what rounding left
            if self._grows:
                self._take_back(time_s)
                self._pause(time_s + self._change_s)
            elif self._lives and self._lives[0] <= self.trained_s:
                heappop(self._lives)
                self._fail(time_s, self._rng.random() * self._weight, self._repair.draw(self._rng))
            else:
                self._strike(time_s)
        self._plan()
        self._note(time_s)
        return self.since_s

    def lose(self, time_s: float, chips: float, outage_s: float) -> None:
        """An outage takes chips away."""
        self.settle(time_s)
        is_training = self.since_s <= time_s
        if self._is_rigid:
            self.changes += is_training
            self.since_s = max(self.since_s, time_s + outage_s + self._change_s)
        elif (lost := min(chips, self._chips - self._out)) > 0:
            share = lost / (self._chips - self._out)
            self._send_away(time_s + outage_s, lost, (self._bad - self._out_bad) * share)
            if is_training:
                self._pause(time_s + self._change_s)
        self._plan()
        self._note(time_s)

    def _note(self, time_s: float) -> None:
        """Note that it is down until `since_s`, which may be known later than its beginning."""
        if self.since_s <= time_s:
            return
        if self.downs and self.downs[-1] >= time_s:
            self.downs[-1] = self.since_s
        else:
            self.downs += (time_s, self.since_s)

    def taken_downs(self, end_s: float) -> tuple[Times, Times]:
        """When it went down until `end_s`, and when it came back, in some order.

        They are taken from it; what comes later is left.
        """
        went = np.array(self.downs[0::2])
        came = np.minimum(self.downs[1::2], end_s)
        rest_s = self.downs[-1] if self.downs else 0.0
        self.downs = [end_s, rest_s] if rest_s > end_s else []
        return went, came

    def settle(self, time_s: float) -> None:
        """Account for the training up to now."""
        trained_s = time_s - self.since_s
        if trained_s <= 0:
            return
        useful_s = trained_s
        if self._slow_until_s > self.since_s:
            slow_s = min(time_s, self._slow_until_s) - self.since_s
            useful_s -= slow_s * (1 - self._model.slow_speed)
        self.useful_s += useful_s * (1 - self._out / self._chips)
        self.trained_s += trained_s
        self.since_s = time_s

    # ------------------------------------------------------------ events

    def _strike(self, time_s: float) -> None:
        """A possible failure: none if its chip is out of service, or failed before."""
        hit = self._place * (self._chips + self._bad * (self._model.bad_factor - 1))
        # chips that have not failed yet: in equilibrium their first failures thin out as they are
        # survived (S(t) / mean per chip); Lewis and Shedler's thinning of a Poisson process
        if hit < self._weight and (
            self._life is None or self._rng.random() < self._life.survival(self.trained_s)
        ):
            self._fail(time_s, hit, self._repair_s)
        self._next_possible()

    def _fail(self, time_s: float, hit: float, repair_s: float) -> None:
        """An interruption: a slow-down, a hang or a failure; `hit` is a place below `_weight`."""
        self.interruptions += 1
        pause_s, model = self._change_s, self._model
        if model.slow_share or model.hang_share:
            kind = self._rng.random()
            if kind < model.slow_share:
                self._slow_until_s = time_s + model.slow_s
                return
            if kind < model.slow_share + model.hang_share:
                pause_s += model.hang_s
        if self._is_rigid:
            self._pause(time_s + pause_s + repair_s)
            self._return_to_life()
        else:
            lost = min(float(self._slice), self._chips - self._out)
            is_bad = hit < (self._bad - self._out_bad) * model.bad_factor
            bad = (lost - 1) * model.bad_share + is_bad
            self._send_away(time_s + repair_s, lost, bad, has_failed=True)
            self._pause(time_s + pause_s)

    @property
    def _weight(self) -> float:
        """Chips in service, those on bad machines as many times as they fail more often."""
        bad = self._bad - self._out_bad
        return self._chips - self._out + bad * (self._model.bad_factor - 1)

    def _send_away(
        self, until_s: float, chips: float, bad: float, *, has_failed: bool = False
    ) -> None:
        self._out += chips
        self._out_bad += bad
        heappush(self._returns, (until_s, chips, bad, has_failed))

    def _take_back(self, time_s: float) -> None:
        returns = self._returns
        while returns and returns[0][0] <= time_s + _ROUNDING_S:
            _, chips, bad, has_failed = heappop(returns)
            self._out -= chips
            self._out_bad -= bad
            if has_failed:
                self._return_to_life()
        if not returns:
            self._out = self._out_bad = 0.0  # without what rounding left

    def _return_to_life(self) -> None:
        """Draw the next failure of a repaired chip, unless it has no memory."""
        if self._model.relapse_share and self._rng.random() < self._model.relapse_share:
            fails_at = self.trained_s + self._relapse.draw(self._rng)
        elif self._life is not None:
            fails_at = self.trained_s + self._life.draw(self._rng)
        else:
            return
        if fails_at < self._horizon_s:
            heappush(self._lives, fails_at)

    def _pause(self, until_s: float) -> None:
        self.changes += 1
        self.since_s = until_s

    # ------------------------------------------------------------ what comes next

    def _plan(self) -> None:
        """Time and kind of the next event of this learner."""
        if self._is_empty:
            self.since_s, self.next_s = math.inf, self._returns[0][0]
            return
        fails_at = min(self._strikes_at, self._lives[0]) if self._lives else self._strikes_at
        grows_at = self._next_grow_point() if self._returns else math.inf
        self._grows = grows_at <= fails_at
        self._due_at = min(fails_at, grows_at)
        self.next_s = self.since_s + (self._due_at - self.trained_s)

    @property
    def _is_empty(self) -> bool:
        """Whether all chips are out of service."""
        return self._chips - self._out < 0.5

    def _next_possible(self) -> None:
        self._strikes_at += self._gap.draw(self._possible_rng)
        self._place = self._possible_rng.random()
        self._repair_s = self._repair.draw(self._possible_rng)

    def _next_grow_point(self) -> float:
        """Trained time of the first grow point after slices are back."""
        every_s = self._grow_every_s
        ready_at = self.trained_s + max(0.0, self._returns[0][0] - self.since_s)
        return (ready_at // every_s + 1.0) * every_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Pauses of the learners of a scenario, one by one: what `engine` counts, to be looked at.

        Scenario, seed ─► Learner of the engine ─► Pause(learner, from, until), …

    They are the pauses of the very learners that `engine.simulate` counts with the same seed.
    Outages of domains and traces hit several learners at once and are refused.
    """

    learner: int
    start_s: float
    end_s: float


def pauses(scenario: Scenario, seed: int, *, until_s: float) -> Iterator[Pause]:
    """Pauses that begin before `until_s`, learner by learner, each in the order of time."""
    model = scenario.model
    if model.domains or model.trace:
        raise PlanError(
            f"{scenario.failures} has outages of many chips at once: choose failures of single "
            "chips, such as one_per_year",
            key="failures",
        )
    for number in range(scenario.learners):
        learner = Learner(scenario, model, stream(seed, "learner", str(number)))
        while learner.next_s < until_s:
            start_s = learner.next_s
            end_s = learner.act(start_s)
            if end_s > start_s:
                yield Pause(learner=number, start_s=start_s, end_s=end_s)
