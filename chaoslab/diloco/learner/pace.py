"""How a learner is slower than its chip: each step ends with a rest.

    step begins ─► step done ─► Pace.rest ─► the moment at which a slower chip would be done
                                   ▲
    --speed 0.82, or the test hook {"do": "slow", "factor": 2}

The only way to slow a chip that no kernel rations. A learner that has a pace of its own to compare
with aims at that pace times the factor, whatever its neighbours do with the cores that it leaves
them; from the first step on (`--speed`) there is none, and each rest goes by its own step.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from statistics import median

from chaoslab.core.events import Json

_CALM_STEPS = 60
"""The middle one of so many steps, a few seconds of them, is its own pace."""
_NAP_S = 0.1
"""It looks this often whether it is to hurry."""


class Pace:
    """The pace of one training thread. `apply_hook` and `hurry` may be called from another one."""

    def __init__(
        self,
        *,
        speed: float = 1.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`speed`: 1 is the chip's own; at 0.5 each step takes twice as long."""
        if not 0 < speed <= 1:
            raise ValueError(f"a speed is above 0 and at most 1, not {speed:g}")
        self._speed = speed
        self._factor = 1.0
        self._is_leaving = False
        self._now, self._sleep = now, sleep
        self._calm_s: deque[float] = deque(maxlen=_CALM_STEPS)

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Of the test hook: be `factor` times as slow as usual; as usual without one."""
        self._factor = max(1.0, float(str(facts.get("factor", 1.0))))

    def hurry(self) -> None:
        """No more rests: the learner is leaving."""
        self._is_leaving = True

    def rest(self, began_s: float) -> None:
        """After a step that began then: wait for as long as a slower chip would have gone on."""
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
