"""Shapes of single values in a plan: quantities, texts, words of a closed list, lists, counts.

    30s ── quantity_shape ──► 30.0      [a, b] ── list_of ──► ("a", "b")

A shape is an annotation that pydantic understands. Its JSON Schema allows a variable in place of
the value. Mappings whose keys are known are in `shape`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union

from pydantic import (
    AfterValidator,
    BeforeValidator,
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
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.plan.file.conventions import Hint
from chaoslab.plan.file.document import Tree, nearest

Built = TypeVar("Built")
_tuple: Any = tuple  # what is in it is known only at run time
_dict: Any = dict
_union: Any = Union
Shape: TypeAlias = Any
"""An annotation that pydantic understands; built at run time, so no static type describes it."""
REFERENCE: Final[dict[str, Tree]] = {"type": "string", "pattern": r"\$\{.+\}"}
"""JSON Schema of a variable, which may stand for any value."""


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

    bare = quantity.bare_number
    numbers: list[Tree] = [{"type": bare, "minimum": 0}] if bare else []
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


def list_of(item: Shape) -> Shape:
    """The shape of a list, decoded as a tuple."""

    def check(value: object) -> object:
        if not isinstance(value, list):
            raise refusal(f"{value!r} is not a list: write [{value}]")
        return value

    return Annotated[_tuple[item, ...], BeforeValidator(check)]


def mapping_of(item: Shape, example: str) -> Shape:
    """The shape of a mapping with any keys."""

    def check(value: object) -> object:
        if not isinstance(value, dict):
            raise refusal(f"{value!r} is not a mapping: write `{example}`")
        return value

    return Annotated[_dict[str, item], BeforeValidator(check)]


def count_or_list(item: Shape, example: str) -> Shape:
    """The shape of a count, or of a list in its place that is not empty."""

    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | list):
            raise refusal(f"{value!r} is not a whole number or a list: write `{example}`")
        return value

    count = Annotated[StrictInt, _schema({"type": "integer", "minimum": 1}), Tag("count")]
    several = Annotated[_tuple[item, ...], Field(min_length=1), Tag("list")]
    which = Discriminator(lambda value: "list" if isinstance(value, list) else "count")
    return Annotated[_union[count, several], which, BeforeValidator(check)]


def _schema(form: Tree) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [form, REFERENCE]})


PLAIN: Final[Mapping[Hint, Shape]] = {
    bool: Annotated[StrictBool, _schema({"type": "boolean"})],
    int: Annotated[StrictInt, _schema({"type": "integer"})],
    float: Annotated[StrictFloat, Field(allow_inf_nan=False), _schema({"type": "number"})],
    str: StrictStr,
    Any: Annotated[Any, WithJsonSchema({})],
}
"""Types whose values stand in a plan as they are; `Json` is anything that can be written there."""


def built(build: Callable[[Any], Built], found: object) -> Built:
    """What `build` makes of decoded data; a PlanError becomes mistakes there, or at their keys."""
    try:
        return build(found)
    except PlanError as error:
        if not (error.key or error.parts):
            raise refusal(error.message) from None
        mistakes: list[InitErrorDetails] = [
            {"type": refusal(one.message), "loc": tuple(filter(None, one.key.split("."))),
             "input": found}
            for one in error.parts or (error,)
        ]  # fmt: skip
        raise ValidationError.from_exception_data("plan", mistakes) from None


def refusal(text: str) -> PydanticCustomError:
    """A mistake in our own words; pydantic adds where it stands."""
    return PydanticCustomError("plan", "{text}", {"text": text})
