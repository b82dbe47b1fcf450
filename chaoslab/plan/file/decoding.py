"""Decoding of a document's part into a frozen dataclass, by pydantic: keys, types, units, mistakes.

    {within: 30s} ── decoded ──► Rejoin(within_s=30.0)     or mistakes: where, and what to write

A part is validated as JSON is, strictly; in that form, and only in it, quantities are texts
(`core.units`). Keys are those of `conventions`. A PlanError of `__post_init__` is a mistake at the
mapping, or at the key that it names. The parts of a plan are in `entries`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, field, fields, is_dataclass, make_dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from chaoslab.core.errors import HarnessBug, PackageError, PlanError
from chaoslab.plan.file.conventions import (
    Hint,
    hints_of,
    key_of,
    keys_in,
    origin_of,
    quantity_of,
    tuple_in,
)
from chaoslab.plan.file.document import Branch, Document, Tree, nearest

_union: Any = Union  # its parts are known only at run time
_CONFIG: Final = ConfigDict(
    alias_generator=key_of, extra="forbid", strict=True, allow_inf_nan=False
)
_WORDS: Final[Mapping[str, str]] = {
    "string_type": "{input!r} is not text: put it in quotes",
    "int_type": "{input!r} is not a whole number",
    "float_type": "{input!r} is not a number",
    "finite_number": "{input!r} is not a finite number",
    "bool_type": "{input!r} is not true or false",
    "tuple_type": "{input!r} is not a list: write [{input}]",
    "too_short": "must not be an empty list",
    "json_invalid": "has a character that is not Unicode: remove it",
}


class DecodingError(NamedTuple):
    """A mistake in a part: the way to it from there, and what to write."""

    branch: Branch
    text: str
    is_key: bool = False
    """Whether its place is the key, not the value."""


def decoded(document: Document, branch: Branch, hint: Hint, tree: Tree) -> Any:
    """Value of a document's part as this type; None if it has mistakes, which are noted."""
    try:
        return adapter(hint).validate_json(json.dumps(tree))
    except ValidationError as error:
        for wrong in mistakes(hint, tree, error):
            way = (*branch, *wrong.branch)
            if way not in document.broken:
                document.add_problem(way, wrong.text, is_key=wrong.is_key)
    return None


@cache
def adapter(hint: Hint) -> TypeAdapter[Any]:
    """Validator of a type with the keys of a plan."""
    # pydantic takes no configuration for a dataclass, but for a union with one in it
    return TypeAdapter(_union[hint, None], config=_CONFIG)


def mistakes(hint: Hint, tree: Tree, error: ValidationError) -> Iterator[DecodingError]:
    """The mistakes that pydantic found in a tree of this type, in words of a plan."""
    for found in error.errors(include_url=False):
        kind, cause = found["type"], found.get("ctx", {}).get("error")
        branch = _branch(tree, found["loc"], is_missing=kind == "missing")
        if isinstance(cause, PlanError):
            for one in cause.parts or (cause,):
                way = (int(key) if key.isdecimal() else key for key in one.key.split(".") if key)
                yield DecodingError((*branch, *way), one.message)
        elif kind != "int_type" or not _is_list(hint, found):
            yield DecodingError(branch, _words(hint, found), kind == "unexpected_keyword_argument")


def _branch(tree: Tree, way: Sequence[str | int], *, is_missing: bool) -> Branch:
    """The way of pydantic without its names for the parts of a union."""
    branch: Branch = ()
    for part in way:
        if isinstance(tree, list) and isinstance(part, int):
            tree = tree[part]
        elif isinstance(tree, dict) and (part in tree or is_missing):
            tree = tree.get(str(part))
        else:
            continue
        branch = (*branch, part)
    return branch


def _is_list(hint: Hint, found: ErrorDetails) -> bool:
    """Whether a list stands where it may: then what is wrong in it is told, not that it is one."""
    return isinstance(found["input"], list) and tuple_in(_at(hint, found["loc"])[0]) is not None


def _words(hint: Hint, found: ErrorDetails) -> str:
    here, around, told = _at(hint, found["loc"])
    kind, value = found["type"], found["input"]
    if kind == "unexpected_keyword_argument":
        likely = getattr(around, "likely_keys", ())
        return nearest(str(found["loc"][-1]), by_key(around), noun="key", likely=likely)
    if kind == "missing":
        return f"is missing: write `{told}`"
    if kind in {"literal_error", "enum"}:
        words = _choices(here)
        if isinstance(words[0], str):
            return nearest(str(value), words, noun="value", lists_all=True)
        return f"must be {' or '.join(map(str, words))}, got {value!r}"
    if kind == "dataclass_type":
        key, first = next(iter(by_key(bare(here)).items()))
        example = example_of(first, hints_of(bare(here))[first.name])
        return f"{value!r} is not a mapping: write {{{key}: {example}}}"
    if kind == "dict_type":
        return f"{value!r} is not a mapping: write `{told}`"
    if kind == "int_type" and tuple_in(here):
        return f"{value!r} is not a whole number or a list: write `{told}`"
    return _WORDS.get(kind, "{msg}").format_map(found)


