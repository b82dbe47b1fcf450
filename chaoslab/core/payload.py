"""Reading of payloads: how the JSON object of an event becomes the fields of a dataclass.

    Event.data ─► Payload (nothing read yet) ─► .field: found, checked, converted, kept

A field is read when it is first asked for, so that a line that lacks what nobody asks for does no
harm, and judging pays for what it uses. A field that older records lack has a default; one without
a default that is missing, or of another type than its annotation, raises MalformedEvent with the
line's seq, its kind and the key. Numbers may be NaN or infinite ("NaN", "Infinity", "-Infinity").
"""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from chaoslab.core.events import NOT_FINITE, Event, Json, Kind, MalformedEvent, register_payload

Read: TypeAlias = Callable[[Json, Event], object]
"""A value of a line as a value of a field; TypeError says what was wanted instead."""
_P = TypeVar("_P", bound="Payload")
_KINDS: dict[type["Payload"], Kind] = {}

OLDER_KEYS: Mapping[tuple[str, str], str] = {
    ("NodeStressed", "stressor"): "burden",
    ("NodeCounted", "stressor"): "burden",
    ("NodeRelieved", "stressor"): "burden",
}
"""The key of a record for a field that is called otherwise here, by class and field."""


class Payload:
    """The data of an event, or of an item in it, with typed fields. Made by `event.payload`."""

    __slots__ = ("_data", "_event")
    if TYPE_CHECKING:
        _data: Mapping[str, Json]
        _event: Event

    @classmethod
    def read(cls, event: Event, data: Mapping[str, Json]) -> Self:
        """The payload of `data` in `event`, of which no field is read yet."""
        made = object.__new__(cls)
        object.__setattr__(made, "_data", data)
        object.__setattr__(made, "_event", event)
        return made

    if not TYPE_CHECKING:  # a type checker would take every misspelt field for Any

        def __getattr__(self, name: str) -> object:
            """A field that was not read before: its slot is empty."""
            reading = _fields(type(self)).get(name)
            if reading is None:
                raise AttributeError(f"{type(self).__name__} has no field {name!r}")
            value = reading(self._data, self._event)
            object.__setattr__(self, name, value)
            return value


@dataclass_transform(frozen_default=True, kw_only_default=True)
def payload_of(kind: Kind) -> Callable[[type[_P]], type[_P]]:
    """Decorator: a frozen, slotted, keyword-only dataclass, the payload of events of `kind`."""

    def made(cls: type[_P]) -> type[_P]:
        payload = item(cls)
        _KINDS[payload] = kind
        register_payload(kind, lambda event: payload.read(event, event.data))
        return payload

    return made


@dataclass_transform(frozen_default=True, kw_only_default=True)
def item(cls: type[_P]) -> type[_P]:
    """Decorator: such a dataclass for an item of a list in a payload, or shared by payloads."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)


def kind_of(payload: type[Payload]) -> Kind:
    """The kind of events that carry it."""
    return _KINDS[payload]


def payloads() -> Mapping[Kind, type[Payload]]:
    """The payload of every kind."""
    return {kind: payload for payload, kind in _KINDS.items()}


def key(payload: type[Payload], field: str) -> str:
    """The key of `data` that holds a field."""
    return OLDER_KEYS.get((payload.__name__, field), field)


# ---------------------------------------------------------------- fields


@cache
def _fields(cls: type[Payload]) -> Mapping[str, Callable[[Mapping[str, Json], Event], object]]:
    """How each field of a payload is read."""
    return {one.name: _field(cls, one) for one in dataclasses.fields(cls)}  # type: ignore[arg-type]  # every payload is one


def _field(
    cls: type[Payload], field: dataclasses.Field[object]
) -> Callable[[Mapping[str, Json], Event], object]:
    name = key(cls, field.name)
    converted = _reader(field.type)
    factory = field.default_factory
    default = factory() if factory is not dataclasses.MISSING else field.default

    def read(data: Mapping[str, Json], event: Event) -> object:
        if name not in data:
            if default is dataclasses.MISSING:
                raise MalformedEvent(f"event {event.seq} ({event.kind}) has no {name!r}")
            return default
        try:
            return converted(data[name], event)
        except TypeError as error:
            found = f"event {event.seq} ({event.kind}): {name!r} is {data[name]!r}"
            raise MalformedEvent(f"{found}, not {error}") from error

    return read


def _reader(wanted: object) -> Read:
    """How values of an annotation are read."""
    if wanted == Json:
        return lambda value, _: value
    if wanted in _SIMPLE:
        return _SIMPLE[wanted]
    if get_origin(wanted) in {Union, types.UnionType}:
        (kind,) = (one for one in get_args(wanted) if one is not type(None))
        inner = _reader(kind)
        return lambda value, event: None if value is None else inner(value, event)
    if get_origin(wanted) is tuple:
        return _items(_reader(get_args(wanted)[0]))
    if get_origin(wanted) is Mapping:
        return _mapping(get_args(wanted)[1])
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        return _code(wanted)
    if isinstance(wanted, type) and issubclass(wanted, Payload):
        payload = wanted
        return lambda value, event: payload.read(event, _object(value))
    raise TypeError(f"a payload has no fields of type {wanted!r}")


def _text(value: Json, _: Event) -> str:
    if not isinstance(value, str):
        raise TypeError("text")
    return value


def _number(value: Json, _: Event) -> float:
    if isinstance(value, str) and value in NOT_FINITE.values():
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number")
    try:
        return float(value)
    except OverflowError as error:  # JSON knows integers that no float can hold
        raise TypeError("a number") from error


def _integer(value: Json, _: Event) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("an integer")
    return value


def _flag(value: Json, _: Event) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


_SIMPLE: Mapping[object, Read] = {str: _text, float: _number, int: _integer, bool: _flag}


def _items(inner: Read) -> Read:
    def read(value: Json, event: Event) -> object:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError("a list")
        try:
            return tuple(inner(one, event) for one in value)
        except TypeError as error:
            raise TypeError(f"a list of which each item is {error}") from error

    return read


def _mapping(wanted: Any) -> Read:
    if wanted == Json:
        return lambda value, _: _object(value)
    inner = _reader(wanted)

    def read(value: Json, event: Event) -> object:
        try:
            return {key: inner(one, event) for key, one in _object(value).items()}
        except TypeError as error:
            raise TypeError(f"an object of which each value is {error}") from error

    return read


def _code(codes: type[StrEnum]) -> Read:
    def read(value: Json, event: Event) -> object:
        try:
            return codes(_text(value, event))
        except ValueError as error:
            raise TypeError(f"one of {', '.join(codes)}") from error

    return read


def _object(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError("an object")
    return value
