"""Pace of a learner: waits at the end of each step, to emulate a chip that takes longer.

    no step time   step │ step │ step │        each waits by its own duration: --speed, hook "slow"
    step time      step··│step··│step··│       ends on a grid that no other process moves
                         due    due    due     period = step time / speed x factor of "slow"

With a step time (`--step-time`, or the test hook {"do": "pace", "step_s": 0.06}) a learner is as
fast as the chip that it emulates, however many processes share the machine, as long as each step
ends in time. A step that ends late is made up for by the next ones; whole periods that were lost
are not: they are counted as `overruns`, and the grid goes on from there. Without a step time,
`--speed` and {"do": "slow", "factor": 2} stretch the time that steps take here.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from statistics import median
from typing import Any

from chaoslab.core.events import Json
from chaoslab.diloco.node.waits import sleep

_CALM_STEPS = 60
"""Steps whose median is the learner's own step time."""
_NAP_S = 0.1
"""Polling interval while waiting, in s, so that `stop_waiting` takes effect."""


async def _nap(seconds: float) -> None:
    await sleep(min(seconds, _NAP_S))


class Pace:
    """Pace of one training thread. The hooks and `stop_waiting` may be called from another one."""

    def __init__(
        self,
        *,
        step_time_s: float | None = None,
        speed: float = 1.0,
        now_s: Callable[[], float] = time.monotonic,  # whatever a test hook does to clocks
        sleep: Callable[[float], Coroutine[Any, Any, None]] = _nap,
    ) -> None:
        """`step_time_s`: of a step at speed 1; None: as long as it takes here.

        `speed`: at 0.5 each step takes twice as long. ValueError for what no wait can give.
        `sleep` may end early.
        """
        if not 0 < speed <= 1:
            raise ValueError(f"speed: must be above 0 and at most 1, got {speed:g}")
        self._given_s = self._step_time_s = _checked(step_time_s)
        self._speed = speed
        self._factor = 1.0
        self._is_leaving = False
        self.now_s, self._sleep = now_s, sleep
        self._calm_s: deque[float] = deque(maxlen=_CALM_STEPS)
        self._due_s: float | None = None
        self.overruns = 0
        """Number of lost periods, because steps ended more than a whole one late."""

    @property
    def period_s(self) -> float | None:
        """Seconds from the end of one step to that of the next; None without a step time."""
        if self._step_time_s is None:
            return None
        return self._step_time_s / self._speed * self._factor

    def apply_slow_hook(self, facts: Mapping[str, Json]) -> None:
        """Test hook: make steps `factor` times as long; without facts, as usual."""
        self._factor = max(1.0, float(str(facts.get("factor", 1.0))))

    def apply_pace_hook(self, facts: Mapping[str, Json]) -> None:
        """Test hook: keep the step time `step_s`; without facts, that of the command line."""
        asked = facts.get("step_s")
        self._step_time_s = self._given_s if asked is None else _checked(float(str(asked)))

    def restart(self) -> None:
        """Begin the grid anew: the learner has waited for others, which is no overrun."""
        self._due_s = None

    def stop_waiting(self) -> None:
        """Stop waiting: the learner is leaving."""
        self._is_leaving = True

    async def rest(self, began_s: float, *, waited_s: float = 0.0) -> None:
        """Wait, after a step that began at `began_s`, until the emulated chip would be done.

        `waited_s`: how long the step waited for other learners.
        """
        period_s = self.period_s
        if period_s is None:
            self._due_s = None
            await self._wait_until(began_s + self._stretched_s(began_s))
            return
        place_s = (began_s if self._due_s is None else self._due_s) + period_s
        await self._wait_until(place_s)
        late_s = self.now_s() - place_s
        for_others_s = min(waited_s, max(late_s, 0.0))  # which is no overrun
        lost = max(0, math.floor((late_s - for_others_s) / period_s))
        self.overruns += lost
        self._due_s = place_s + for_others_s + lost * period_s

    def _stretched_s(self, began_s: float) -> float:
        """Time of a step without a step time: its own duration, stretched."""
        usual_s, factor = (self.now_s() - began_s) / self._speed, self._factor
        if factor == 1.0:
            self._calm_s.append(usual_s)
            return usual_s
        return max(usual_s, factor * median(self._calm_s)) if self._calm_s else factor * usual_s

    async def _wait_until(self, until_s: float) -> None:
        while (left_s := until_s - self.now_s()) > 0 and not self._is_leaving:
            await self._sleep(left_s)


def _checked(step_time_s: float | None) -> float | None:
    """The step time; ValueError unless it is a positive number of seconds."""
    if step_time_s is not None and not 0 < step_time_s < math.inf:
        raise ValueError(f"step time: must be above 0 s, got {step_time_s:g}")
    return step_time_s
