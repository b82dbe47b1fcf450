"""Units of measures: how a table shows a value, and how far it is from a published one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chaoslab.sim.timeline.engine import grid_steps


def _points(ours: float, published: float) -> float:
    return ours - published


def _percent(ours: float, published: float) -> float:
    return 100 * (ours / published - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Unit of a measure."""

    symbol: str
    """Symbol behind the name of the measure: `goodput in %`; empty: a number."""
    scale: float = 1.0
    """Factor of a shown value."""
    digits: str = ".3g"
    """Format of a number in a table."""
    is_logarithmic: bool = True
    """Whether a figure has a logarithmic axis; if not, one from 0 to 100."""
    error: str = "%"
    """Unit of differences from published values."""
    deviation: Callable[[float, float], float] = _percent
    """Difference of a scaled value from a published one."""
    error_digits: str = "+.1f"
    """Format of a difference."""
    has_steps: bool = False
    """Whether values can be equal to published ones."""

    def named(self, measure: str) -> str:
        """A measure with its unit."""
        return f"{measure} in {self.symbol}" if self.symbol else measure

    def show(self, value: float) -> str:
        """A value as in a table."""
        return "none" if math.isinf(value) else format(self.scale * value, self.digits)

    def difference(self, value: float, published: float) -> float:
        """Difference of a value from a published one."""
        return self.deviation(self.scale * value, published)

    def show_difference(self, value: float, published: float) -> str:
        """The difference as in a table."""
        text = format(self.difference(value, published), self.error_digits)
        return text if float(text) else text.replace("-", "+")


PERCENT: Final = Unit(
    symbol="%", scale=100.0, digits=".1f", is_logarithmic=False, error="points", deviation=_points
)
COUNT: Final = Unit(symbol="", digits=".1f")
SECONDS: Final = Unit(symbol="s")
TIMES: Final = Unit(symbol="x")
TOKENS_PER_S: Final = Unit(symbol="k tokens/s", scale=1e-3)
MTOKENS: Final = Unit(symbol="M tokens", scale=1e-6)
NATS: Final = Unit(symbol="nats", digits=".4g")
GBIT_GRID: Final = Unit(
    symbol="Gbit/s", error="grid steps", deviation=grid_steps, error_digits="+.0f", has_steps=True
)
"""Points of the grid of `sim.timeline.engine`."""
