"""Every field of every event is read: by a check, a report or a tool, not by its writer alone.

    one function, class or table entry ─► payload classes that it names ┐
                                      ─► attributes that it loads       ┴─► those classes' fields

Found in the syntax tree, without types. `x.payload.field` and `x.contributor.field` count wherever
they stand, as does `said.field` where no class is named.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import chaoslab
from chaoslab.core import payloads
from chaoslab.core.payloads import Payload

CHAOSLAB = Path(chaoslab.__file__).parent
PAYLOADS = CHAOSLAB / "core/payloads"
WRITERS = ("diloco", "sim", "systems")
"""Packages of the run under test: they write events and read none."""
BY_HAND: Mapping[str, str] = {
    "NodeStarted.start_ticks": "with pid, boot_id and namespaces it identifies a process to whoever"
    " looks for it on the machine; what ends processes reads the same of the undo log",
}
"""Fields that no code reads, and what they are for."""


def _below(kind: type[Payload]) -> Iterator[type[Payload]]:
    for one in kind.__subclasses__():
        if one.__module__.startswith(payloads.__name__):
            yield one
            yield from _below(one)


KINDS = tuple(dict.fromkeys(_below(Payload)))
NAMES = frozenset(kind.__name__ for kind in KINDS)


def _units(statement: ast.stmt) -> list[ast.AST]:
    """A function or class; of other statements, each call that is given a payload class."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement]
    calls = [one for one in ast.walk(statement) if isinstance(one, ast.Call)]
    entries: list[ast.AST] = [one for one in calls if NAMES & set(map(_name, one.args))]
    return entries or [statement]


def _name(node: ast.AST) -> str:
    """Of a name or an attribute, whatever it belongs to; else empty."""
    return str(getattr(node, "id", getattr(node, "attr", "")))


@cache
def read_fields() -> Mapping[str, frozenset[str]]:
    """Attributes that are loaded, by the payload class; under "" those that count for any."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(CHAOSLAB.rglob("*.py")):
        if path.relative_to(CHAOSLAB).parts[0] in WRITERS:
            continue
        if "payload" not in (text := path.read_text(encoding="utf-8")):
            continue
        for unit in (one for statement in ast.parse(text).body for one in _units(statement)):
            nodes = list(ast.walk(unit))
            loads = [n for n in nodes if isinstance(n, ast.Attribute) and type(n.ctx) is ast.Load]
            named = NAMES & set(map(_name, nodes))
            if path.is_relative_to(PAYLOADS):  # annotations of its fields are no readers
                named = NAMES & {str(getattr(unit, "name", ""))}
            for name in named:
                found[name] |= {one.attr for one in loads}
            sure = {"payload", "contributor"} | ({"said"} if not named else set())
            found[""] |= {one.attr for one in loads if _name(one.value) in sure}
    return {name: frozenset(read) for name, read in found.items()}


def unread_fields(kind: type[Payload]) -> set[str]:
    """Those that nobody reads who names the class, a relative, or what holds its items."""
    holders = [one for one in KINDS if kind.__name__ in str(one.__annotations__)]
    family = [one for one in KINDS if issubclass(one, kind) or issubclass(kind, one)]
    names = ["", *(one.__name__ for one in (*family, *holders))]
    read = set[str]().union(*(read_fields().get(name, ()) for name in names))
    return {f"{kind.__name__}.{field}" for field in kind.__annotations__ if field not in read}


def test_every_field_is_read_by_somebody() -> None:
    assert set[str]().union(*map(unread_fields, KINDS)) == set(BY_HAND)
