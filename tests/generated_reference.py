"""Reference pages that are made from the code as a whole: commands, keys of plans, Python API.

    click commands ─► docs/cli.md          one section for each command
    JSON Schemas ───► docs/plans.md    one table for each object of a plan
                  └─► docs/record.md       the fields of verdict.json
    source ─────────► docs/python.md       what users import: signatures and docstrings

`generated_docs` writes them between markers, and `test_docs.py` tests that they are fresh.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import click

from chaoslab.checks import verdict
from chaoslab.checks.base import Check, Finding
from chaoslab.checks.verdict import Verdict
from chaoslab.cli.main import SUMMARIES, main
from chaoslab.diloco.model.task import Task
from chaoslab.faults.base import BaseFault, Fault, HasStrength
from chaoslab.faults.evidence.base import EvidenceCode
from chaoslab.faults.evidence.window import EvidenceWindow, Found
from chaoslab.fleet.settings import FleetSettings
from chaoslab.links.settings import LinksSettings
from chaoslab.plan.file import json_schema
from chaoslab.plan.model import Injection
from chaoslab.prepare.kinds import kinds
from chaoslab.pytest_plugin import ChaosRun
from chaoslab.record.history import History

Schema = Mapping[str, Any]


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of Markdown; bars in cells are escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


# ---------------------------------------------------------------- commands


def commands() -> str:
    """Every command: usage, description, options and examples, as `--help` has them."""
    root = click.Context(main, info_name="chaoslab")
    return "\n\n".join(
        section
        for name in SUMMARIES
        for section in _command(main.get_command(root, name), root, name)
    )


def _command(command: click.Command | None, above: click.Context, name: str) -> Iterator[str]:
    assert command is not None, name
    context = click.Context(command, above, info_name=name)
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    texts = [_paragraph(text) for text in _paragraphs(command.help)]
    options = (one for one in command.get_params(context) if isinstance(one, click.Option))
    records = (one.get_help_record(context) for one in options if "--help" not in one.opts)
    rows = [(f"`{option}`", " ".join(said.split())) for option, said in filter(None, records)]
    yield "\n\n".join([
        f"{'#' * (1 + context.command_path.count(' '))} {context.command_path}",
        f"```text\n{usage}\n```",
        *texts,
        *([table(("option", "effect"), rows)] if rows else []),
        *(_paragraph(text) for text in _paragraphs(command.epilog)),
    ])  # fmt: skip
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _command(command.get_command(context, inner), context, inner)


def _paragraphs(text: str | None) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", inspect.cleandoc(text or "")) if part.strip()]


def _paragraph(text: str) -> str:
    r"""A paragraph as Markdown; one that click leaves as it is (`\\b`) becomes a block."""
    if not text.startswith("\b"):
        return " ".join(text.split())
    head, *lines = text.removeprefix("\b").strip("\n").splitlines()
    return f"{head.strip()}\n\n```text\n{inspect.cleandoc(chr(10).join(lines))}\n```"


# ---------------------------------------------------------------- keys of plans


def plan_keys() -> str:
    """Every object of a plan, from its JSON Schema; faults and checks have pages of their own."""
    schema: Schema = json_schema(kinds())
    objects = _Objects(schema["$defs"])
    top = dict(schema["properties"].items())
    entry = objects.shared(_choices(top["faults"]["items"]))
    sections = [
        f"### The plan\n\n{objects.keys(top, schema.get('required', ()), '')}",
        *objects.below(top, ""),
        (
            "### `faults[]`\n\nAn entry of `faults`. Beside these keys it has the "
            "[settings of its fault](faults.md#catalogue).\n\n"
            f"{objects.keys(entry, (), 'faults[]')}"
        ),
        *objects.below(entry, "faults[]"),
        (
            "### `expect[]`\n\nAn entry of `expect`: `check`, the name of a check, and its "
            "[settings](verdict.md#checks)."
        ),
    ]
    return "\n\n".join(sections)


class _Objects:
    """The objects of a schema; each is shown once, below the first key that holds it."""

    def __init__(self, defs: Mapping[str, Schema]) -> None:
        self._defs, self._shown = defs, set[str]()

    def shared(self, names: Sequence[str]) -> Schema:
        """The keys that all of these objects have, as the first has them."""
        first, *rest = (self._defs[name]["properties"] for name in names)
        return {key: one for key, one in first.items() if all(key in other for other in rest)}

    def keys(self, properties: Schema, required: Sequence[str], path: str) -> str:
        """The table of an object's keys."""
        rows = [
            (
                f"`{key}`",
                self._value(one, f"{path}.{key}".lstrip(".")),
                "required" if key in required else _default(one),
                _FAULT_KEY if (path, key) == ("faults[]", "fault") else self._said(one),
            )
            for key, one in properties.items()
        ]
        return table(("key", "value", "default", "meaning"), rows)

    def below(self, properties: Schema, path: str) -> Iterator[str]:
        """A section for each key that holds an object, with the objects that it may be."""
        for key, one in properties.items():
            here = f"{path}.{key}".lstrip(".")
            names = [name for name in _refs(one) if name not in self._shown]
            self._shown |= {*names}
            if names:
                yield f"{'#' * (3 + here.count('.'))} `{here}`"
            for name in names:
                found = self._defs[name]
                yield "\n\n".join(filter(None, [
                    found.get("description", ""),
                    self.keys(found["properties"], found.get("required", ()), here),
                ]))  # fmt: skip
                yield from self.below(found["properties"], here)

    def _said(self, schema: Schema) -> str:
        named = [self._defs[name].get("description", "") for name in _refs(schema)]
        said = schema.get("description") or (named[0] if len(named) == 1 else "")
        return " ".join(said.partition("\n\n")[0].split())

    def _value(self, schema: Schema, path: str) -> str:
        if path == "faults[].fault":
            return "[name](faults.md#catalogue)"
        keys = f"[keys](#{re.sub(r'[^a-z_]', '', path)})"
        return ", ".join(dict.fromkeys(self._kinds(schema, keys))) or "names and values"

    def _kinds(self, schema: Schema, keys: str) -> Iterator[str]:
        """Every form that a value may have; `keys` stands for an object."""
        for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from self._kinds(choice, keys)
        if "$ref" in schema:
            yield keys
        elif "const" in schema:
            yield f"`{str(schema['const']).lower()}`"
        elif "enum" in schema:
            yield from (f"`{one}`" for one in schema["enum"])
        elif schema.get("type") == "array":
            items = dict.fromkeys(self._kinds(schema["items"], keys))
            yield f"list of {' or '.join(items) or keys}"
        elif "examples" in schema:
            yield f"such as {', '.join(f'`{one}`' for one in schema['examples'][:2])}"
        elif "pattern" in schema:
            if not schema["pattern"].startswith(r"\$\{"):  # a variable can stand for anything
                yield "name"
        elif schema.get("type") != "object" and isinstance(schema.get("type"), str):
            yield _WORDS.get(schema["type"], schema["type"])


