"""From a mapping in a plan to a frozen dataclass, by way of a pydantic type built for it.

    dataclass Limits ── record ──► TypedDict with the plan's keys ── pydantic ──► Limits(…)
                                        └── JSON Schema, descriptions from docstrings

One generic decoder serves the plan's own dataclasses and the settings of every fault and check.
pydantic walks the data, gathers all mistakes and says where each is; the words are ours. Single
values are in `values`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WrapValidator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import TypedDict

from chaoslab.core.errors import HarnessBug, PackageError, PlanError
from chaoslab.plan.file.conventions import (
    Hint,
    class_doc,
    field_docs,
    fields_of,
    hints_of,
    is_required,
    key_of,
    quantity_of,
    tuple_in,
)
from chaoslab.plan.file.document import Tree, nearest
from chaoslab.plan.file.values import (
    PLAIN,
    Shape,
    built,
    choice,
    count_or_list,
    list_of,
    mapping_of,
    quantity_shape,
    refusal,
)
from chaoslab.plan.file.writing import written_default

Kind = TypeVar("Kind")
_typed_dict: Any = TypedDict  # its keys are known only at run time
_union: Any = Union
Found: TypeAlias = dict[str, Any]
"""Decoded values by the plan's keys."""
Doc: TypeAlias = str | Callable[[], str | None] | None
"""What a key means, or what reads it from source code; only a JSON Schema asks."""

Nested: TypeAlias = Callable[[type, Mapping[Hint, Shape]], Shape]
"""What makes the shape of a dataclass in another: `record`, or `record_on_demand`."""

_NONE: Final[Mapping[Hint, Shape]] = {}


# ---------------------------------------------------------------- one dataclass, one mapping


def record(kind: type, special: Mapping[Hint, Shape] = _NONE) -> Shape:
    """The shape of a mapping that becomes a `kind`; `special` shapes stand for types in it."""
    return _record(kind, keys_of(kind, special))


def record_on_demand(kind: type, special: Mapping[Hint, Shape] = _NONE) -> Shape:
    """The same, made when there first is such a mapping, as are those in it.

    It has no JSON Schema.
    """

    @cache
    def adapter() -> TypeAdapter[object]:
        return TypeAdapter(_record(kind, keys_of(kind, special, record_on_demand)))

    return Annotated[Any, PlainValidator(lambda value: adapter().validate_python(value))]


def _record(kind: type, keys: Mapping[str, Shape]) -> Shape:
    return mapping(
        kind.__name__, keys, lambda found: kind(**arguments(kind, found)), doc=class_doc(kind)
    )


def arguments(kind: type, found: Found) -> Found:
    """Those decoded values that are fields of `kind`, by the fields' own names."""
    names = {key_of(field.name): field.name for field in fields_of(kind)}
    return {names[key]: value for key, value in found.items() if key in names}


def keys_of(
    kind: type, special: Mapping[Hint, Shape] = _NONE, nested: Nested = record
) -> dict[str, Shape]:
    """The plan's keys of a dataclass and the shape of each, marked required or not.

    `nested` makes the shapes of the dataclasses in it.

    Settings, of type `object`, are left out: their keys are added by `with_settings`.
    """
    hints = hints_of(kind)
    keys: dict[str, Shape] = {}
    for field in fields_of(kind):
        if hints[field.name] is object:
            continue  # settings, whose keys stand beside these
        example = field.metadata.get("example") or _example(field.name, hints[field.name])
        default = written_default(field, hints[field.name])
        keys[key_of(field.name)] = entry(
            shape_of(field.name, hints[field.name], special, nested, example=example),
            partial(_field_doc, kind, field.name),
            default=None if default in ([], {}) else default,
            example=example,
            is_required=is_required(field),
        )
    return keys


