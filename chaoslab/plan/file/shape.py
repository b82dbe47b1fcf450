"""From a mapping in a plan to a frozen dataclass, by way of a pydantic type built for it.

    dataclass Limits ── record ──► TypedDict with the plan's keys ── pydantic ──► Limits(…)
                                        └── JSON Schema, descriptions from docstrings

One generic decoder serves the plan's own dataclasses and the settings of every fault and check.
pydantic walks the data, gathers all mistakes and says where each is; the words are ours.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import TypedDict

from chaoslab.core import units
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
from chaoslab.plan.file.writing import written_default

_typed_dict: Any = TypedDict  # its keys are known only at run time
_tuple: Any = tuple
_dict: Any = dict
_union: Any = Union
Shape: TypeAlias = Any
"""An annotation that pydantic understands; built at run time, so no static type describes it."""
Found: TypeAlias = dict[str, Any]
"""Decoded values by the plan's keys."""

_NONE: Final[Mapping[Hint, Shape]] = {}
REFERENCE: Final[dict[str, Tree]] = {"type": "string", "pattern": r"\$\{.+\}"}
"""JSON Schema of a variable, which may stand for any value."""


# ---------------------------------------------------------------- one dataclass, one mapping


def record(kind: type, special: Mapping[Hint, Shape] = _NONE) -> Shape:
    """The shape of a mapping that becomes a `kind`; `special` shapes stand for types in it."""
    keys = keys_of(kind, special)
    return mapping(
        kind.__name__, keys, lambda found: kind(**arguments(kind, found)), doc=class_doc(kind)
    )


def arguments(kind: type, found: Found) -> Found:
    """Those decoded values that are fields of `kind`, by the fields' own names."""
    names = {key_of(field.name): field.name for field in fields_of(kind)}
    return {names[key]: value for key, value in found.items() if key in names}


