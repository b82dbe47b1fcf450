"""JSON of a dataclass by the types of its fields: its schema, and reading it back.

    dataclass ─┬─ schema_of ─► JSON Schema, described by the docstrings below the fields
               └─ read ──────► an object of it, or MalformedEvent

A field may be text, a number, a boolean, an enum, a tuple, a mapping, another dataclass or `Json`,
and each of these or None. Its metadata are further keys of its schema. Fields with a default may be
missing when it is read: older records lack them.
"""

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin

from chaoslab.core.events import Json, MalformedEvent
from chaoslab.plan.file.conventions import field_docs, fields_of, is_required

_T = TypeVar("_T")
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def schema_of(hint: Any, **more: Json) -> dict[str, Json]:
    """The JSON Schema of a type; `more` are keys that the JSON of a dataclass has besides."""
    kind, is_optional = _without_none(hint)
    if is_optional:
        schema = schema_of(kind)
        return {**schema, "type": [str(schema["type"]), "null"]}
    if kind == Json:
        return {}
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": schema_of(get_args(kind)[0])}
    if get_origin(kind) is Mapping:
        return {"type": "object", "additionalProperties": schema_of(get_args(kind)[1])}
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    docs = field_docs(kind)
    properties = {
        one.name: schema_of(one.type)
        | ({"description": docs[one.name]} if one.name in docs else {})
        | dict(one.metadata)
        for one in fields_of(kind)
    }
    return {
        "type": "object",
        "required": [*properties, *more],
        "properties": {**properties, **more},
    }


def read(kind: type[_T], value: Json, where: str) -> _T:
    """A dataclass from JSON; MalformedEvent says what is missing or wrong."""
    if not isinstance(value, Mapping):
        raise MalformedEvent(f"{where} is {value!r}, not a JSON object")
    if absent := [
        one.name for one in fields_of(kind) if is_required(one) and one.name not in value
    ]:
        raise MalformedEvent(f"{where} has no {', '.join(absent)}")
    return kind(
        **{
            one.name: _value(one.type, value[one.name], f"{where}: {one.name}")
            for one in fields_of(kind)
            if one.name in value
        }
    )


def _value(hint: Any, value: Json, where: str) -> Any:
    kind, is_optional = _without_none(hint)
    if kind == Json or (is_optional and value is None):
        return value
    if isinstance(kind, type) and is_dataclass(kind):
        return read(kind, value, where)
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_value(get_args(kind)[0], one, where) for one in value)
    if get_origin(kind) is Mapping and isinstance(value, Mapping):
        return {key: _value(get_args(kind)[1], one, where) for key, one in value.items()}
    if isinstance(kind, type) and issubclass(kind, Enum) and value in [one.value for one in kind]:
        return kind(value)
    if kind is float and not isinstance(value, bool):
        if isinstance(value, int | float) or value in _NOT_FINITE:
            return float(value)
    elif type(value) is kind:
        return value
    raise MalformedEvent(f"{where} is {value!r}")


def _without_none(hint: Any) -> tuple[Any, bool]:
    """A type without `| None`, and whether it had that."""
    if get_origin(hint) is not types.UnionType:
        return hint, False
    (kind,) = (one for one in get_args(hint) if one is not types.NoneType)
    return kind, True
