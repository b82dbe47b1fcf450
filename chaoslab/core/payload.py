"""Typed reading of JSON: how an object becomes the fields of a dataclass, by their annotations.

    an event's data ─► Payload, all fields at once (msgspec), if each is there and of its type
       └─► else ─────► Payload ─► .field: found, checked, converted
    other JSON ────► read_object ─► a dataclass, all of it read at once

A payload of which anything is missing, wrong or must be converted is read field by field, each when
it is first asked for, so that a line that lacks what nobody asks for does no harm. A field that
older records lack has a default; one without a default that is missing, or of another type than its
annotation, raises MalformedEvent with the place (of an event: its seq and kind) and the key.
Numbers may be NaN or infinite ("NaN", "Infinity", "-Infinity").
"""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
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

import msgspec

from chaoslab.core.events import NOT_FINITE, Event, Json, Kind, MalformedEvent, register_payload

if TYPE_CHECKING:
    from typing_extensions import Buffer

Read: TypeAlias = Callable[[Json, object], object]
"""A value as a value of a field, in a place that messages name; TypeError says what was wanted."""
_T = TypeVar("_T")
_P = TypeVar("_P", bound="Payload")
_KINDS: dict[type["Payload"], Kind] = {}


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
class Payload:
    """The data of an event, or of an item in it, with typed fields. Made by `event.payload`.

    Each subclass is a frozen, keyword-only dataclass; with `kind`, events of that kind carry it. A
    field whose key in records is another than its name has that key as metadata: `key`.
    """

    _data: Mapping[str, Json]
    _event: Event

    def __init_subclass__(cls, *, kind: Kind | None = None) -> None:
        if issubclass(cls, _ByField):
            return
        dataclass(frozen=True, kw_only=True)(cls)
        if kind is not None:
            _KINDS[cls] = kind
            register_payload(kind, _reading(cls))

    @classmethod
    def read(cls, event: Event, data: Mapping[str, Json]) -> Self:
        """The payload of `data` in `event`, of which nothing is read yet."""
        made: Self = object.__new__(_by_field(cls))  # type: ignore[arg-type]  # it is hashable
        vars(made).update(_data=data, _event=event)
        return made


class _ByField:
    """Marks the classes whose instances hold the data of an event and read no field in advance."""


@cache
def _by_field(payload: type[_P]) -> type[_P]:
    """The same class, with fields that are read when they are asked for."""
    fields = {one.name: _Field(one) for one in _fields(payload)}
    return type(payload.__name__, (_ByField, payload), fields)


def _fields(payload: type[Payload]) -> "tuple[dataclasses.Field[Any], ...]":
    return dataclasses.fields(payload)  # type: ignore[arg-type]  # a dataclass by __init_subclass__


def _reading(payload: type[_P]) -> "Callable[[Event, Buffer | None], _P]":
    """How the payload of an event is read."""
    has_names = all(key(one) == one.name for one in _fields(payload))
    whole: msgspec.json.Decoder[_P] | None = None

    def read(event: Event, unread: "Buffer | None") -> _P:
        nonlocal whole
        if has_names:
            try:
                if unread is None:
                    return msgspec.convert(event.data, payload)
                whole = whole or msgspec.json.Decoder(payload)
                return whole.decode(unread)
            except (
                msgspec.DecodeError
            ):  # which field, and what is wrong, is said if it is asked for
                pass
        return payload.read(event, event.data)

    return read


def kind_of(payload: type[Payload]) -> Kind:
    """The kind of events that carry it."""
    return _KINDS[payload]


def payloads() -> Mapping[Kind, type[Payload]]:
    """The payload of every kind."""
    return {kind: payload for payload, kind in _KINDS.items()}


def key(field: "dataclasses.Field[Any]") -> str:
    """The key of a field in records."""
    return str(field.metadata.get("key", field.name))


