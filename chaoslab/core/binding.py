"""Ranges of values with which a bound of a plan can be violated, declared with the bound itself.

min_share: Share = binding(0.7, least=0.05, show=show_share)      in a check, or in `baseline`
└─► prepare.doubtful: a value outside of it binds nothing ─► a warning with file and line
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from chaoslab.core.units import Relative

_Value = TypeVar("_Value")
_KEY: Final = "binding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """From the least to the most that a run comes near to; beyond it a bound is as good as none."""

    least: float = -math.inf
    most: float = math.inf
    show: Callable[[float], str] = "{:g}".format
    """A number as a plan writes it."""
    is_of_baseline: bool = False
    """Whether it is about multiples of the baseline alone, and not about a bound in seconds."""
    is_of_rounds: bool = False
    """Whether no run can exceed a bound of as many rounds as its training has."""

    def advice(self, value: object) -> str:
        """Value to write instead; empty if the given one can be violated."""
        number = value.factor if isinstance(value, Relative) else value
        if (self.is_of_baseline and number is value) or not isinstance(number, int | float):
            return ""
        if number > self.most:
            return f"use at most {self.show(self.most)}"
        return f"use at least {self.show(self.least)}" if number < self.least else ""


def binding(
    default: _Value,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    show: Callable[[float], str] = "{:g}".format,
    is_of_baseline: bool = False,
    is_of_rounds: bool = False,
) -> _Value:
    """A field of settings with this default, whose values bind in this range."""
    found = Range(
        least=least, most=most, show=show, is_of_baseline=is_of_baseline, is_of_rounds=is_of_rounds
    )
    made: _Value = field(default=default, metadata={_KEY: found})
    return made


def ranges(settings: object) -> Iterator[tuple[str, object, Range]]:
    """Key, value and range of each bound of these settings that declares one."""
    for one in fields(settings):  # type: ignore[arg-type]  # settings are dataclasses
        if (found := one.metadata.get(_KEY)) is not None:
            yield one.name.removesuffix("_s"), getattr(settings, one.name), found
