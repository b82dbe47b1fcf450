"""Typed reading of JSON: how an object becomes the fields of a dataclass, by their annotations.

    Event.data ─► Payload (nothing read yet) ─► .field: found, checked, converted, kept
    other JSON ─► read_object ─► a dataclass, all of it read at once

A field of a payload is read when it is first asked for, so that a line that lacks what nobody asks
for does no harm, and judging pays for what it uses. A field that older records lack has a default;
one without a default that is missing, or of another type than its annotation, raises MalformedEvent
with the place (of an event: its seq and kind) and the key. Numbers may be NaN or infinite ("NaN",
"Infinity", "-Infinity").
"""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from chaoslab.core.events import NOT_FINITE, Event, Json, Kind, MalformedEvent, register_payload

Read: TypeAlias = Callable[[Json, object], object]
"""A value as a value of a field, in a place that messages name; TypeError says what was wanted."""
_T = TypeVar("_T")
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
    _fields: ClassVar[Mapping[str, Callable[[Mapping[str, Json], object], object]]]

    def __init_subclass__(cls, *, kind: Kind | None = None) -> None:
        made: Any = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        cls._fields = {one.name: _field(one) for one in dataclasses.fields(made)}
        for name in cls._fields.keys() & vars(cls).keys():
            delattr(cls, name)  # a default, which would be found before `__getattr__` is asked
        if kind is not None:
            _KINDS[cls] = kind
            register_payload(kind, lambda event: cls.read(event, event.data))

    @classmethod
    def read(cls, event: Event, data: Mapping[str, Json]) -> Self:
        """The payload of `data` in `event`, of which no field is read yet."""
        made = object.__new__(cls)
        object.__setattr__(made, "_data", data)
        object.__setattr__(made, "_event", event)
        return made

    if not TYPE_CHECKING:  # a type checker would take every misspelt field for Any

        def __getattr__(self, name: str) -> object:
            """A field that was not read before."""
            reading = self._fields.get(name)
            if reading is None:
                raise AttributeError(f"{type(self).__name__} has no field {name!r}")
            value = reading(self._data, self._event)
            object.__setattr__(self, name, value)
            return value


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
    return kind(**{one.name: _field(one)(value, where) for one in fields})


# ---------------------------------------------------------------- fields


def _field(
    field: "dataclasses.Field[Any]",
) -> Callable[[Mapping[str, Json], object], object]:
    name = key(field)
    converted = _reader(field.type)
    default = _default(field)

    def read(data: Mapping[str, Json], where: object) -> object:
        if name not in data:
            if default is dataclasses.MISSING:
                raise MalformedEvent(f"{where} has no {name!r}")
            return default
        try:
            return converted(data[name], where)
        except TypeError as error:
            raise MalformedEvent(f"{where}: {name!r} is {data[name]!r}, not {error}") from error

    return read


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
