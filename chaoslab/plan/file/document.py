"""The text of a plan: YAML with the place of every key and value, and the overrides of it.

    file ── read ──► Document ── override ──► Document
                     (plain tree + where each part of it was written)

YAML 1.2: `yes` and `no` are text. Duplicate keys, aliases, merge keys, tags and several documents
in one file are refused. Mistakes are collected as `Problem`s, so that a plan's author sees all of
them at once. Nothing here knows what the keys mean.
"""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from chaoslab.core.errors import PlanError
from chaoslab.core.regular_files import read_regular, read_written
from chaoslab.core.secrets import Secrets
from chaoslab.plan.file.yaml_errors import decimal_comma, explained

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"
Branch: TypeAlias = tuple[str | int, ...]
"""The way from the root to a part of the tree: ("faults", 0, "target")."""

Mistake: TypeAlias = tuple[Branch, str]
"""Branch to the key in the plan, and what to write instead."""

DEEPEST: Final = 50
"""More levels than these are refused: no plan has them, and reading them takes a stack."""
_LONGEST_NUMBER: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake: where it was written, the dotted key, and what to write instead.

    It is one line, whatever was written: what cannot be printed stands in it escaped.
    """

    where: str
    key: str
    text: str

    def __post_init__(self) -> None:
        for name in ("where", "key", "text"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    def position(self) -> tuple[int, ...]:
        """Line and column; () for what was not written in a file."""
        return tuple(int(part) for part in self.where.split(":")[-2:] if part.isdecimal())

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.where, self.key, self.text)))


@dataclass(slots=True, kw_only=True)
class Document:
    """A plan as it was written. Its parts are changed only by the functions of this module."""

    tree: dict[str, Tree]
    text: str = ""
    values: dict[Branch, str] = field(default_factory=dict)
    """file:line:column of each value."""
    keys: dict[Branch, str] = field(default_factory=dict)
    """file:line:column of each key."""
    problems: list[Problem] = field(default_factory=list)
    broken: set[Branch] = field(default_factory=set)
    """Values with a mistake: whatever else is wrong with them follows from it."""
    secret_values: dict[str, str] = field(default_factory=dict)
    """Name and value of each secret that was used."""
    environment: Mapping[str, str] | None = field(default_factory=lambda: os.environ)
    """Values of `${env:NAME}`; None: references stay as they are."""

    @property
    def secrets(self) -> Secrets:
        """Values that the plan takes from the environment, and that no record may show."""
        return Secrets(dict(self.secret_values))

    def where(self, branch: Branch, *, is_key: bool = False) -> str:
        """file:line:column of a part, or of the nearest part around it that was written."""
        if is_key and branch in self.keys:
            return self.keys[branch]
        while branch not in self.values:
            branch = branch[:-1]
        return self.values[branch]

    def add_problem(self, branch: Branch, text: str, *, is_key: bool = False) -> None:
        """Note a mistake; values of secrets in its text are replaced by their names."""
        text = self.secrets.text(text)
        where = self.where(branch, is_key=is_key)
        self.problems.append(Problem(where=where, key=dotted(branch), text=text))
        self.broken.add(branch)

    def note(self, mistake: PlanError) -> None:
        """Note a mistake of the plan as a whole, or all that it is made of."""
        for one in mistake.parts or (mistake,):
            if one.where or not one.key:
                where, text = one.where or self.where(()), self.secrets.text(one.message)
                self.problems.append(Problem(where=where, key="", text=text))
            else:
                way = (int(part) if part.isdecimal() else part for part in one.key.split("."))
                self.add_problem(tuple(way), one.message)

    def refuse(self, mistakes: Iterable[Mistake]) -> None:
        """PlanError with these mistakes and all noted before; nothing without any."""
        for branch, text in mistakes:
            self.add_problem(branch, text)
        if self.problems:
            raise self.error()

    def error(self) -> PlanError:
        """All mistakes as one PlanError with a line for each, in the order of the file."""
        self.problems.sort(key=Problem.position)
        return PlanError("\n".join(map(str, self.problems)))


def read(
    path: Path,
    *,
    noun: str = "plan",
    begins: str = "version: 1` and `name: …",
    is_record: bool = False,
) -> Document:
    """The document in a file; PlanError if it cannot be read or is not YAML.

    `noun` is what its author calls it, and `begins` how one begins. A user may name a pipe, a
    record holds none.
    """
    try:
        text = (read_regular if is_record else read_written)(path).decode("utf-8")
    except OSError as error:
        raise PlanError(f"the {noun} cannot be read: {error}", where=str(path)) from error
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8").split("\n")
        raise PlanError(
            f"the {noun} cannot be read, because byte {error.object[error.start]:#04x} is not "
            "UTF-8: save the file as UTF-8",
            where=f"{path}:{len(before)}:{len(before[-1]) + 1}",
        ) from error
    document = Document(tree={}, text=text, values={(): f"{path}:1:1"})
    tree = _Reader(document, str(path)).tree(text, ())
    if not isinstance(tree, dict):
        if not document.problems:
            article = "an" if noun[0] in "aeiou" else "a"
            document.add_problem(
                (), f"{article} {noun} must be a mapping that begins with `{begins}`"
            )
        raise document.error()
    document.tree = tree
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Override of one key on the command line, and how it was typed."""

    setting: str
    """`key=value`, such as training.learners=8; items of lists by number or by `id`."""
    label: str
    """The option as it was typed, which errors name."""