_WORDS = {"string": "text", "boolean": "`true` or `false`"}
_FAULT_KEY = "What is done to the targets."


def _refs(schema: Schema) -> list[str]:
    """Names of the objects that a value can be; not those of a catalogue."""
    if "$ref" in schema:
        return [schema["$ref"].rpartition("/")[2]]
    if schema.get("discriminator", {}).get("propertyName") in {"fault", "check"}:
        return []
    parts = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    parts += [schema["items"]] if isinstance(schema.get("items"), dict) else []
    return [name for part in parts for name in _refs(part)]


def _choices(schema: Schema) -> list[str]:
    return [one["$ref"].rpartition("/")[2] for one in schema["oneOf"]]


def _default(schema: Schema) -> str:
    value = schema.get("default")
    if value is None or isinstance(value, dict) or value in ("", []):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# ---------------------------------------------------------------- verdict.json


def verdict_fields() -> str:
    """Every field of verdict.json, those of its objects below them."""
    return table(("field", "type", "meaning"), [*_fields(verdict.schema(), "")])


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, ...]]:
    for name, one in schema.get("properties", {}).items():
        here, said = f"{path}{name}", _flat(str(one.get("description", "")))
        said = re.sub(r"\bNone\b", "null", said)
        values = ", ".join(f"`{value}`" for value in _values(one))
        said = f"{said} {'One of ' if ',' in values else ''}{values}{'.' if values else ''}".strip()
        yield f"`{here}`", _json_type(one), said
        yield from _fields(one, f"{here}.")
        yield from _fields(one.get("items", {}), f"{here}[].")
        inner = one.get("additionalProperties")
        yield from _fields(inner if isinstance(inner, dict) else {}, f"{here}.*.")


