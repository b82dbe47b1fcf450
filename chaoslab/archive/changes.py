"""Differences between two runs besides their results: seed, plan, code, machine.

run.json, plan.resolved.yaml, provenance of both ─► changes ─► (area, what, before, after), …
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.archive.index import PastRun
from chaoslab.core.events import Json
from chaoslab.plan.file.document import Tree, read
from chaoslab.plan.file.writing import one_line
from chaoslab.record.run_directory import RESOLVED_PLAN

_NAMES = ("id", "check", "name")
"""Keys by which the entries of a list in a plan are known."""
_OWN = frozenset({"seed", "version", "description"})
"""Keys of a plan that are told otherwise, or change nothing."""


class Area(StrEnum):
    """What a change is of."""

    SEED = "seed"
    PLAN = "plan"
    SCHEDULE = "schedule"
    CODE = "code"
    DATA = "data"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is not the same in both runs."""

    area: Area
    what: str
    before: str
    """Empty: it was not there, or is not known."""
    after: str


def changes(before: PastRun, after: PastRun) -> tuple[Change, ...]:
    """Everything that differs and is on record, by area."""
    facts = before.facts, after.facts
    seeds = {"seed": facts[0].get("seed")}, {"seed": facts[1].get("seed")}
    found = [
        *_different(Area.SEED, *seeds),
        *_schedule(before, after),
        *_different(Area.PLAN, {"fleet": facts[0].get("fleet")}, {"fleet": facts[1].get("fleet")}),
        *_parts(_plan(before), _plan(after), ""),
        *_different(Area.CODE, _code(before), _code(after)),
        *_different(Area.DATA, _digest(before, "data"), _digest(after, "data")),
        *_different(Area.MACHINE, before.machine, after.machine),
    ]
    return tuple(found)


def _schedule(before: PastRun, after: PastRun) -> Iterator[Change]:
    if before.facts.get("schedule_hash") != after.facts.get("schedule_hash"):
        yield _change(Area.SCHEDULE, "targets and times", "", "others")


def _different(
    area: Area, before: Mapping[str, Json], after: Mapping[str, Json]
) -> Iterator[Change]:
    for what in dict.fromkeys((*before, *after)):
        if before.get(what) != after.get(what):
            yield _change(area, what, before.get(what), after.get(what))


def _change(area: Area, what: str, before: Json, after: Json) -> Change:
    return Change(area=area, what=what, before=_text(before), after=_text(after))


def _text(value: Json) -> str:
    return "" if value is None else str(value)


def _code(run: PastRun) -> Mapping[str, Json]:
    """Commit and versions; where neither tells of a change that is there, the digest does."""
    versions = run.facts.get("versions")
    known = dict(versions) if isinstance(versions, Mapping) else {}
    return {"commit": run.commit, "sources": run.provenance().get("code"), **known}


def _digest(run: PastRun, part: str) -> Mapping[str, Json]:
    return {"digest": run.provenance().get(part)}


def _plan(run: PastRun) -> dict[str, Tree]:
    path = run.directory.path / RESOLVED_PLAN
    tree = read(path).tree if path.is_file() else {}
    return {key: part for key, part in tree.items() if key not in _OWN}


def _parts(before: Tree, after: Tree, key: str) -> Iterator[Change]:
    """What differs within a part of the plan; what only one has is told as a whole."""
    if before == after:
        return
    was, is_now = _inside(before, key), _inside(after, key)
    if was is None or is_now is None:
        yield _change(Area.PLAN, key, _line(before), _line(after))
        return
    for inner in dict.fromkeys((*was, *is_now)):
        yield from _parts(was.get(inner), is_now.get(inner), inner)


def _inside(tree: Tree, key: str) -> dict[str, Tree] | None:
    """The parts of a part by their dotted keys, entries of a list by their own names."""
    if isinstance(tree, dict):
        return {f"{key}.{name}" if key else name: part for name, part in tree.items()}
    if isinstance(tree, list) and all(isinstance(item, dict) for item in tree):
        return {f"{key}[{_name(item) or at}]": item for at, item in enumerate(tree)}
    return None


def _line(tree: Tree) -> str | None:
    return None if tree is None else one_line(tree)


def _name(item: Tree) -> str:
    names = (item.get(name) for name in _NAMES) if isinstance(item, dict) else ()
    return next((str(name) for name in names if name), "")
