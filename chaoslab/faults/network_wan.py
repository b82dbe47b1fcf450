"""Faults by which a link becomes a path through the world: a named profile, or a recorded one.

region_profile ─► latency, jitter and rate of a named path, or one's own in their place
trace          ─► rows of a CSV file, each from its time on: rate, latency, jitter
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Self

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LinkMeasured, Status
from chaoslab.core.units import BytesPerSecond, Duration
from chaoslab.faults.actions import LinkFault, shape_all
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.duration import lasted
from chaoslab.faults.evidence.links import (
    Tolerance,
    lasted_s,
    look_delayed,
    look_paced,
    payload_rate,
    pinged,
    reports,
    round_trip_s,
    timed_s,
    whole,
    worst,
)
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.faults.network import DELAY, RATE
from chaoslab.fleet.base import Fleet
from chaoslab.links.effects import Direction, Shaping
from chaoslab.links.profiles import Profile, profile
from chaoslab.links.traces import TracePoint, read_trace
from chaoslab.plan.model import Injection

FAR = Tolerance(low=DELAY.low, high=math.inf)
"""Where a rate is limited, too, whatever waits for it is later still."""
SLOW = Tolerance(low=0.0, high=RATE.high)
_ENOUGH = 4
"""A busy reader may delay this many payloads less one, and they then look faster than they were.
"""
_LITTLE = 0.05
"""Share of the fault's time in payloads below which few of them look fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRegionProfile(LinkFault):
    """The link becomes a path through the world: latency, jitter and rate together, both ways."""

    profile: str = "transatlantic"
    """lan, same-region, cross-us, transatlantic, 2gbps, 5gbps or home-broadband."""
    latency_s: Duration | None = None
    """One-way latency, in place of the profile's."""
    jitter_s: Duration | None = None
    """Jitter, in place of the profile's."""
    rate_bytes_per_s: BytesPerSecond | None = None
    """Rate in each direction, in place of the profile's."""

    name = "network.region_profile"
    summary = "the link becomes a named path through the world"
    imitates = "the WAN path between two regions"
    proof = (
        f"round trip at least as far ({FAR}); payloads no faster ({SLOW}) where enough came through"
    )
    takes_away = False

    def milder(self) -> Iterator[Self]:
        """The fault with at most half of the latency, jitter and rate, also of the profile's."""
        path = self._path
        half: dict[str, float] = {"latency_s": path.latency_s / 2, "jitter_s": path.jitter_s / 2}
        rate = {"rate_bytes_per_s": 2 * max(path.up_bytes_per_s, path.down_bytes_per_s)}
        yield from self._valid({**half, **rate})
        if path.latency_s:
            yield from self._valid(half)
            yield from self._valid(rate)

    def shapings(self) -> tuple[Shaping, ...]:
        """Effects of the profile, with the settings in place of its own."""
        return self._path.shapings

    def requested(self) -> Mapping[str, Json]:
        """The round trip's growth and the rates."""
        path = self._path
        return {
            "added_rtt_s": 2 * path.latency_s,
            "jitter_s": path.jitter_s,
            "up_bytes_per_s": path.up_bytes_per_s,
            "down_bytes_per_s": path.down_bytes_per_s,
        }

    def look(self, window: EvidenceWindow) -> Found:
        """The round trip, and the rates that the link used to exceed.

        A thin link is filled by what comes down; so little may go up beside it that nothing can be
        said of that direction. The other one must then show the rate.
        """
        path = self._path
        paced = {
            way: look_paced(window, way, rate, SLOW)
            for way, rate in (
                (Direction.UP, path.up_bytes_per_s),
                (Direction.DOWN, path.down_bytes_per_s),
            )
            if (payload_rate(reports(window.calm, way)) or 0.0) > rate
        }
        scarce = [one for way, one in paced.items() if _is_scarce(window, way, one)]
        if len(scarce) == len(paced):
            scarce = []
        found = [one for one in paced.values() if one not in scarce]
        if path.latency_s:
            delayed = look_delayed(window, 2 * path.latency_s, FAR, is_steady=not path.jitter_s)
            found = [delayed, *found]
        if not found:
            text = "had a link that was no better than this before the fault"
            return no_evidence(Code.NEVER_BETTER, text)
        return _beside(worst(found), scarce)

    @property
    def _path(self) -> Profile:
        path = profile(self.profile)
        up, down = path.up_bytes_per_s, path.down_bytes_per_s
        rate = self.rate_bytes_per_s
        return replace(
            path,
            latency_s=path.latency_s if self.latency_s is None else self.latency_s,
            jitter_s=path.jitter_s if self.jitter_s is None else self.jitter_s,
            up_bytes_per_s=up if rate is None else rate,
            down_bytes_per_s=down if rate is None else rate,
        )


