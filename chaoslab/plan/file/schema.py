"""JSON Schema of plan files, by pydantic from the types that `entries` decodes them with.

What is said of a key is the docstring below its field, and its default stands in the plan's units.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, Union

from pydantic import Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from chaoslab.plan.file.conventions import Hint, field_docs, hints_of, key_of
from chaoslab.plan.file.decoding import adapter
from chaoslab.plan.file.entries import Kinds, check_of, fault_of, frame
from chaoslab.plan.file.fleet_entry import whole_fleet
from chaoslab.plan.file.variables import REFERENCE
from chaoslab.plan.file.writing import written_default

_union: Any = Union  # its parts are known only at run time
_VALUES: Final = frozenset({"int", "float", "bool", "json-or-python", "function-plain", "literal"})
"""Types of values that are no text, as pydantic calls them."""


def json_schema(kinds: Kinds) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of plan files, one variant for each fault and check."""
    plan = frame(
        fleet=whole_fleet(kinds),
        faults=_list_of("fault", [fault_of(name, kind) for name, kind in kinds.faults.items()]),
        expect=_list_of("check", [check_of(name, kind) for name, kind in kinds.checks.items()]),
    )
    schema = adapter(plan).json_schema(schema_generator=_Generator)
    schema["$defs"].get("Targets", {}).pop("additionalProperties", None)  # labels
    found = _without_enums(schema, schema["$defs"])
    found["$defs"] = {name: one for name, one in found["$defs"].items() if "enum" not in one}
    dialect = GenerateJsonSchema.schema_dialect
    return {"$schema": dialect, **found, "title": "chaoslab fault plan"}


def _without_enums(schema: Any, defs: Mapping[str, Any]) -> Any:
    """The schema with each enumeration in the place of its name."""
    if isinstance(schema, list):
        return [_without_enums(one, defs) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _without_enums(one, defs) for key, one in schema.items()}
    named = defs.get(str(schema.get("$ref")).removeprefix("#/$defs/"), {})
    if "enum" in named:
        del found["$ref"]
        found["anyOf"] = [{"enum": named["enum"]}, REFERENCE]
    return found


def _list_of(tag: str, entries: list[Hint]) -> Hint:
    """A list of entries whose `tag` says which of them each is."""
    if not entries:
        return tuple[Any, ...]
    one = _union[tuple(entries)]
    several: Any = Annotated[one, Field(discriminator=tag)] if len(entries) > 1 else one
    return tuple[several, ...]


class _Generator(GenerateJsonSchema):
    """The generator of pydantic, without titles, and with what is known of the fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's hook
        return False

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        """What may be left out is never written as null."""
        return self.generate_inner(schema["schema"])

    def union_schema(self, schema: Any) -> JsonSchemaValue:
        """A list in the place of a count is not empty."""
        found = super().union_schema(schema)
        for one in found["anyOf"]:
            if one.get("type") == "array":
                one["minItems"] = 1
        return found

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        found = super().generate_inner(schema)
        if schema["type"] not in _VALUES or "const" in found:
            return found
        return {"anyOf": [*found.get("anyOf", [found]), REFERENCE]}

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        found = super().dataclass_schema(schema)
        kind = schema["cls"]
        hints, docs = hints_of(kind), field_docs(kind)
        for one in fields(kind):
            about = found["properties"][key_of(one.name)]
            about.pop("default", None)
            if doc := docs.get(one.name):
                about.setdefault("description", doc)
            default = written_default(one, hints[one.name])
            if default not in (None, [], {}):
                about["default"] = default
        return found