def _at(hint: Hint, way: Sequence[str | int]) -> tuple[Hint, type, str]:
    """The type at the end of a way, the last dataclass on it, and its key with an example."""
    around, told = object, ""
    for part in way:
        hint = bare(hint)
        if is_dataclass(hint) and isinstance(hint, type):
            around, one = hint, by_key(hint).get(str(part))
            if one is not None:
                hint = hints_of(around)[one.name]
                told = f"{part}: {example_of(one, hint)}"
        elif origin_of(hint) is Mapping:
            hint = get_args(hint)[1]
        elif isinstance(part, int):
            hint = get_args(tuple_in(hint))[0]
    return hint, around, told


# ---------------------------------------------------------------- types


def by_key(kind: type) -> "Mapping[str, Field[Any]]":
    """The fields of a dataclass by the plan's keys."""
    return {key_of(one.name): one for one in fields(kind)}


def bare(hint: Hint) -> Hint:
    """A type without its annotations."""
    return get_args(hint)[0] if origin_of(hint) is Annotated else hint


def _choices(hint: Hint) -> Sequence[Any]:
    """The values of a closed list, or of the first among several types; else none."""
    if origin_of(hint) is Literal:
        return get_args(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return [member.value for member in hint]
    return next(filter(None, map(_choices, get_args(hint))), ())


def example_of(one: "Field[Any]", hint: Hint) -> str:
    """Example value of a field."""
    if "example" in one.metadata:
        return str(one.metadata["example"])
    if quantity := quantity_of(hint):
        return str(quantity.examples[0])
    usual = {int: "1", float: "0.5", bool: "true"}.get(hint, "…")
    return str(next(iter(_choices(hint)), usual))


def require_form(kind: type) -> None:
    """HarnessBug for a dataclass with a field that no plan can write."""
    for name, hint in hints_of(kind).items():
        _require_form(name, hint)


def _require_form(name: str, hint: Hint) -> None:
    inner, origin = bare(hint), origin_of(hint)
    is_enum = isinstance(inner, type) and issubclass(inner, StrEnum)
    if quantity_of(hint) or hint in (bool, str, Any) or origin is Literal or is_enum:
        return
    if origin is tuple or origin is Mapping:
        _require_form(name, get_args(hint)[origin is Mapping])
    elif get_args(hint)[:1] == (int,) and tuple_in(hint):
        _require_form(name, tuple_in(hint))
    elif isinstance(inner, type) and is_dataclass(inner):
        require_form(inner)
    elif hint not in (int, float) or key_of(name) != name:
        needs = ": its unit needs a type of chaoslab.core.units" if hint in (int, float) else ""
        raise HarnessBug(f"a setting {name!r} of type {hint} has no form in a plan file{needs}")


def merged(
    name: str,
    *parts: type,
    doc: str | None = None,
    beside: Sequence[type] = (),
    own: Mapping[str, Hint] = {},  # nothing changes it
) -> type:
    """A dataclass with the fields of several, as one mapping of a plan has their keys.

    `own` are types of fields in place of theirs. A key of several parts takes what any of them
    takes. Keys that only those `beside` have are known, but less likely in place of a mistaken one.
    """
    found: dict[str, tuple[Any, Any, Any]] = {}
    likely = {key for part in parts for key in by_key(part)}
    for part in dict.fromkeys((*parts, *beside)):
        hints = {**hints_of(part), **own}
        for key, one in by_key(part).items():
            hint = hints[one.name]
            if hint is object or (part not in parts and key in likely):
                continue  # settings, whose keys stand beside these
            usual = field(default=one.default, default_factory=one.default_factory,
                          metadata=one.metadata)  # fmt: skip
            if key in found:
                _, other, before = found[key]
                if (other, before.default) != (hint, one.default):
                    hint, usual = _union[other, hint], field(default=None)
            found[key] = (one.name, hint, usual)
    namespace = {"__doc__": doc, "made_of": (*parts, *beside), "likely_keys": likely}
    return make_dataclass(name, found.values(), frozen=True, kw_only=True, namespace=namespace)


def settings_in(kind: type, entry: Any) -> Any:
    """The settings of this kind in an entry, which has them beside its own keys."""
    names = by_key(type(entry))
    return kind(**{one.name: getattr(entry, names[key].name) for key, one in by_key(kind).items()})


def require_settings(name: str, entry: type, *kinds: type) -> None:
    """PackageError for settings whose keys the entry has itself; HarnessBug for types of none."""
    for kind in kinds:
        if clash := sorted(keys_in(kind) & keys_in(entry)):
            raise PackageError(f"{name} has a setting {clash[0]!r}, which its entry has already")
        require_form(kind)