def _is_scarce(window: EvidenceWindow, way: Direction, paced: Found) -> bool:
    """Whether a rate is in doubt because hardly anything was sent that way."""
    timed = [e for e in whole(window, reports(window.during, way)) if e.payload.bytes_per_s]
    is_little = timed_s(timed) < _LITTLE * lasted_s(window)
    return paced.code.status is Status.WEAK and (len(timed) < _ENOUGH or is_little)


def _beside(found: Found, scarce: Sequence[Found]) -> Found:
    """The finding, with what could not be found."""
    texts = [f"; too little to tell: {one.text}" for one in scarce]
    measured = {key: value for one in scarce for key, value in one.measured.items()}
    return replace(found, text=found.text + "".join(texts), measured={**found.measured, **measured})


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTrace(LinkFault):
    """The link changes as one did in the world: rows of rate and latency, each from its time on."""

    file: str = ""
    """A CSV file with the columns time, rate, latency, jitter; quantities with their units. A
    relative path counts from where chaoslab is started."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name = "network.trace"
    summary = "the link changes as a recorded one did"
    imitates = "a WAN path as it was recorded"
    proof = f"mean round trip ({DELAY}) or throughput ({SLOW}) over all rows"
    takes_away = False

    def __post_init__(self) -> None:
        """The file is read when the plan is checked, not here."""

    def named_files(self) -> tuple[str, ...]:
        """The trace."""
        return (self.file,) if self.file else ()

    def shapings(self) -> tuple[Shaping, ...]:
        """Effects of all rows. PlanError if the file cannot be read."""
        if not self.file:
            raise PlanError("`file` is missing: write file: my_trace.csv")
        found = [shaping for point in self._points for shaping in point.shapings(self.direction)]
        return tuple(dict.fromkeys(found))

    def steps(self) -> tuple[float, ...]:
        """The rows after the first."""
        return tuple(point.at_s for point in self._points[1:])

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Shape every link as the first row says."""
        shape_all(injection, fleet, self._points[0].shapings(self.direction))

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """The next row: strengths change, connections stay."""
        shape_all(injection, fleet, self._points[step_index + 1].shapings(self.direction))

    def requested(self) -> Mapping[str, Json]:
        return {"file": self.file, "rows": len(self._points)}

    def look(self, window: EvidenceWindow) -> Found:
        """Measurements against the requests, row by row and on the average.

        Every row must have had its turn, and a rate that the link never reached before cannot be
        seen to hold it back.
        """
        found = []
        if any(point.latency_s is not None for point in self._points):
            found.append(self._look_at_delays(window))
        if self._has_rates:
            found += [self._look_at_rates(window, way) for way in self.direction.ways]
        if not found:
            return no_evidence(Code.NOT_APPLIED, "was asked for nothing")
        return self._all_rows(window, worst(found))

    def _all_rows(self, window: EvidenceWindow, found: Found) -> Found:
        applied, asked = 1 + window.steps, len(self._points)
        measured: dict[str, Json] = {**found.measured, "rows": applied}
        if applied >= asked:
            return replace(found, measured=measured)
        code = Code.FEWER_TIMES if found.code is Code.AS_ASKED else found.code
        text = f"{found.text}; {applied} of {asked} rows had their turn before the fault ended"
        return replace(found, code=code, text=text, measured=measured)

    @property
    def _points(self) -> tuple[TracePoint, ...]:
        return _read(self.file) if self.file else ()

    @property
    def _has_rates(self) -> bool:
        return any(point.rate_bytes_per_s is not None for point in self._points)

    def _look_at_delays(self, window: EvidenceWindow) -> Found:
        usual_s = round_trip_s(reports(window.calm))
        seen = [
            (event, rtt_s)
            for event in whole(window, reports(window.during))
            if (rtt_s := event.payload.rtt_s) is not None
        ]
        if usual_s is None or not seen:
            text = "carried no traffic before or during the fault"
            return no_evidence(Code.NO_BASELINE, text)
        ways = len(self.direction.ways)
        asked_s = ways * fmean(self._row(window, e).latency_s or 0.0 for e, _ in seen)
        added_s = fmean(rtt_s for _, rtt_s in seen) - usual_s
        tolerance = FAR if self._has_rates else DELAY
        shown = [
            pinged(event, rtt_s)
            for event, rtt_s in seen
            if self._is_late(window, event, rtt_s - usual_s, tolerance)
        ]
        found = Found(
            code=tolerance.code(added_s, asked_s),
            text=f"took {1000 * added_s:.0f} ms more for a round trip on the average; "
            f"{1000 * asked_s:.0f} ms were asked ({tolerance})",
            measured={"added_rtt_s": added_s, "asked_rtt_s": asked_s, "usual_rtt_s": usual_s},
            proof=(seen[0][0], seen[-1][0]),
        )
        return lasted(window, shown).weakens(found, "rtt")

    def _is_late(
        self,
        window: EvidenceWindow,
        event: Event[LinkMeasured],
        added_s: float,
        tolerance: Tolerance,
    ) -> bool:
        """Whether it is about as late as its own row requests."""
        asked_s = len(self.direction.ways) * (self._row(window, event).latency_s or 0.0)
        return tolerance.wide.holds(max(0.0, added_s), asked_s)

    def _look_at_rates(self, window: EvidenceWindow, way: Direction) -> Found:
        seen = [e for e in whole(window, reports(window.during, way)) if e.payload.bytes_per_s]
        rate = payload_rate(seen)
        if rate is None:
            text = f"carried nothing {way} that was large enough to time"
            return no_evidence(Code.NOT_MEASURED, text)
        limits = [self._row(window, e).rate_bytes_per_s or math.inf for e in seen]
        sizes = [e.payload.payload_bytes for e in seen]
        asked = sum(sizes) / sum(s / limit for s, limit in zip(sizes, limits, strict=True))
        usual = payload_rate(reports(window.calm, way))
        text = (
            f"took payloads {way} at {rate / 1e3:,.1f} kB/s; at most {asked / 1e3:,.1f} kB/s "
            f"were asked on the average ({SLOW})"
        )
        code = SLOW.code(rate, asked)
        if usual is None or usual <= asked:
            text += ", and it was no faster before: such a limit cannot be shown"
            code = Code.NEVER_FASTER
        return Found(
            code=code,
            text=text,
            measured={
                f"{way}_bytes_per_s": rate,
                f"asked_{way}_bytes_per_s": asked,
                f"usual_{way}_bytes_per_s": usual,
            },
            proof=(seen[0], seen[-1]),
        )

    def _row(self, window: EvidenceWindow, event: Event[LinkMeasured]) -> TracePoint:
        """The row that applied in the middle of a report's window."""
        moment_s = max(0.0, event.time_s - event.payload.window_s / 2 - window.begin_s)
        return [point for point in self._points if point.at_s <= moment_s][-1]


@cache
def _read(file: str) -> tuple[TracePoint, ...]:
    """Once for each file: a trace that changes in mid-run would be another fault."""
    return read_trace(Path(file))