def read_object(kind: type[_T], value: Json, where: object) -> _T:
    """A dataclass that is no payload from a JSON object; MalformedEvent says what is wrong."""
    if not isinstance(value, Mapping):
        raise MalformedEvent(f"{where} is {value!r}, not a JSON object")
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every caller's is a dataclass
    required = [one.name for one in fields if _default(one) is dataclasses.MISSING]
    if absent := [name for name in required if name not in value]:
        raise MalformedEvent(f"{where} has no {', '.join(absent)}")
    return kind(**{one.name: _Field(one).read(value, where) for one in fields})


# ---------------------------------------------------------------- fields


class _Field:
    """One field. In a class `_ByField` it stands where a field is looked for that was not read."""

    def __init__(self, field: "dataclasses.Field[Any]") -> None:
        self.name, self.key = field.name, key(field)
        self._converted = _reader(field.type)
        self._default = _default(field)

    def __get__(self, payload: Payload, _: type[Payload]) -> object:
        state = vars(payload)
        value = self.read(state["_data"], state["_event"])
        state[self.name] = value
        return value

    def read(self, data: Mapping[str, Json], where: object) -> object:
        """Its value in an object, checked and converted; MalformedEvent names `where`."""
        if self.key not in data:
            if self._default is dataclasses.MISSING:
                raise MalformedEvent(f"{where} has no {self.key!r}")
            return self._default
        value = data[self.key]
        try:
            return self._converted(value, where)
        except TypeError as error:
            raise MalformedEvent(f"{where}: {self.key!r} is {value!r}, not {error}") from error


def _default(field: "dataclasses.Field[Any]") -> object:
    """MISSING without one."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def _reader(wanted: Any) -> Read:
    """How values of an annotation are read."""
    if wanted == Json:
        return lambda value, _: value
    if wanted in _SIMPLE:
        return _SIMPLE[wanted]
    if get_origin(wanted) in {Union, types.UnionType}:
        (kind,) = (one for one in get_args(wanted) if one is not type(None))
        inner = _reader(kind)
        return lambda value, where: None if value is None else inner(value, where)
    if get_origin(wanted) is tuple:
        return _items(_reader(get_args(wanted)[0]))
    if get_origin(wanted) is Mapping:
        return _mapping(_reader(get_args(wanted)[1]))
    if issubclass(wanted, Enum):
        return _code(wanted)
    if issubclass(wanted, Payload):
        return lambda value, event: wanted.read(event, _object(value))
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return lambda value, where: read_object(wanted, value, where)
    raise TypeError(f"no field can be of type {wanted!r}")


def _only(kind: type, what: str) -> Read:
    def read(value: Json, _: object) -> object:
        is_flag = isinstance(value, bool) and kind is not bool
        if not isinstance(value, kind) or is_flag:
            raise TypeError(what)
        return value

    return read


def _number(value: Json, _: object) -> float:
    if isinstance(value, str) and value in NOT_FINITE.values():
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number")
    try:
        return float(value)
    except OverflowError as error:  # JSON knows integers that no float can hold
        raise TypeError("a number") from error


_SIMPLE: Mapping[object, Read] = {
    str: _only(str, "text"),
    int: _only(int, "an integer"),
    bool: _only(bool, "true or false"),
    float: _number,
}


def _items(inner: Read) -> Read:
    def read(value: Json, where: object) -> object:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError("a list")
        try:
            return tuple(inner(one, where) for one in value)
        except TypeError as error:
            raise TypeError(f"a list of which each item is {error}") from error

    return read


def _mapping(inner: Read) -> Read:
    def read(value: Json, where: object) -> object:
        try:
            return {key: inner(one, where) for key, one in _object(value).items()}
        except TypeError as error:
            raise TypeError(f"an object of which each value is {error}") from error

    return read


def _code(codes: type[Enum]) -> Read:
    def read(value: Json, _: object) -> object:
        try:
            return codes(value)
        except ValueError as error:
            known = ", ".join(str(one.value) for one in codes)
            raise TypeError(f"one of {known}") from error

    return read


def _object(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError("an object")
    return value
