"""A link that changes as one did in the world: a CSV file as a schedule of effects.

    time,rate,latency,jitter        read_trace ─► points ─► at each, link.shape for every shaping
    0s,20mbit,40ms,5ms
    10s,2mbit,180ms,60ms

`time` counts from the injection and rises from 0s; of the other columns any may be left out, but a
column that is there is filled in every row. Quantities carry their units as in a plan. The last
point holds until the fault is healed. Shaping again only changes strengths: connections stay.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from chaoslab.errors import PlanError
from chaoslab.links.base import Bandwidth, Direction, Latency, Shaping
from chaoslab.units import duration_s, rate_bytes_per_s

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
    """The points of a file, at least one. PlanError names the line that cannot be read."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PlanError(f"the trace {path} cannot be read: {error}") from error
    if not rows:
        raise PlanError(f"the trace {path} is empty: begin with a line `{','.join(_COLUMNS)}`")
    _check_columns(path, reader.fieldnames or ())
    points = tuple(_points(path, rows))
    times = [point.at_s for point in points]
    if times[0] != 0 or any(a >= b for a, b in pairwise(times)):
        raise PlanError(f"the times of the trace {path} must begin at 0s and rise")
    return points


def _check_columns(path: Path, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown or "time" not in names or not {"rate", "latency"} & set(names):
        raise PlanError(
            f"the trace {path} has the columns {', '.join(names)}: it needs time and at "
            "least one of rate and latency, and may have jitter"
        )
    if "jitter" in names and "latency" not in names:
        raise PlanError(f"the trace {path} has jitter, but no latency to spread around")


def _points(path: Path, rows: Sequence[Mapping[str, str]]) -> Iterator[TracePoint]:
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise PlanError("a row has one value for every column", where=f"{path}:{number}")
        try:
            point = TracePoint(
                at_s=duration_s(row["time"]),
                rate_bytes_per_s=rate_bytes_per_s(row["rate"]) if "rate" in row else None,
                latency_s=duration_s(row["latency"]) if "latency" in row else None,
                jitter_s=duration_s(row["jitter"]) if "jitter" in row else 0.0,
            )
            point.shapings()  # an effect that cannot be is said here, with its line
        except PlanError as error:
            raise PlanError(error.message, where=f"{path}:{number}") from error
        yield point