def _values(schema: Schema) -> Sequence[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def _json_type(schema: Schema) -> str:
    of_values = {"integer" if isinstance(one, int) else "string" for one in _values(schema)}
    kind = schema.get("type", next(iter(of_values), "any"))
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


# ---------------------------------------------------------------- Python API


API: Mapping[str, tuple[type, ...]] = {
    "Gates in tests": (ChaosRun, Verdict, Finding),
    "Records": (History,),
    "Faults": (Fault, BaseFault, HasStrength, Injection, EvidenceWindow, Found, EvidenceCode),
    "Checks": (Check,),
    "Fleets and links": (FleetSettings, LinksSettings),
    "Training": (Task,),
}
"""What users import, by what they do with it."""


def python_api() -> str:
    """Every class of `API`: where it is, what it says of itself, its fields and methods."""
    return "\n\n".join(
        part for title, kinds_ in API.items() for part in (f"## {title}", *map(_class, kinds_))
    )


def _class(kind: type) -> str:
    (found,) = ast.parse(inspect.getsource(kind)).body
    body = cast("ast.ClassDef", found).body
    rows = [
        (f"`{name}`", f"`{ast.unparse(node.annotation)}`", said)
        for node, after in pairwise([*body, ast.Pass()])
        if isinstance(node, ast.AnnAssign) and (name := ast.unparse(node.target))[0] != "_"
        for said in [said_below(after)]
    ]
    methods = [
        f"- `{_signature(node)}`: {_flat(ast.get_docstring(node))}"
        for node in body
        if isinstance(node, ast.FunctionDef) and _is_shown(node)
    ]
    return "\n\n".join(filter(None, [
        f"### {kind.__name__}",
        f"```python\nfrom {kind.__module__} import {kind.__name__}\n```",
        _text(ast.get_docstring(cast("ast.ClassDef", found))),
        table(("field", "type", "meaning"), rows) if rows else "",
        "\n".join(methods),
    ]))  # fmt: skip


def _is_shown(node: ast.FunctionDef) -> bool:
    is_overload = any(ast.unparse(one) == "overload" for one in node.decorator_list)
    return not is_overload and (node.name[0] != "_" or node.name == "__call__")


def _signature(node: ast.FunctionDef) -> str:
    if any(ast.unparse(one) == "property" for one in node.decorator_list):
        return f"{node.name}: {_annotation(node)}"
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix("cls").removeprefix(", ")
    return f"{node.name}({arguments}) -> {_annotation(node)}"


def _annotation(node: ast.FunctionDef) -> str:
    return ast.unparse(node.returns).strip("'") if node.returns else "None"


def said_below(node: ast.stmt | None) -> str:
    """The docstring below a field or a member."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return _flat(str(node.value.value))
    return ""


def _flat(text: str | None) -> str:
    return " ".join((text or "").split())


def _text(docstring: str | None) -> str:
    return "\n\n".join(_flat(part) for part in (docstring or "").split("\n\n"))
