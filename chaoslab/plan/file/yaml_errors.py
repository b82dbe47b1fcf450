"""Mistakes in YAML, in words of what was written: indentation, braces, tabs, colons, commas.

MarkedYAMLError + text ─► explained ─► the place, and what to write instead
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

_SPACES = re.compile(" *")


class Explained(NamedTuple):
    """Line and column are counted from 0, and None where the parser names no place."""

    line: int | None
    column: int
    text: str


def explained(error: MarkedYAMLError, text: str) -> Explained:
    """Mistake, and what to write; the parser's own words for an uncommon one.

    Places in the text are found by index: the parser counts some line separators only at times.
    """
    mark = error.problem_mark or error.context_mark
    said = str(error.problem or error.context)
    if mark is None:
        return Explained(None, 0, f"invalid YAML: {said}")
    if text[mark.index : mark.index + 1] == "\t":
        told = "a tab cannot indent, use spaces"
        return Explained(mark.line, mark.column, f"invalid YAML: {told}")
    begun = error.context_mark
    if "expected ',' or" in said and begun is not None:
        bracket = text[begun.index]
        closing = {"{": "}", "[": "]"}.get(bracket, bracket)
        told = (
            f"the `{bracket}` of line {begun.line + 1} is not closed before this: "
            f"a `,` or the `{closing}` is missing"
        )
    elif "expected <block end>" in said and begun is not None:
        told = (
            f"begins in column {mark.column + 1}, and what it belongs to (line {begun.line + 1}) "
            f"in column {begun.column + 1}: indent keys of one mapping, and `-` of one list, alike"
        )
    elif "mapping values are not allowed" in said:
        told = _unexpected_colon(text.split("\n"), text.count("\n", 0, mark.index))
    else:
        told = said
    hint = "; inside braces, ${…} needs quotes" if "${" in text else ""
    return Explained(mark.line, mark.column, f"invalid YAML: {told}{hint}")


def _unexpected_colon(lines: Sequence[str], number: int) -> str:
    """A key below a value that is complete, or text with a colon in it."""
    before = [at for at in range(number) if lines[at].strip() and lines[at].lstrip()[0] != "#"]
    if before and _indent(lines[number]) > _indent(lines[before[-1]]):
        return (
            f"is indented deeper than line {before[-1] + 1}, which has a value already: begin it "
            f"in column {_column_of_keys(lines[before[-1]]) + 1}, as the key before it"
        )
    return 'a value with `: ` in it needs quotes: key: "text: more text"'


def _indent(line: str) -> int:
    found = _SPACES.match(line)
    return found.end() if found else 0


def _column_of_keys(line: str) -> int:
    """Column of the first key of a line, after the `- ` of a list."""
    return len(line) - len(line.lstrip(" -"))


def decimal_comma(node: MappingNode, at: int) -> str | None:
    """`2.5` if entry `at` and the one before it are what `{loss: 2,5}` is read as."""
    if not node.flow_style or at == 0:
        return None
    (_, whole), (fraction, nothing) = node.value[at - 1], node.value[at]
    if not (_is_digits(whole) and _is_digits(fraction) and _is_empty(nothing)):
        return None
    return f"{whole.value}.{fraction.value}"


def _is_digits(node: Node) -> bool:
    return isinstance(node, ScalarNode) and str(node.value).isdecimal() and not node.style


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and not node.value and not node.style
