"""Variables of a plan: `${vars.outage}` with typed defaults, `${env:TOKEN}` for secrets, and
`${env.public:RACK}` for what the environment says and is no secret.

    vars:
      outage: 6s                                      # type taken from what is written
      victims: {type: percentage, default: 50%, description: how many learners die}

A text that is nothing but one reference becomes the value, number or text; inside a longer text the
value is written out. What comes from the environment is always text. A secret appears in no error
and in no file that the harness writes; a value that is too short or too plain to be hidden is
refused: see `secrets`.
"""

import re
from collections.abc import Mapping
from typing import Final

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.core.secrets import why_not_hidden
from chaoslab.plan.file.document import Branch, Document, Tree, nearest

KEYS: Final = ("type", "default", "description")
QUANTITIES: Final[Mapping[str, units.Quantity[float] | units.Quantity[int]]] = {
    quantity.name: quantity
    for quantity in (
        units.DURATION, units.SIZE, units.RATE, units.SHARE, units.COUNT, units.FACTOR,
    )
}  # fmt: skip
TYPES: Final[tuple[str, ...]] = (*QUANTITIES, "number", "text")
"""Types of variables."""

REFERENCE: Final[dict[str, Tree]] = {"type": "string", "pattern": r"\$\{.+\}"}
"""JSON Schema of a variable, which may stand for any value."""

_REFERENCE = re.compile(r"\$\{([^}]*)\}")


def interpolate(document: Document) -> None:
    """Replace every reference in place and take `vars` out of the tree."""
    variables = document.tree.pop("vars", {})
    if not isinstance(variables, dict):
        document.add_problem(
            ("vars",), "must be a mapping of names to defaults, such as {outage: 5s}"
        )
        variables = {}
    values: dict[str, Tree] = {}
    for name, entry in variables.items():
        values[name] = _default(document, name, entry)
    for key in list(document.tree):
        document.tree[key] = _filled(document, (key,), document.tree[key], values)


def _default(document: Document, name: str, entry: Tree) -> Tree:
    """The value of one variable; its mistakes are noted."""
    branch: Branch = ("vars", name)
    if not isinstance(entry, dict):
        return _filled(document, branch, entry, {})
    for key in entry:
        if key not in KEYS:
            document.add_problem((*branch, key), nearest(key, KEYS, noun="key"), is_key=True)
    if "default" not in entry:
        document.add_problem(branch, f"has no default: add one, or --set vars.{name}=…")
        return None
    value = _filled(document, (*branch, "default"), entry["default"], {})
    kind = str(entry.get("type", "text" if isinstance(value, str) else "number"))
    if kind not in TYPES:
        document.add_problem((*branch, "type"), nearest(kind, TYPES, noun="type"))
    else:
        _check(document, (*branch, "default"), kind, value)
    return value


def _check(document: Document, branch: Branch, kind: str, value: Tree) -> None:
    if kind in QUANTITIES:
        try:
            QUANTITIES[kind].parse(str(value))
        except PlanError as error:
            document.add_problem(branch, error.message)
    elif kind == "text" and not isinstance(value, str):
        document.add_problem(branch, f"{value!r} is not text: put it in quotes")
    elif kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        document.add_problem(branch, f"{value!r} is not a number")


def _filled(document: Document, branch: Branch, tree: Tree, values: Mapping[str, Tree]) -> Tree:
    if isinstance(tree, dict):
        return {key: _filled(document, (*branch, key), part, values) for key, part in tree.items()}
    if isinstance(tree, list):
        return [_filled(document, (*branch, n), part, values) for n, part in enumerate(tree)]
    if not isinstance(tree, str):
        return tree
    whole = _REFERENCE.fullmatch(tree)
    if whole:
        return _referred(document, branch, whole[1], values)
    return _REFERENCE.sub(lambda found: str(_referred(document, branch, found[1], values)), tree)


def _referred(document: Document, branch: Branch, name: str, values: Mapping[str, Tree]) -> Tree:
    """Value of one reference; the reference itself if it has none."""
    kind, _, short = name.partition(":" if name.startswith("env") and ":" in name else ".")
    if kind in {"env", "env.public"} and document.environment is not None:
        value = document.environment.get(short, "")
        if not value:
            document.add_problem(
                branch, f"the environment variable {short} is not set: export {short}=…"
            )
        elif kind == "env.public":
            return value
        elif trouble := why_not_hidden(value):
            document.add_problem(
                branch,
                f"the value of {short} {trouble}, so it cannot be hidden in a record: use a longer "
                f"one of letters, digits and marks, or ${{env.public:{short}}} if it is not secret",
            )
        else:
            document.secret_values[short] = value
            return value
    elif kind in {"env", "env.public"}:
        return f"${{{name}}}"
    elif kind == "vars" and short in values:
        return values[short]
    elif kind == "vars":
        document.add_problem(branch, nearest(short, values, noun="variable"))
    else:
        document.add_problem(
            branch,
            f"unknown reference ${{{name}}}: write ${{vars.name}}, ${{env:NAME}} "
            "for a secret, or ${env.public:NAME}",
        )
    return f"${{{name}}}"
