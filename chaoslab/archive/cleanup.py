"""Clean-up of records: which runs to remove by age and size, and their removal.

    runs ─► kept for good: running, with open undos, another user's, failing, the newest of a plan
        └─► of the others: too old, or the oldest beyond the size ─► CleanUp ─► remove
                                                                        └─► by_plan: sums

`plan_cleanup` decides and changes nothing.
"""

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from chaoslab.archive.index import PastRun, plans
from chaoslab.checks.base import Outcome
from chaoslab.core.errors import FleetError
from chaoslab.run.twin import TWINS
from chaoslab.undo.harness import is_in_progress
from chaoslab.undo.log import is_owned, may_have_open_undos

_BLOCK_BYTES = 512
_GOING = ".removing-"


class KeepReason(StrEnum):
    """Reason for which a run is kept in any case."""

    RUNNING = "running"
    OWES = "with something to undo (chaoslab heal)"
    OTHER_USER = "another user's"
    FAILING = "not PASS"
    NEWEST = "among the newest of its plan"


class RemoveReason(StrEnum):
    """Reason for a removal."""

    AGE = "too old"
    SIZE = "beyond the size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules of removal. Without an age and a size, nothing is removed."""

    older_than_s: float | None = None
    most_bytes: int | None = None
    """Size of all records together: the oldest removable ones go until the rest fits."""
    keep_last: int = 1
    """Least number of runs of each plan that stay; `latest` always leads somewhere."""
    keeps_failing: bool = True

    @property
    def has_bounds(self) -> bool:
        """Whether there is an age or a size by which anything goes."""
        return self.older_than_s is not None or self.most_bytes is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A run, or a kept twin, with its size on disk."""

    path: Path
    plan: str | None
    """Name of the plan; None for a kept twin: those of all plans lie together."""
    outcome: Outcome | None
    """Outcome of its verdict; None without one."""
    size_bytes: int
    age_s: float
    keep: KeepReason | None

    @property
    def is_twin(self) -> bool:
        """Whether it is a kept twin."""
        return self.plan is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUp:
    """Removable records, the oldest first, and those that stay."""

    removed: tuple[tuple[Candidate, RemoveReason], ...]
    kept: tuple[Candidate, ...]

    @property
    def freed_bytes(self) -> int:
        """Bytes on disk that would be freed."""
        return sum(one.size_bytes for one, _ in self.removed)

    @property
    def kept_bytes(self) -> int:
        """Bytes on disk that would stay."""
        return sum(one.size_bytes for one in self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSum:
    """All records of one plan together, or all kept twins."""

    plan: str | None
    outcomes: Mapping[Outcome | None, int]
    """Number of records with each verdict."""
    size_bytes: int
    oldest_s: float
    removed: int
    freed_bytes: int

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(self.outcomes.values())


def by_plan(found: CleanUp) -> Sequence[PlanSum]:
    """Sums of each plan, the one with the most bytes first; kept twins are one more."""
    gone = {one.path for one, _ in found.removed}
    groups: dict[str | None, list[Candidate]] = {}
    for one in (*(one for one, _ in found.removed), *found.kept):
        groups.setdefault(one.plan, []).append(one)
    sums = [
        PlanSum(
            plan=plan,
            outcomes=Counter(one.outcome for one in records),
            size_bytes=sum(one.size_bytes for one in records),
            oldest_s=max(one.age_s for one in records),
            removed=sum(one.path in gone for one in records),
            freed_bytes=sum(one.size_bytes for one in records if one.path in gone),
        )
        for plan, records in groups.items()
    ]
    return sorted(sums, key=lambda one: -one.size_bytes)


def plan_cleanup(found: Iterable[Candidate], rules: Rules) -> CleanUp:
    """Decide by age, then by size."""
    kept, removed = [], list[tuple[Candidate, RemoveReason]]()
    for one in sorted(found, key=lambda one: -one.age_s):
        is_old = rules.older_than_s is not None and one.age_s > rules.older_than_s
        if is_old and one.keep is None:
            removed.append((one, RemoveReason.AGE))
        else:
            kept.append(one)
    size = sum(one.size_bytes for one in kept)
    for one in tuple(kept) if rules.most_bytes is not None else ():
        if size <= (rules.most_bytes or 0):
            break
        if one.keep is None:
            kept.remove(one)
            removed.append((one, RemoveReason.SIZE))
            size -= one.size_bytes
    return CleanUp(removed=tuple(removed), kept=tuple(kept))


def candidates(
    root: Path, runs: Sequence[PastRun], rules: Rules, now: datetime
) -> Iterator[Candidate]:
    """Every run below `root`, given the newest first, and every kept twin."""
    for of_plan in plans(runs).values():
        for place, run in enumerate(of_plan):
            path, age_s = run.directory.path, run.age_s(now)
            yield Candidate(
                path=path,
                plan=run.plan,
                outcome=run.outcome,
                size_bytes=size_of(path),
                age_s=_changed_s(path, now) if age_s is None else age_s,
                keep=_keep(run, rules, is_newest=place < rules.keep_last),
            )
    for twin in sorted((root / TWINS).glob("*")):
        if "." not in twin.name and twin.is_dir() and not twin.is_symlink():  # else: in the making
            yield Candidate(
                path=twin, plan=None, outcome=None, size_bytes=size_of(twin),
                age_s=_changed_s(twin, now), keep=None,
            )  # fmt: skip


def _keep(run: PastRun, rules: Rules, *, is_newest: bool) -> KeepReason | None:
    path = run.directory.path
    if not is_owned(path):
        return KeepReason.OTHER_USER
    if is_in_progress(path):
        return KeepReason.RUNNING
    if may_have_open_undos(path):
        return KeepReason.OWES
    if is_newest:
        return KeepReason.NEWEST
    return KeepReason.FAILING if rules.keeps_failing and not run.is_pass else None


def size_of(folder: Path) -> int:
    """Bytes on disk of everything in a folder; links are not followed."""
    size = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
            if entry.is_dir(follow_symlinks=False):
                size += size_of(Path(entry.path))
    return size


def _changed_s(folder: Path, now: datetime) -> float:
    """Seconds since anything was last made or removed in it."""
    return (now - datetime.fromtimestamp(folder.stat().st_mtime, UTC)).total_seconds()


# ---------------------------------------------------------------- removal


def remove(one: Candidate) -> None:
    """Remove it. It vanishes from all lists at once, so that nothing sees a part of a record.

    What is gone already, as by another clean-up at the same time, is removed. FleetError, which
    names what is left, if the disk or another user's file is in the way.
    """
    going = one.path.with_name(f"{_GOING}{secrets.token_hex(4)}")
    try:
        one.path.rename(going)
        shutil.rmtree(going)
    except OSError as error:
        if not (going.exists() or one.path.exists()):
            return
        left = going if going.exists() else one.path
        raise FleetError(f"{one.path} cannot be removed whole ({error}); left is {left}") from error
