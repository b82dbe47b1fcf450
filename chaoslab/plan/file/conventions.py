"""How a dataclass field reads in a plan: its key, the quantity it holds, its documentation.

    within_s: float = 30.0      ──►   within: 30s        (a duration, default 30 s)

These few rules are all that the authors of faults and checks need; they are listed in the
docstring of the package. Nothing here reads or writes a file.
"""

import ast
import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from chaoslab.core import units

Hint: TypeAlias = Any
"""A type annotation as a value; no static type describes all of them."""

_SUFFIXES: Final[tuple[tuple[str, units.Quantity[Any], bool], ...]] = (
    ("_bytes_per_s", units.RATE, True),
    ("_bytes", units.SIZE, True),
    ("_s", units.DURATION, True),
    ("_share", units.SHARE, False),
    ("_factor", units.FACTOR, False),
)
"""Field suffix, the quantity it declares, and whether the plan's key is without the suffix."""


def key_of(field: str) -> str:
    """The plan's key of a dataclass field: `within_s` is written as `within`."""
    for suffix, _, is_cut in _SUFFIXES:
        if field.endswith(suffix):
            return field.removesuffix(suffix) if is_cut else field
    return field


def quantity_of(field: str, hint: Hint) -> units.Quantity[Any] | None:
    """The quantity that a field holds, by its type (`Share`) or by its suffix (`within_s`)."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, units.Quantity):
            return mark
    if hint not in {int, float}:
        return None
    return next((quantity for suffix, quantity, _ in _SUFFIXES if field.endswith(suffix)), None)


def hints_of(kind: type) -> Mapping[str, Hint]:
    """The types of a dataclass's fields, `| None` taken off: in a plan, absent means absent."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _without_none(hints[field.name]) for field in fields_of(kind)}


def tuple_in(hint: Hint) -> Hint:
    """The tuple among the types that a hint allows; None without one."""
    return next((one for one in (hint, *get_args(hint)) if get_origin(one) is tuple), None)


def fields_of(kind: type) -> "tuple[dataclasses.Field[Any], ...]":
    """The fields of a dataclass."""
    return dataclasses.fields(kind)


def keys_in(kind: type) -> frozenset[str]:
    """The plan's keys of a dataclass whose fields are settings."""
    return frozenset(key_of(field.name) for field in fields_of(kind))


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field has no default, so that the plan must give it."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def class_doc(kind: type) -> str | None:
    """The docstring of a class, None where `dataclass` made one up."""
    doc = kind.__doc__ or ""
    return None if doc.startswith(f"{kind.__name__}(") else inspect.cleandoc(doc)


@cache
def field_docs(kind: type) -> Mapping[str, str]:
    """The docstrings that stand below the fields of a class, by field; empty without its source."""
    try:
        source = dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    return dict(_docs_in(ast.parse(source).body[0]))


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
