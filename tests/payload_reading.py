"""Lines of nodes, whole or not, and reading of all that they say."""

import dataclasses
from collections.abc import Mapping

import chaoslab.core.payloads  # noqa: F401 - which registers the payload of every kind
from chaoslab.core.events import Event, Json, Kind, Observation, Payload


def observed(
    kind: Kind,
    data: Mapping[str, Json] | None = None,
    *,
    source: str = "harness",
    node_s: float | None = None,
) -> Observation:
    """What somebody else said, with gaps where `data` has some."""
    said = {} if data is None else dict(data)
    return Observation.read({"source": source, "kind": kind, "data": said, "node_s": node_s})


def read_whole(kind: Kind, data: Json) -> None:
    """Read every field of a line's payload; AssertionError for a key that no field reads."""
    assert isinstance(data, dict)
    event = Event(seq=0, time_s=0.0, source="test", kind=kind, data=data)
    unread = set(data) - _read(event.payload)
    assert not unread, f"{kind}: no field of {type(event.payload).__name__} reads {unread}"


def _read(payload: Payload) -> set[str]:
    """The keys that its fields read."""
    keys = set()
    for field in dataclasses.fields(payload):  # type: ignore[arg-type]  # every payload is one
        keys.add(field.name)
        getattr(payload, field.name)
    return keys
