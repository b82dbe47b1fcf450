"""Traces: a link that changes over time as a CSV file says.

    time,rate,latency,jitter        read_trace ─► points ─► at each, link.shape for every shaping
    0s,20mbit,40ms,5ms
    10s,2mbit,180ms,60ms

`time` counts from the injection, ascending from 0s. Other columns may be left out, but a column
must have a value in every row. Quantities have units as in a plan. The last point holds until the
fault is healed. Later points only change strengths: connections stay open.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from chaoslab.core.errors import PlanError
from chaoslab.core.regular_files import read_written
from chaoslab.core.units import duration_s, rate_bytes_per_s
from chaoslab.links.effects import Bandwidth, Direction, Latency, Shaping

_COLUMNS = ("time", "rate", "latency", "jitter")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePoint:
    """Values of a link from `at_s` seconds after the injection on."""

    at_s: float
    rate_bytes_per_s: float | None
    latency_s: float | None
    jitter_s: float = 0.0

    def shapings(self, direction: Direction = Direction.BOTH) -> tuple[Shaping, ...]:
        """Effects that apply the point to a link. The latency is one way."""
        found: list[Shaping] = []
        if self.latency_s is not None:
            latency = Latency(mean_s=self.latency_s, jitter_s=self.jitter_s)
            found.append((direction, latency))
        if self.rate_bytes_per_s is not None:
            found.append((direction, Bandwidth(rate_bytes_per_s=self.rate_bytes_per_s)))
        return tuple(found)


def read_trace(path: Path) -> tuple[TracePoint, ...]:
    """Points of a file, at least one.

    A PlanError begins with the line of the file; its `where` is set by the caller.
    """
    try:
        text = StringIO(read_written(path).decode("utf-8-sig"), newline="")
        reader = csv.DictReader(text, skipinitialspace=True)
        names = reader.fieldnames
        rows = [(f"{path}:{reader.line_num}", row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PlanError(f"trace {path}: cannot be read: {error}") from error
    if names is None:
        raise PlanError(f"trace {path}: is empty; begin with a line `{','.join(_COLUMNS)}`")
    _check_columns(f"{path}:1", names)
    if not rows:
        raise PlanError(f"{path}:1: must be followed by at least one row, from 0s on")
    points = tuple(_point(where, row) for where, row in rows)
    for (where, _), point, before in zip(rows, points, (None, *points), strict=False):
        if (point.at_s != 0) if before is None else (point.at_s <= before.at_s):
            raise PlanError(f"{where}: time: must begin at 0s and rise from row to row")
    return points


def _check_columns(where: str, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in _COLUMNS]
    is_enough = "time" in names and not {"rate", "latency"}.isdisjoint(names)
    if unknown or not is_enough or len(set(names)) < len(names):
        raise PlanError(
            f"{where}: the first line must name the columns: time, at least one of rate and "
            f"latency, and optionally jitter, each once, such as `{','.join(_COLUMNS)}`; got "
            f"{','.join(names)!r}"
        )
    if "jitter" in names and "latency" not in names:
        raise PlanError(f"{where}: jitter: needs a latency column")


def _point(where: str, row: Mapping[str, str]) -> TracePoint:
    if None in row or None in row.values():
        raise PlanError(f"{where}: a row must have one value for every column")
    try:
        point = TracePoint(
            at_s=duration_s(row["time"]),
            rate_bytes_per_s=rate_bytes_per_s(row["rate"]) if "rate" in row else None,
            latency_s=duration_s(row["latency"]) if "latency" in row else None,
            jitter_s=duration_s(row["jitter"]) if "jitter" in row else 0.0,
        )
        point.shapings()  # an invalid effect raises here, with the line of the file
    except PlanError as error:
        raise PlanError(f"{where}: {error.message}") from error
    return point
