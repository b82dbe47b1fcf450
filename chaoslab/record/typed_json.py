"""JSON Schema of a dataclass by the types of its fields, described by the docstrings below them.

A field may be of any type that `core.events.read` reads. Its metadata are further keys of
its schema.
"""

import types
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, get_args, get_origin

from chaoslab.core.events import Json
from chaoslab.plan.file.conventions import field_docs

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(hint: Any, **more: Json) -> dict[str, Json]:
    """The JSON Schema of a type; `more` are keys that the JSON of a dataclass has besides."""
    if get_origin(hint) is types.UnionType:
        (kind,) = (one for one in get_args(hint) if one is not types.NoneType)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [*(member.value for member in kind), None]}
        schema = schema_of(kind)
        return {**schema, "type": [str(schema["type"]), "null"]}
    if hint == Json:
        return {}
    if hint in _NAMES:
        return {"type": _NAMES[hint]}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": schema_of(get_args(hint)[0])}
    if get_origin(hint) is Mapping:
        return {"type": "object", "additionalProperties": schema_of(get_args(hint)[1])}
    if issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    docs = field_docs(hint)
    properties = {
        one.name: schema_of(one.type)
        | ({"description": docs[one.name]} if one.name in docs else {})
        | dict(one.metadata)
        for one in fields(hint)
    }
    return {
        "type": "object",
        "required": [*properties, *more],
        "properties": {**properties, **more},
    }
