"""A link that changes as one did in the world: a CSV file as a schedule of effects.

    time,rate,latency,jitter        read_trace ─► points ─► at each, link.shape for every shaping
    0s,20mbit,40ms,5ms
    10s,2mbit,180ms,60ms

`time` counts from the injection and rises from 0s; of the other columns any may be left out, but a
column that is there is filled in every row. Quantities carry their units as in a plan. The last
point holds until the fault is healed. Shaping again only changes strengths: connections stay.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoslab.core.errors import PlanError
from chaoslab.core.units import duration_s, rate_bytes_per_s
from chaoslab.links.base import Bandwidth, Direction, Latency, Shaping

_COLUMNS = ("time", "rate", "latency", "jitter")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePoint:
    """What holds from `at_s` after the injection on."""

    at_s: float
    rate_bytes_per_s: float | None
    latency_s: float | None
    jitter_s: float = 0.0

    def shapings(self, direction: Direction = Direction.BOTH) -> tuple[Shaping, ...]:
        """What puts it on a link. The latency is one way."""
        found: list[Shaping] = []
        if self.latency_s is not None:
            latency = Latency(mean_s=self.latency_s, jitter_s=self.jitter_s)
            found.append((direction, latency))
        if self.rate_bytes_per_s is not None:
            found.append((direction, Bandwidth(rate_bytes_per_s=self.rate_bytes_per_s)))
        return tuple(found)


def read_trace(path: Path) -> tuple[TracePoint, ...]:
    """The points of a file, at least one.

    PlanError begins with the file's line; its `where` is left to whoever knows the plan's.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            names = reader.fieldnames
            rows = [(f"{path}:{reader.line_num}", row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PlanError(f"the trace {path} cannot be read: {error}") from error
    if names is None:
        raise PlanError(f"the trace {path} is empty: begin with a line `{','.join(_COLUMNS)}`")
    _check_columns(f"{path}:1", names)
    if not rows:
        raise PlanError(f"{path}:1: no row follows the names of the columns: add one, from 0s on")
    points = tuple(_point(where, row) for where, row in rows)
    for (where, _), point, before in zip(rows, points, (None, *points), strict=False):
        if (point.at_s != 0) if before is None else (point.at_s <= before.at_s):
            raise PlanError(f"{where}: the times of a trace begin at 0s and rise from row to row")
    return points


def _check_columns(where: str, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in _COLUMNS]
    is_enough = "time" in names and not {"rate", "latency"}.isdisjoint(names)
    if unknown or not is_enough or len(set(names)) < len(names):
        raise PlanError(
            f"{where}: the first line of a trace names its columns, and this one says "
            f"{','.join(names)!r}: it needs time and at least one of rate and latency, and may "
            f"have jitter, each once, such as `{','.join(_COLUMNS)}`"
        )
    if "jitter" in names and "latency" not in names:
        raise PlanError(f"{where}: there is a jitter, but no latency to spread around")


def _point(where: str, row: Mapping[str, str]) -> TracePoint:
    if None in row or None in row.values():
        raise PlanError(f"{where}: a row has one value for every column")
    try:
        point = TracePoint(
            at_s=duration_s(row["time"]),
            rate_bytes_per_s=rate_bytes_per_s(row["rate"]) if "rate" in row else None,
            latency_s=duration_s(row["latency"]) if "latency" in row else None,
            jitter_s=duration_s(row["jitter"]) if "jitter" in row else 0.0,
        )
        point.shapings()  # an effect that cannot be is said here, with its line
    except PlanError as error:
        raise PlanError(f"{where}: {error.message}") from error
    return point
