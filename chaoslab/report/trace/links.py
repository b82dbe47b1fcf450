"""Tracks of links: streams that are open, effects in force, and what both ends measured."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind
from chaoslab.report.thinning import Sample, thinned
from chaoslab.report.trace.writer import Details, TraceWriter

_SAMPLES_MOST, _SAMPLES_LEAST = 40_000, 60
"""Of all counters together, and of each at least."""


@dataclass(slots=True, kw_only=True)
class _Link:
    group: int
    stream: int
    open_s: float | None = None
    """Since when there is a stream."""
    effects: dict[str, list[tuple[float, str, Mapping[str, Json]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """In force, by injection."""
    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    """By name and unit of a counter."""


class LinkTracks:
    """The fold over events of links."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._group = trace.track("links")
        self._links: dict[str, _Link] = {}

    def _link(self, name: str) -> _Link:
        if name not in self._links:
            group = self._trace.track(name, self._group)
            self._links[name] = _Link(group=group, stream=self._trace.track("stream", group))
        return self._links[name]

    def _opened(self, event: Event[payloads.LinkOpened]) -> None:
        link = self._link(event.payload.learner)
        self._end_stream(link, event.time_s, None)
        link.open_s = event.time_s

    def _closed(self, event: Event[payloads.LinkClosed]) -> None:
        said, link = event.payload, self._link(event.payload.learner)
        if said.was_open:
            self._end_stream(link, event.time_s, said.reason)
        else:
            details: Details = {"seq": event.seq, "attempts": said.attempts, "reason": said.reason}
            self._trace.instant(link.stream, event.time_s, "dial failed", details)

    def _end_stream(self, link: _Link, time_s: float, reason: str | None) -> None:
        if link.open_s is not None:
            self._trace.slice(link.stream, link.open_s, time_s, "open", {"closed by": reason})
            link.open_s = None

    def _shaped(self, event: Event[payloads.LinkShaped]) -> None:
        said = event.payload
        name = said.effect if said.direction == "both" else f"{said.effect} {said.direction}"
        details = {"injection": said.injection, "seq": event.seq, **said.settings}
        self._link(said.link).effects[said.injection].append((event.time_s, name, details))

    def _cleared(self, event: Event[payloads.LinkCleared]) -> None:
        link = self._link(event.payload.link)
        self._end_effects(link, event.payload.injection, event.time_s)

    def _end_effects(self, link: _Link, injection: str, time_s: float) -> None:
        for from_s, name, details in link.effects.pop(injection, []):
            track = self._trace.track("effects", link.group)
            self._trace.slice(track, from_s, time_s, name, details)

    def _measured(self, event: Event[payloads.LinkMeasured]) -> None:
        said, samples = event.payload, self._link(event.payload.learner).samples
        if said.bytes_per_s is not None:
            name = f"payload rate {said.direction}"
            samples[name, "kB/s"].append((event.time_s, said.bytes_per_s / 1000))
        rtt_s = said.rtt_s if said.probe_rtt_s is None else said.probe_rtt_s
        if rtt_s is not None and said.direction == "down":
            samples["round trip", "ms"].append((event.time_s, 1000 * rtt_s))

    def draw(self, end_s: float) -> None:
        """What was open to the end, and the counters."""
        counters = sum(len(link.samples) for link in self._links.values())
        most = max(_SAMPLES_LEAST, _SAMPLES_MOST // max(1, counters))
        for link in self._links.values():
            self._end_stream(link, end_s, None)
            for injection in list(link.effects):
                self._end_effects(link, injection, end_s)
            for (name, unit), samples in link.samples.items():
                counter = self._trace.counter(name, link.group, unit=unit)
                for time_s, value in thinned(samples, most):
                    self._trace.count(counter, time_s, value)

    FOLDS: ClassVar[Mapping[Kind, Callable[["LinkTracks", Event[Any]], None]]] = {
        Kind.LINK_OPENED: _opened,
        Kind.LINK_CLOSED: _closed,
        Kind.LINK_SHAPED: _shaped,
        Kind.LINK_CLEARED: _cleared,
        Kind.LINK_MEASURED: _measured,
    }