def with_settings(keys: Mapping[str, Shape], name: str, kind: type) -> dict[str, Shape]:
    """These keys and those of a fault, a check, a fleet or links; PackageError if two are equal."""
    settings = keys_of(kind)
    if clash := sorted(settings.keys() & keys.keys()):
        raise PackageError(f"{name} has a setting {clash[0]!r}, which its entry has already")
    return {**keys, **settings}


def any_of(entries: Sequence[Shape]) -> Shape:
    """One optional key to which several mappings give an entry: what fits any of them."""
    if len(entries) == 1:
        return entries[0]
    described = [get_args(one)[0] for one in entries]
    marks = [mark for one in described for mark in one.__metadata__ if isinstance(mark, Described)]
    return entry(_union[tuple(described)], partial(_all_docs, marks))


def entry(
    shape: Shape,
    doc: Doc,
    *,
    default: Tree = None,
    example: str = "…",
    is_required: bool = False,
) -> Shape:
    """One key of a mapping, with what an editor shows for it.

    `example` is what an error about the missing key says to write, as it stands in a plan.
    """
    told = Described(doc, default, example)
    described = Annotated[shape, Field(json_schema_extra=told.describe), told]
    return Required[described] if is_required else NotRequired[described]


@dataclass(frozen=True, slots=True)
class Described:
    """What an editor or an error tells of a key; carried by the key's annotation."""

    doc: Doc
    default: Tree
    example: str
    """What could be written for it."""

    def describe(self, schema: dict[str, Any]) -> None:
        """Add it to the JSON Schema of the key."""
        if text := _text(self.doc):
            schema["description"] = text
        if self.default is not None:
            schema["default"] = self.default


def _text(doc: Doc) -> str | None:
    return doc() if callable(doc) else doc


def _field_doc(kind: type, name: str) -> str | None:
    return field_docs(kind).get(name)


def _all_docs(marks: Sequence[Described]) -> str | None:
    return " ".join(dict.fromkeys(filter(None, (_text(mark.doc) for mark in marks)))) or None


def _example(field: str, hint: Hint) -> str:
    """A value of a field, as it stands in a plan."""
    quantity = quantity_of(field, hint)
    if quantity is not None:
        return str(quantity.examples[0])
    origin: Any = get_origin(hint)
    if origin is Literal:
        return str(get_args(hint)[0])
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return str(next(iter(hint)))
    return {int: "1", float: "0.5", bool: "true"}.get(hint, "…")


def mapping(
    name: str,
    keys: Mapping[str, Shape],
    build: Callable[[Found], object],
    *,
    doc: str | None = None,
    is_open: bool = False,
    likely: Collection[str] = (),
) -> Shape:
    """The shape of a mapping with these keys, which `build` turns into an object.

    A PlanError of `build` becomes a mistake at the mapping; unknown keys are refused with the
    nearest known one, of the `likely` ones first, unless the mapping `is_open`.
    """
    typed = _typed_dict(name, dict(keys))
    typed.__doc__ = doc
    typed.__pydantic_config__ = ConfigDict(extra="allow" if is_open else "forbid")

    def decode(value: object, handler: Callable[[object], Found]) -> object:
        if not isinstance(value, dict):
            key, first = next(iter(keys.items()))
            raise refusal(f"{value!r} is not a mapping: write {{{key}: {_example_of(first)}}}")
        try:
            found = handler(value)
        except ValidationError as error:
            raise _in_our_words(error, keys, likely) from None
        return built(build, found)

    return Annotated[typed, WrapValidator(decode)]


