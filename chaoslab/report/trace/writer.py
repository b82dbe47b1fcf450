"""A Perfetto trace in memory: tracks, slices, instants, counters and flows, and its bytes.

    group ─► track ─► slice, instant      arrows between slices: `Flow`, by the same number
          └─► counter ─► count

Times are seconds of the run's clock; a trace has whole nanoseconds. Slices of one track nest: a
slice that reaches beyond the one around it ends with that. The only module that imports perfetto.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BuiltinClock,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from chaoslab.core.events import Json, encode

Details = Mapping[str, Json]
"""Details of a slice or an instant, shown when it is selected."""
_SEQUENCE = 1
_NS = 1e9


class Flow(NamedTuple):
    """Ends of arrows at one slice: those that leave it and those that end there, by number."""

    out: Sequence[int] = ()
    into: Sequence[int] = ()


class _Piece(NamedTuple):
    """A slice, or an instant if it has no end."""

    from_ns: int
    to_ns: int | None
    name: str
    details: Details
    flow: Flow


@dataclass(slots=True, kw_only=True)
class _Track:
    name: str
    parent: int
    unit: str | None = None
    """Unit of a counter; None for a track of slices."""
    pieces: list[_Piece] = field(default_factory=list)
    counts: list[tuple[int, float]] = field(default_factory=list)


class TraceWriter:
    """Collects what a trace shows."""

    def __init__(self) -> None:
        self._tracks: list[_Track] = []
        self._flows = 0
        self._ids: tuple[dict[str, int], dict[str, int]] = {}, {}
        """Numbers of the names of slices, and of details."""

    def track(self, name: str, parent: int = 0) -> int:
        """A track of slices, or a group of tracks; its number. 0 is no parent.

        Tracks of the same name and parent are shown as one, in as many rows as they need.
        """
        self._tracks.append(_Track(name=name, parent=parent))
        return len(self._tracks)

    def counter(self, name: str, parent: int = 0, *, unit: str = "") -> int:
        """A track of numbers over time."""
        self._tracks.append(_Track(name=name, parent=parent, unit=unit))
        return len(self._tracks)

    def flow(self) -> int:
        """The number of a new arrow."""
        self._flows += 1
        return self._flows

    def slice(
        self,
        track: int,
        from_s: float,
        to_s: float,
        name: str,
        details: Details | None = None,
        *,
        flow: Flow = Flow(),  # noqa: B008  # it is never changed
    ) -> None:
        """Something that lasts."""
        piece = _Piece(_ns(from_s), max(_ns(from_s), _ns(to_s)), name, details or {}, flow)
        self._tracks[track - 1].pieces.append(piece)

    def instant(
        self,
        track: int,
        at_s: float,
        name: str,
        details: Details | None = None,
        *,
        flow: Flow = Flow(),  # noqa: B008  # it is never changed
    ) -> None:
        """Something at one time."""
        piece = _Piece(_ns(at_s), None, name, details or {}, flow)
        self._tracks[track - 1].pieces.append(piece)

    def count(self, counter: int, at_s: float, value: float) -> None:
        """Set the counter from now on."""
        self._tracks[counter - 1].counts.append((_ns(at_s), value))

    # ------------------------------------------------------------------------------------ bytes

    def to_bytes(self, *, began_ns: int) -> bytes:
        """The whole trace; `began_ns` is the time 0 of the run, in ns since the epoch."""
        builder = TraceProtoBuilder()
        first = builder.add_packet()
        _say_clock(first, began_ns)
        for number, track in enumerate(self._tracks, 1):
            _describe(builder.add_packet(), number, track)
        for number, track in enumerate(self._tracks, 1):
            for at_ns, value in sorted(track.counts, key=lambda count: count[0]):
                event = _event(builder, number, at_ns, TrackEvent.TYPE_COUNTER)
                event.double_counter_value = value
            self._nest(builder, number, track.pieces)
        self._say_names(first)
        content: bytes = builder.serialize()
        return content

    def _nest(self, builder: TraceProtoBuilder, track: int, pieces: Sequence[_Piece]) -> None:
        """Begin and end in the order of time, each slice within those that are open."""
        open_until: list[int] = []
        for piece in sorted(pieces, key=_order):
            while open_until and open_until[-1] <= piece.from_ns:
                _event(builder, track, open_until.pop(), TrackEvent.TYPE_SLICE_END)
            if piece.to_ns is None:
                event = _event(builder, track, piece.from_ns, TrackEvent.TYPE_INSTANT)
            else:
                event = _event(builder, track, piece.from_ns, TrackEvent.TYPE_SLICE_BEGIN)
                around = open_until[-1] if open_until else piece.to_ns
                open_until.append(min(piece.to_ns, around))
            self._fill(event, piece)
        while open_until:
            _event(builder, track, open_until.pop(), TrackEvent.TYPE_SLICE_END)

    def _fill(self, event: TrackEvent, piece: _Piece) -> None:
        slices, details = self._ids
        event.name_iid = slices.setdefault(piece.name, len(slices) + 1)
        event.flow_ids.extend(piece.flow.out)
        event.terminating_flow_ids.extend(piece.flow.into)
        for name, value in piece.details.items():
            if value is None:
                continue
            note = event.debug_annotations.add()
            note.name_iid = details.setdefault(name, len(details) + 1)
            if isinstance(value, bool):
                note.bool_value = value
            elif isinstance(value, int):
                note.int_value = value
            elif isinstance(value, float):
                note.double_value = value
            else:
                note.string_value = value if isinstance(value, str) else encode(value)

    def _say_names(self, first: TracePacket) -> None:
        """Every name once; the other packets refer to it by number."""
        slices, details = self._ids
        for name, number in slices.items():
            first.interned_data.event_names.add(iid=number, name=name)
        for name, number in details.items():
            first.interned_data.debug_annotation_names.add(iid=number, name=name)


def _say_clock(packet: TracePacket, began_ns: int) -> None:
    """The first packet: the calendar time, and that names are numbered from here on."""
    packet.timestamp = 0
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    clocks = packet.clock_snapshot.clocks
    clocks.add(clock_id=BuiltinClock.BUILTIN_CLOCK_BOOTTIME, timestamp=0)
    clocks.add(clock_id=BuiltinClock.BUILTIN_CLOCK_REALTIME, timestamp=began_ns)


def _describe(packet: TracePacket, number: int, track: _Track) -> None:
    packet.trusted_packet_sequence_id = _SEQUENCE
    descriptor = packet.track_descriptor
    descriptor.uuid, descriptor.name = number, track.name
    descriptor.sibling_order_rank = number
    descriptor.child_ordering = TrackDescriptor.EXPLICIT
    if track.parent:
        descriptor.parent_uuid = track.parent
    if track.unit is not None:
        descriptor.counter.unit_name = track.unit


def _event(builder: TraceProtoBuilder, track: int, at_ns: int, kind: int) -> TrackEvent:
    packet = builder.add_packet()
    packet.timestamp = at_ns
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    event = packet.track_event
    event.type, event.track_uuid = kind, track
    return event


def _order(piece: _Piece) -> tuple[int, int]:
    """Sort key: time, then the longest first, which is around the others."""
    length_ns = 0 if piece.to_ns is None else piece.to_ns - piece.from_ns
    return piece.from_ns, -length_ns


def _ns(time_s: float) -> int:
    return max(0, round(time_s * _NS))