def override(document: Document, given: Override) -> None:
    """Apply it."""
    setting, label = given.setting, given.label
    key, found, text = setting.partition("=")
    branch, problem = _locate(document.tree, key.split("."))
    if len(branch) > DEEPEST:
        problem = f"is nested more than {DEEPEST} levels deep"
        key = f"{key[:20]}…"
    if not found or problem:
        example = "write it as key=value, for example training.learners=8"
        document.problems.append(Problem(where=label, key=key, text=problem or example))
        return
    for places in (document.values, document.keys):
        for old in [way for way in places if way[: len(branch)] == branch]:
            del places[old]
        for length in range(1, len(branch) + 1):
            places.setdefault(branch[:length], label)
    problems_before = len(document.problems)
    value = _Reader(document, label, has_lines=False).tree(text, branch)
    if value is None and len(document.problems) == problems_before:
        document.add_problem(branch, "has no value: write key=value")
    _put(document.tree, branch, value)


def dotted(branch: Branch) -> str:
    """`faults[0].target` for ("faults", 0, "target")."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in branch)
    return text.removeprefix(".")


def printable(text: str) -> str:
    """The text with line breaks, control characters and lone surrogates as Python escapes them."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def nearest(
    name: str,
    known: Iterable[str],
    *,
    noun: str,
    lists_all: bool = False,
    likely: Iterable[str] = (),
) -> str:
    """Replacement for an unknown name: the most similar one, all there are, or both.

    One of the `likely` names is preferred if it is similar at all; of names such as `region.kill`,
    those of the same family; beside the only one of a family, the like of another.
    """
    names = sorted(known)
    kind, dot, _ = name.partition(".")
    family = [one for one in names if dot and one.startswith(f"{kind}.")]
    similar = difflib.get_close_matches(name, sorted(likely), n=1)
    similar = similar or _nearest_in(family, name)
    if not similar and len(family) == 1:
        similar = [*family, *_like_in_others(names, name)]
    names = family or names
    similar = similar or ([] if family else difflib.get_close_matches(name, names, n=1))
    hint = f"; did you mean {' or '.join(f'`{one}`' for one in similar)}?" if similar else ""
    is_listed = lists_all or not similar
    there = f"{'' if hint else ';'} known: {', '.join(names) or 'none'}" if is_listed else ""
    missing = " (is its package installed?)" if noun in _FROM_PACKAGES and not similar else ""
    return f"unknown {noun} `{name}`{missing}{hint}{there}"


def _nearest_in(family: Sequence[str], name: str) -> list[str]:
    """Nearest names by the part after the dot: a common beginning suffices."""
    by_rest = {one.partition(".")[2]: one for one in family}
    return [by_rest[one] for one in difflib.get_close_matches(name.partition(".")[2], by_rest, n=1)]


def _like_in_others(names: Sequence[str], name: str) -> list[str]:
    """Names with the same word after the dot, in the family of the most similar name."""
    alike = [one for one in names if one.endswith(name[name.index(".") :])]
    return difflib.get_close_matches(name, alike, n=1, cutoff=0.0)


_FROM_PACKAGES = {"fleet", "kind of links", "fault", "check"}
"""Nouns of what other packages can add to."""


# ---------------------------------------------------------------- YAML to a plain tree


_TAGS = {"map", "seq", "str", "int", "float", "bool", "null", "timestamp", "value", "merge"}
"""Tags of plain nodes in YAML; the last three are read as text."""