def variants(tag: str, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of a mapping whose `tag` key says which of several shapes it has."""
    union = _union[tuple(shapes.values())] if shapes else Any
    known = Annotated[union, Field(discriminator=tag)] if len(shapes) > 1 else union
    return Annotated[known, BeforeValidator(lambda value: _tagged(tag, shapes, value))]


def variants_on_demand(
    tag: str, kinds: Mapping[str, Kind], shape: Callable[[str, Kind], Shape]
) -> Shape:
    """The same; the shape of each kind is made when a mapping first names it.

    It has no JSON Schema.
    """

    @cache
    def adapter(name: str) -> TypeAdapter[object]:
        return TypeAdapter(shape(name, kinds[name]))

    def decode(value: object) -> object:
        return adapter(_tagged(tag, kinds, value)[tag]).validate_python(value)

    return Annotated[Any, PlainValidator(decode)]


def _tagged(tag: str, known: Collection[str], value: object) -> dict[str, Any]:
    """A mapping whose `tag` is one of the known ones; else a mistake."""

    def check(value: object) -> dict[str, Any]:
        if not isinstance(value, dict) or not isinstance(value.get(tag), str):
            raise PlanError(f"`{tag}` is missing: write {{{tag}: {min(known, default='…')}, …}}")
        if value[tag] not in known:
            raise PlanError(nearest(value[tag], known, noun=tag), key=tag)
        return value

    return built(check, value)


# ---------------------------------------------------------------- one field, one value


def shape_of(
    field: str,
    hint: Hint,
    special: Mapping[Hint, Shape] = _NONE,
    nested: Nested = record,
    *,
    example: str = "…",
) -> Shape:
    """The shape of one field's value; HarnessBug for a type that no plan can write."""
    quantity = quantity_of(field, hint)
    if quantity is not None:
        return quantity_shape(quantity)
    if hint in special:
        return special[hint]
    if hint in PLAIN:
        return PLAIN[hint]
    origin: Any = get_origin(hint)
    if origin is Literal:
        return choice(hint, get_args(hint))
    if origin is tuple:
        return list_of(shape_of(field, get_args(hint)[0], special, nested))
    if origin is Mapping:
        item = shape_of(field, get_args(hint)[1], special, nested, example=example)
        return mapping_of(item, f"{field}: {example}")
    if get_args(hint)[:1] == (int,) and tuple_in(hint):
        item = shape_of(field, get_args(tuple_in(hint))[0], special, nested)
        return count_or_list(item, f"{field}: {example}")
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return choice(hint, [member.value for member in hint])
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return nested(hint, special)
    raise HarnessBug(f"a setting {field!r} of type {hint} has no form in a plan file")


# ---------------------------------------------------------------- our own words

UNKNOWN_KEY: Final = "unknown_key"
"""Type of the mistakes that are placed at a key rather than at its value."""

_WORDS: Final[Mapping[str, str]] = {
    "string_type": "{input!r} is not text: put it in quotes",
    "int_type": "{input!r} is not a whole number",
    "float_type": "{input!r} is not a number",
    "finite_number": "{input!r} is not a finite number",
    "bool_type": "{input!r} is not true or false",
    "too_short": "must not be an empty list",
}


def _example_of(shape: Shape) -> str:
    """The example that an entry carries, below the mark that it is required."""
    (annotated,) = get_args(shape)
    return next(mark.example for mark in annotated.__metadata__ if isinstance(mark, Described))


def _in_our_words(
    error: ValidationError, keys: Mapping[str, Shape], likely: Collection[str]
) -> ValidationError:
    lines: list[InitErrorDetails] = []
    for found in error.errors(include_url=False):
        kind = found["type"]
        if kind == "extra_forbidden":
            kind = UNKNOWN_KEY
            words = nearest(str(found["loc"][-1]), keys, noun="key", likely=likely)
        elif kind == "missing":
            key = str(found["loc"][-1])
            words = f"is missing: write `{key}: {_example_of(keys[key])}`"
        else:
            words = _WORDS.get(kind, "{msg}").format_map(found)
        told = PydanticCustomError(
            "unknown_key" if kind == UNKNOWN_KEY else "plan", "{text}", {"text": words}
        )
        lines.append(InitErrorDetails(type=told, loc=found["loc"], input=found["input"]))
    return ValidationError.from_exception_data("plan", lines)
