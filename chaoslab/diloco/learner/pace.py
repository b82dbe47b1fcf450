"""Pace of a learner: waits at the end of each step, to emulate a slower chip.

    step begins ─► step done ─► Pace.rest ─► the time at which a slower chip would be done
                                   ▲
    --speed 0.82, or the test hook {"do": "slow", "factor": 2}

This is the only way to slow a chip that no kernel schedules. After enough steps the target is the
measured step time multiplied by the factor, independent of other processes on the machine; with
`--speed` there is no such measurement, and each wait depends on its own step.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from statistics import median

from chaoslab.core.events import Json

_CALM_STEPS = 60
"""Steps whose median is the learner's own step time."""
_NAP_S = 0.1
"""Polling interval while waiting, in s, so that `hurry` takes effect."""


class Pace:
    """Pace of one training thread. `apply_hook` and `hurry` may be called from another one."""

    def __init__(
        self,
        *,
        speed: float = 1.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`speed`: 1 is the chip's own; at 0.5 each step takes twice as long."""
        if not 0 < speed <= 1:
            raise ValueError(f"speed: must be above 0 and at most 1, got {speed:g}")
        self._speed = speed
        self._factor = 1.0
        self._is_leaving = False
        self._now, self._sleep = now, sleep
        self._calm_s: deque[float] = deque(maxlen=_CALM_STEPS)

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Test hook: make steps `factor` times as long; without facts, as usual."""
        self._factor = max(1.0, float(str(facts.get("factor", 1.0))))

    def hurry(self) -> None:
        """Stop waiting: the learner is leaving."""
        self._is_leaving = True

    def rest(self, began_s: float) -> None:
        """Wait, after a step that began at `began_s`, until a slower chip would be done."""
        usual_s, factor = (self._now() - began_s) / self._speed, self._factor
        if factor == 1.0:
            self._calm_s.append(usual_s)
        elif self._calm_s:
            usual_s = max(usual_s, factor * median(self._calm_s))
        else:
            usual_s *= factor
        until_s = began_s + usual_s
        while (left_s := until_s - self._now()) > 0 and not self._is_leaving:
            self._sleep(min(left_s, _NAP_S))
