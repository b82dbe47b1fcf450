"""Comparison of two runs: their findings side by side, and what changed in between.

before ─┬─ findings by name ─► Pair: outcome, margin, how much of the margin is gone
after  ─┘                          └─► worse │ unknown │ none
        └─ changes ─► seed, plan, code, machine: (area, what, before, after), …
           of run.json, plan.resolved.yaml and provenance of both
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.archive.index import PastRun, judged
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.pacing import NOISE
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Json
from chaoslab.plan.file.document import Tree, read
from chaoslab.plan.file.writing import one_line
from chaoslab.record.run_directory import RESOLVED_PLAN

_NAMES = ("id", "check", "name")
"""Keys by which the entries of a list in a plan are known."""
_OWN = frozenset({"seed", "version", "description"})
"""Keys of a plan that are told otherwise, or change nothing."""


class Area(StrEnum):
    """Area of a change."""

    SEED = "seed"
    PLAN = "plan"
    SCHEDULE = "schedule"
    CODE = "code"
    DATA = "data"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between the runs."""

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
    """Differences within a part of the plan; a part that only one has is one difference."""
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


class Regression(StrEnum):
    """Change of one finding."""

    NONE = "none"
    WORSE = "worse"
    UNKNOWN = "unknown"
    """It was PASS, and the later run does not decide it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One check in two runs; None where a run has no such finding."""

    check: str
    before: Finding | None
    after: Finding | None

    @property
    def change(self) -> float | None:
        """Increase of the margin; None unless both have one."""
        was, is_now = (None if one is None else one.margin for one in (self.before, self.after))
        return None if was is None or is_now is None else is_now - was

    @property
    def noises(self) -> tuple[float | None, float | None]:
        """Noise of the baseline that it compared with; None if it compares with none."""
        before, after = (
            one.numbers.get(NOISE) if one else None for one in (self.before, self.after)
        )
        return _number(before), _number(after)

    @property
    def is_broken(self) -> bool:
        """Whether the later run fails, or does not tell, where the earlier one did better."""
        was, is_now = _outcome(self.before), _outcome(self.after)
        return is_now is not was and (is_now is Outcome.FAIL or was is Outcome.PASS)

    def regression(self, max_drop: float) -> Regression:
        """Whether it is as good as before, when margins may fall by `max_drop`."""
        was, is_now = _outcome(self.before), _outcome(self.after)
        if is_now is Outcome.FAIL and was is not Outcome.FAIL:
            return Regression.WORSE
        if self.change is not None and -self.change > max_drop:
            return Regression.WORSE
        if was is Outcome.PASS and is_now is not Outcome.PASS:
            return Regression.UNKNOWN
        return Regression.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs side by side."""

    before: PastRun
    after: PastRun
    verdicts: tuple[Verdict, Verdict]
    pairs: tuple[Pair, ...]
    """Pairs in the order of the later run's verdict, then those of the earlier one alone."""
    changes: tuple[Change, ...]

    def exit_code(self, max_drop: float) -> ExitCode:
        """FAIL if anything got worse, UNKNOWN if the later run does not tell, else PASS."""
        found = {pair.regression(max_drop) for pair in self.pairs}
        if Regression.WORSE in found:
            return ExitCode.FAIL
        return ExitCode.UNKNOWN if Regression.UNKNOWN in found else ExitCode.PASS


def compare(before: PastRun, after: PastRun) -> Comparison:
    """Compare two judged runs, of one plan or of two. PlanError if one was never judged."""
    verdicts = judged(before), judged(after)
    was, is_now = (verdict.by_name for verdict in verdicts)
    names = dict.fromkeys((*is_now, *was))
    return Comparison(
        before=before,
        after=after,
        verdicts=verdicts,
        pairs=tuple(
            Pair(check=name, before=was.get(name), after=is_now.get(name)) for name in names
        ),
        changes=changes(before, after),
    )


def _number(value: Json) -> float | None:
    return value if isinstance(value, float) else None


def _outcome(finding: Finding | None) -> Outcome | None:
    return None if finding is None else finding.outcome
