"""Every kind of event has words, and samples are told only where they are asked for."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.core.payloads import Payload, payloads
from chaoslab.report.sentences import Tone, describe, is_notable


def value(hint: Any, *, is_full: bool) -> Json:
    """Something of this type; of what may be missing, None unless `is_full`."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        return value(parts[0], is_full=is_full) if is_full else None
    if origin is tuple:
        return [value(parts[0], is_full=is_full)]
    if origin is Mapping:
        return {"0": value(parts[1], is_full=is_full)} if is_full else {}
    if isinstance(hint, type) and issubclass(hint, Payload):
        return data(hint, is_full=is_full)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return next(iter(hint)).value
    made: Mapping[Any, Json] = {bool: is_full, int: 3, float: 2.5, str: "learner-7", Json: 3}
    return made[hint]


def data(payload: type[Payload], *, is_full: bool) -> dict[str, Json]:
    hints = typing.get_type_hints(payload)
    fields = dataclasses.fields(payload)  # type: ignore[arg-type]  # every payload is one
    return {one.name: value(hints[one.name], is_full=is_full) for one in fields}


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "bare"])
@pytest.mark.parametrize("kind", Kind)
def test_an_event_is_told_whatever_it_leaves_out(kind: Kind, *, is_full: bool) -> None:
    said = data(payloads()[kind], is_full=is_full)
    event = Event(seq=0, time_s=4.5, source="x", kind=kind, data=said)
    assert bool(describe(event)) is is_notable(kind)
    said = describe(event, also_samples=True)
    assert said is not None
    text = said.text
    assert kind.value not in text
    assert "None" not in text
    assert text == text.strip()


def test_a_sample_with_broken_data_is_malformed() -> None:
    broken = Event(seq=0, time_s=0.0, source="x", kind=Kind.PUSH_ACCEPTED, data={})
    with pytest.raises(MalformedEvent):
        describe(broken, also_samples=True)


def test_a_heal_that_waits_for_others_is_no_failure_yet() -> None:
    said = data(payloads()[Kind.FAULT_HEAL_FAILED], is_full=True)
    waits = describe(Event(seq=0, time_s=4.5, source="x", kind=Kind.FAULT_HEAL_FAILED, data=said))
    assert waits is not None
    assert waits.tone is Tone.FAULT