class _Reader:
    """Turns YAML nodes into plain values and notes where each was written."""

    def __init__(self, document: Document, file: str, *, has_lines: bool = True) -> None:
        self.document = document
        self.file = file
        self.has_lines = has_lines
        self._seen: set[int] = set()

    def tree(self, text: str, branch: Branch) -> Tree:
        """The plain value of a YAML text that stands at `branch`."""
        try:
            if self._is_too_deep(text, branch):
                return None
            node = YAML(typ="safe", pure=True).compose(text)
        except MarkedYAMLError as error:
            found = explained(error, text)
            self.document.values[branch] = (
                self.file if found.line is None else self._place(found.line, found.column)
            )
            self.document.add_problem(branch, found.text)
            return None
        except YAMLError as error:
            self.document.add_problem(branch, f"invalid YAML: {error}")
            return None
        self.document.values[branch] = self._place(0, 0)
        return None if node is None else self._value(node, branch)

    def _is_too_deep(self, text: str, branch: Branch) -> bool:
        """Blame what is nested too deep; unlike nodes, events are read without recursion."""
        depth = len(branch)
        for event in YAML(typ="safe", pure=True).parse(text):
            depth += isinstance(event, CollectionStartEvent)
            depth -= isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:
                mark = event.start_mark
                self.document.values[branch] = self._place(mark.line, mark.column)
                self.document.add_problem(branch, f"is nested more than {DEEPEST} levels deep")
                return True
        return False

    def _place(self, line: int, column: int) -> str:
        return f"{self.file}:{line + 1}:{column + 1}" if self.has_lines else self.file

    def _value(self, node: Node, branch: Branch) -> Tree:
        self.document.values[branch] = self._place(node.start_mark.line, node.start_mark.column)
        if id(node) in self._seen:
            self.document.add_problem(branch, "YAML aliases (*name) are not supported: use `vars:`")
            return None
        self._seen.add(id(node))
        tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
        if tag not in _TAGS:
            self.document.add_problem(branch, f"YAML tag {node.tag} is not supported: remove it")
            return None
        if isinstance(node, SequenceNode):
            return [self._value(item, (*branch, n)) for n, item in enumerate(node.value)]
        if isinstance(node, MappingNode):
            return self._mapping(node, branch)
        return self._scalar(tag, str(node.value), branch)

    def _mapping(self, node: MappingNode, branch: Branch) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for number, (key_node, value_node) in enumerate(node.value):
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else "?"
            way = (*branch, key)
            place = self._place(key_node.start_mark.line, key_node.start_mark.column)
            if key in found:
                text = f"is written twice, first at {self.document.keys[way]}: keep one"
                self.document.problems.append(Problem(where=place, key=dotted(way), text=text))
                continue
            if number_meant := decimal_comma(node, number):
                before = (*branch, next(reversed(found)))
                comma = number_meant.replace(".", ",")
                text = f"`{comma}` is read as two entries: write `{number_meant}`"
                self.document.add_problem(before, text)
                continue
            self.document.keys[way] = place
            found[key] = self._value(value_node, way)
        return found

    def _scalar(self, tag: str, text: str, branch: Branch) -> Tree:
        if tag == "null":
            key, space, value = str(branch[-1] if branch else "").partition(" ")
            meant = f"`{key}: {value}`, with a colon" if space else "one, or remove the key"
            self.document.add_problem(branch, f"has no value: write {meant}", is_key=True)
        elif tag == "bool":
            return text.lower() == "true"
        elif tag == "int":
            if len(text) > _LONGEST_NUMBER:
                self.document.add_problem(branch, f"a number of {len(text)} characters is too long")
                return 0
            sign = -1 if text.startswith("-") else 1
            digits = text.lstrip("+-").replace("_", "")
            return sign * int(digits, 0 if digits[:2] in {"0x", "0o", "0b"} else 10)
        elif tag == "float":
            return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
        return text


# ---------------------------------------------------------------- overrides


def _locate(tree: Tree, names: Sequence[str]) -> tuple[Branch, str]:
    """The branch that a dotted key means, or what is wrong with it."""
    branch: Branch = ()
    for name in names:
        if isinstance(tree, list):
            ids = [_id_of(item) for item in tree]
            place = int(name) if name.isdecimal() else ids.index(name) if name in ids else len(ids)
            if place >= len(ids):
                known = [*filter(None, ids)] or [*map(str, range(len(ids)))]
                return branch, nearest(name, known, noun=f"entry of `{dotted(branch)}`")
            branch, tree = (*branch, place), tree[place]
        elif isinstance(tree, dict):
            branch, tree = (*branch, name), tree.get(name, {})
        else:
            return branch, f"`{dotted(branch)}` is {tree!r}, not a mapping"
    if names[0] == "vars" and len(branch) == 2 and isinstance(tree, dict) and tree:
        branch = (*branch, "default")  # of a variable that is written out, set the default alone
    return branch, "" if all(names) else "write it as key=value, for example training.learners=8"


def _id_of(item: Tree) -> str:
    """Name of a list's entry: its `id`, or the name of a check; empty for others."""
    return str(item.get("id") or item.get("check") or "") if isinstance(item, dict) else ""


def _put(tree: Tree, branch: Branch, value: Tree) -> None:
    """Set the value at a branch that `_locate` found; mappings on the way are made."""
    for part, following in zip(branch, (*branch[1:], None), strict=True):
        new: Tree = value if following is None else {}
        if isinstance(tree, list) and isinstance(part, int):
            tree[part] = value if following is None else tree[part]
            tree = tree[part]
        elif isinstance(tree, dict) and isinstance(part, str):
            tree[part] = value if following is None else tree.get(part, new)
            tree = tree[part]