def keys_of(kind: type, special: Mapping[Hint, Shape] = _NONE) -> dict[str, Shape]:
    """The plan's keys of a dataclass and the shape of each, marked required or not.

    Settings, of type `object`, are left out: their keys are added by `with_settings`.
    """
    hints, docs = hints_of(kind), field_docs(kind)
    keys: dict[str, Shape] = {}
    for field in fields_of(kind):
        if hints[field.name] is object:
            continue  # settings, whose keys stand beside these
        example = field.metadata.get("example") or _example(field.name, hints[field.name])
        default = written_default(field, hints[field.name])
        keys[key_of(field.name)] = entry(
            shape_of(field.name, hints[field.name], special, example=example),
            docs.get(field.name),
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
    fields = [mark for one in described for mark in one.__metadata__ if isinstance(mark, FieldInfo)]
    docs = dict.fromkeys(field.description for field in fields if field.description)
    return entry(_union[tuple(described)], " ".join(docs) or None)


def entry(
    shape: Shape,
    doc: str | None,
    *,
    default: Tree = None,
    example: str = "…",
    is_required: bool = False,
) -> Shape:
    """One key of a mapping, with what an editor shows for it.

    `example` is what an error about the missing key says to write, as it stands in a plan.
    """
    extra = {} if default is None else {"default": default}
    described = Annotated[shape, Field(description=doc, json_schema_extra=extra), Example(example)]
    return Required[described] if is_required else NotRequired[described]


@dataclass(frozen=True, slots=True)
class Example:
    """What could be written for a key; carried by the key's annotation."""

    text: str


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


def built(build: Callable[[Any], object], found: object) -> object:
    """What `build` makes of decoded data; its PlanError becomes a mistake there, or at its key."""
    try:
        return build(found)
    except PlanError as error:
        told = refusal(error.message)
        if not error.key:
            raise told from None
        mistake = InitErrorDetails(type=told, loc=tuple(error.key.split(".")), input=found)
        raise ValidationError.from_exception_data("plan", [mistake]) from None


def refusal(text: str) -> PydanticCustomError:
    """A mistake in our own words; pydantic adds where it stands."""
    return PydanticCustomError("plan", "{text}", {"text": text})


def variants(tag: str, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of a mapping whose `tag` key says which of several shapes it has."""

    def check(value: object) -> object:
        if not isinstance(value, dict) or not isinstance(value.get(tag), str):
            raise PlanError(f"`{tag}` is missing: write {{{tag}: {min(shapes, default='…')}, …}}")
        if value[tag] not in shapes:
            raise PlanError(nearest(value[tag], shapes, noun=tag), key=tag)
        return value

    union = _union[tuple(shapes.values())] if shapes else Any
    known = Annotated[union, Field(discriminator=tag)] if len(shapes) > 1 else union
    return Annotated[known, BeforeValidator(lambda value: built(check, value))]


# ---------------------------------------------------------------- one field, one value


def shape_of(
    field: str, hint: Hint, special: Mapping[Hint, Shape] = _NONE, *, example: str = "…"
) -> Shape:
    """The shape of one field's value; HarnessBug for a type that no plan can write."""
    quantity = quantity_of(field, hint)
    if quantity is not None:
        return quantity_shape(quantity)
    if hint in special:
        return special[hint]
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin: Any = get_origin(hint)
    if origin is Literal:
        return choice(hint, get_args(hint))
    if origin is tuple:
        item = shape_of(field, get_args(hint)[0], special)
        return Annotated[_tuple[item, ...], BeforeValidator(_list)]
    if origin is Mapping:
        item = shape_of(field, get_args(hint)[1], special, example=example)
        return Annotated[_dict[str, item], BeforeValidator(_is_mapping(field, example))]
    if get_args(hint)[:1] == (int,) and tuple_in(hint):
        item = shape_of(field, get_args(tuple_in(hint))[0], special)
        return _count_or_list(item, f"{field}: {example}")
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return choice(hint, [member.value for member in hint])
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return record(hint, special)
    raise HarnessBug(f"a setting {field!r} of type {hint} has no form in a plan file")


def plain(read: Callable[[Any], object], *forms: Tree) -> Shape:
    """The shape of what `read` makes of a value; `forms` are its JSON Schemas.

    A PlanError of `read` becomes a mistake at the value.
    """
    schema: dict[str, Any] = {"anyOf": [*forms, REFERENCE]}
    return Annotated[Any, PlainValidator(lambda value: built(read, value)), WithJsonSchema(schema)]


def quantity_shape(quantity: units.Quantity[Any]) -> Shape:
    """The shape of a text such as `30s`."""

    def parse(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise PlanError(f"{value!r} is not a {quantity.name}: write {quantity.examples[0]}")
        return quantity.parse(value if isinstance(value, str) else repr(value))

    numbers: list[Tree] = [{"type": "integer", "minimum": 0}] if quantity.is_bare_number else []
    return plain(parse, *numbers, text_form(quantity))


def text_form(quantity: units.Quantity[Any]) -> dict[str, Tree]:
    """JSON Schema of a quantity as text."""
    examples: list[Tree] = [*quantity.examples]
    return {"type": "string", "pattern": f"^{quantity.pattern}$", "examples": examples}


def choice(kind: Hint, words: Sequence[str], *, noun: str = "value") -> Shape:
    """The shape of one word out of a closed list; a mistake names the whole list."""
    known: list[Tree] = [*words]

    def check(value: object) -> object:
        if value not in known:
            raise refusal(nearest(str(value), words, noun=noun, lists_all=True))
        return value

    return Annotated[kind, BeforeValidator(check), _schema({"enum": known})]


def text(pattern: str, what: str) -> Shape:
    """The shape of a text that matches a pattern; `what` says what it is."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise refusal(f"{value!r} is not {what}")
        return value

    return Annotated[
        StrictStr, AfterValidator(check), _schema({"type": "string", "pattern": f"^{pattern}$"})
    ]


def _schema(form: Tree) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [form, REFERENCE]})


_PLAIN: Final[Mapping[Hint, Shape]] = {
    bool: Annotated[StrictBool, _schema({"type": "boolean"})],
    int: Annotated[StrictInt, _schema({"type": "integer"})],
    float: Annotated[StrictFloat, Field(allow_inf_nan=False), _schema({"type": "number"})],
    str: StrictStr,
}


def _list(value: object) -> object:
    if not isinstance(value, list):
        raise refusal(f"{value!r} is not a list: write [{value}]")
    return value


def _is_mapping(field: str, example: str) -> Callable[[object], object]:
    def check(value: object) -> object:
        if not isinstance(value, dict):
            raise refusal(f"{value!r} is not a mapping: write `{field}: {example}`")
        return value

    return check


def _count_or_list(item: Shape, example: str) -> Shape:
    """The shape of a count, or of a list in its place that is not empty."""

    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | list):
            raise refusal(f"{value!r} is not a whole number or a list: write `{example}`")
        return value

    count = Annotated[StrictInt, _schema({"type": "integer", "minimum": 1}), Tag("count")]
    several = Annotated[_tuple[item, ...], Field(min_length=1), Tag("list")]
    which = Discriminator(lambda value: "list" if isinstance(value, list) else "count")
    return Annotated[_union[count, several], which, BeforeValidator(check)]


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
    return next(mark.text for mark in annotated.__metadata__ if isinstance(mark, Example))


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
