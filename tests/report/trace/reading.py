"""A trace as it was written, read by its schema alone: slices of each track, counters, arrows."""

from collections import defaultdict
from typing import NamedTuple

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

Details = dict[str, bool | int | float | str]


class Slice(NamedTuple):
    """A slice or an instant (`to_s` is None)."""

    name: str
    from_s: float
    to_s: float | None
    depth: int
    details: Details
    out: tuple[int, ...]
    into: tuple[int, ...]


class ReadTrace:
    """Tracks by their path, such as `nodes/learner-0/steps`; several of one path as one."""

    def __init__(self, content: bytes) -> None:
        trace = Trace.FromString(content)
        interned = trace.packet[0].interned_data
        self._names = {one.iid: one.name for one in interned.event_names}
        self._keys = {one.iid: one.name for one in interned.debug_annotation_names}
        self.clocks = [clock.timestamp for clock in trace.packet[0].clock_snapshot.clocks]
        self._paths: dict[int, str] = {}
        self.slices: dict[str, list[Slice]] = defaultdict(list)
        self.counters: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.units: dict[str, str] = {}
        self._open: dict[int, list[tuple[float, TrackEvent]]] = defaultdict(list)
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                self._describe(packet.track_descriptor)
            elif packet.HasField("track_event"):
                self._take(packet.timestamp / 1e9, packet.track_event)
        assert not any(self._open.values()), "a slice was never ended"

    def _describe(self, said) -> None:  # type: ignore[no-untyped-def]
        above = f"{self._paths[said.parent_uuid]}/" if said.parent_uuid else ""
        self._paths[said.uuid] = above + said.name
        self.units[self._paths[said.uuid]] = said.counter.unit_name

    def _take(self, time_s: float, event) -> None:  # type: ignore[no-untyped-def]
        path, around = self._paths[event.track_uuid], self._open[event.track_uuid]
        if event.type == TrackEvent.TYPE_COUNTER:
            self.counters[path].append((time_s, event.double_counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            around.append((time_s, event))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            from_s, begun = around.pop()
            self.slices[path].append(self._slice(begun, from_s, time_s, len(around)))
        else:
            self.slices[path].append(self._slice(event, time_s, None, len(around)))

    def _slice(self, event, from_s: float, to_s: float | None, depth: int) -> Slice:  # type: ignore[no-untyped-def]
        details = {
            self._keys[note.name_iid]: getattr(note, note.WhichOneof("value"))
            for note in event.debug_annotations
        }
        return Slice(
            name=self._names[event.name_iid],
            from_s=from_s,
            to_s=to_s,
            depth=depth,
            details=details,
            out=tuple(event.flow_ids),
            into=tuple(event.terminating_flow_ids),
        )
