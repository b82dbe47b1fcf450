"""Quantities on the command line: `--max-drop 10%`, `--chips 200k`; and ages as they are shown."""

from collections.abc import Callable
from typing import TypeVar

import click

from chaoslab.core.errors import PlanError
from chaoslab.core.units import COUNT, DURATION, SHARE, SIZE, Quantity

_T = TypeVar("_T")
_AGES = ((86400, "d"), (3600, "h"), (60, "min"))


def _read_by(
    quantity: Quantity[_T],
) -> Callable[[click.Context, click.Parameter, str | None], _T | None]:
    """A callback of an option: its text as a number in base units, a usage error otherwise."""

    def read(_context: click.Context, _option: click.Parameter, text: str | None) -> _T | None:
        try:
            return None if text is None else quantity.parse(text)
        except PlanError as error:
            raise click.BadParameter(error.message) from error

    return read


count = _read_by(COUNT)
percentage = _read_by(SHARE)
duration = _read_by(DURATION)
size = _read_by(SIZE)


def age(age_s: float | None) -> str:
    """How long ago, in the largest unit that fits: `3 h`; `-` if it is not known."""
    if age_s is None:
        return "-"
    return next((f"{age_s // s:.0f} {unit}" for s, unit in _AGES if age_s >= s), "now")
