"""Conventions of plan keys: a dataclass field's key, the quantity that it has, its documentation.

    within_s: Duration = 30.0      ──►   within: 30s        (default 30 s)

These few rules are all that the authors of faults and checks need; they are listed in the
docstring of the package. Nothing here reads or writes a file.
"""

import ast
import inspect
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from chaoslab.core import units

Hint: TypeAlias = Any
"""A type annotation as a value; no static type describes all of them."""

_SUFFIXES: Final = ("_bytes_per_s", "_bytes", "_s")
"""Units at the end of a field's name, which the plan's key is without."""


def key_of(field: str) -> str:
    """The plan's key of a dataclass field: `within_s` is written as `within`, `from_` as `from`."""
    field = field.removesuffix("_")
    return next((field.removesuffix(one) for one in _SUFFIXES if field.endswith(one)), field)


def quantity_of(hint: Hint) -> units.Quantity[Any] | None:
    """The quantity that a type such as `Duration` stands for."""
    marks = getattr(hint, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, units.Quantity)), None)


def hints_of(kind: type) -> Mapping[str, Hint]:
    """The types of a dataclass's fields, `| None` taken off: in a plan, absent means absent."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _without_none(hints[field.name]) for field in fields(kind)}


def origin_of(hint: Hint) -> Any:
    """Generic type of a type; None for a type that is not generic."""
    return get_origin(hint)


def tuple_in(hint: Hint) -> Hint:
    """The tuple among the types that a hint allows; None without one."""
    if origin_of(hint) is tuple:
        return hint
    return next(filter(None, map(tuple_in, get_args(hint))), None)


def keys_in(kind: type) -> frozenset[str]:
    """Plan keys of a dataclass of settings."""
    return frozenset(key_of(field.name) for field in fields(kind))


def is_required(field: "Field[Any]") -> bool:
    """Whether a field has no default, so that the plan must give it."""
    return field.default is MISSING and field.default_factory is MISSING


def class_doc(kind: type) -> str | None:
    """The docstring of a class, None where `dataclass` made one up."""
    doc = kind.__doc__ or ""
    return None if doc.startswith(f"{kind.__name__}(") else inspect.cleandoc(doc)


@cache
def field_docs(kind: type) -> Mapping[str, str]:
    """The docstrings below the fields of a dataclass, by field; none without its source.

    Of one that is made of several, those of all.
    """
    found: dict[str, str] = {}
    for part in getattr(kind, "made_of", ()):
        for name, doc in field_docs(part).items():
            if doc not in found.get(name, ""):
                found[name] = f"{found.get(name, '')} {doc}".lstrip()
    for part in reversed(kind.__mro__):
        try:
            source = dedent(inspect.getsource(part))
        except (OSError, TypeError):
            continue
        found |= _docs_in(ast.parse(source).body[0])
    return found


def _docs_in(tree: ast.stmt) -> Iterator[tuple[str, str]]:
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, below in pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield field.target.id, " ".join(str(below.value.value).split())


def _without_none(hint: Hint) -> Hint:
    if get_origin(hint) not in {Union, types.UnionType}:
        return hint
    rest = tuple(part for part in get_args(hint) if part is not type(None))
    return Union[rest]  # noqa: UP007  # the parts are known only at run time
