"""Which records are removed, which never, and their removal."""

import errno
import os
from datetime import timedelta
from pathlib import Path

import pytest

from chaoslab.archive.cleanup import (
    Candidate,
    CleanUp,
    KeepReason,
    RemoveReason,
    Rules,
    by_plan,
    candidates,
    plan_cleanup,
    remove,
)
from chaoslab.archive.index import PastRun, index
from chaoslab.checks.base import Outcome
from chaoslab.core.errors import FleetError
from chaoslab.undo.log import UndoLogFile
from tests.archive.records import BEGAN, record

DAY_S = 86400.0
NOW = BEGAN + timedelta(days=100)
OLD = Rules(older_than_s=50 * DAY_S)


def of(root: Path, rules: Rules) -> CleanUp:
    return plan_cleanup(candidates(root, index(root), rules, NOW), rules)


def keep(root: Path, run: PastRun, rules: Rules = OLD) -> KeepReason | None:
    (found,) = (
        one for one in candidates(root, index(root), rules, NOW) if one.path == run.directory.path
    )
    return found.keep


def test_old_runs_go_but_the_newest_of_each_plan_and_the_failing_ones_stay(tmp_path: Path) -> None:
    passed = record(tmp_path, {"rejoin": 0.5}, day=1)
    failed = record(tmp_path, {"rejoin": -0.5}, day=2)
    unknown = record(tmp_path, {"rejoin": Outcome.UNKNOWN}, day=3)
    unjudged = record(tmp_path, day=4)
    newest = record(tmp_path, {"rejoin": 0.5}, day=5)
    assert of(tmp_path, Rules()).removed == (), "unasked"
    assert [one.path for one, _ in of(tmp_path, OLD).removed] == [passed.directory.path]
    for run in (failed, unknown, unjudged):
        assert keep(tmp_path, run) is KeepReason.FAILING
    assert keep(tmp_path, newest) is KeepReason.NEWEST
    assert len(of(tmp_path, Rules(older_than_s=50 * DAY_S, keeps_failing=False)).removed) == 4


def test_young_runs_and_the_last_n_stay(tmp_path: Path) -> None:
    for day in (1, 2, 3, 60, 61):
        record(tmp_path, {"rejoin": 0.5}, day=day)
    assert len(of(tmp_path, OLD).removed) == 3
    assert len(of(tmp_path, Rules(older_than_s=50 * DAY_S, keep_last=4)).removed) == 1


def test_a_run_that_goes_on_has_open_entries_or_is_foreign_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = record(tmp_path, {"rejoin": 0.5})
    record(tmp_path, {"rejoin": 0.5}, day=9)
    with UndoLogFile(run.directory.path) as log:
        assert keep(tmp_path, run) is KeepReason.RUNNING
        number = log.open("remove", path=str(tmp_path / "nothing"))
    assert keep(tmp_path, run) is KeepReason.OWES
    with UndoLogFile(run.directory.path) as log:
        log.close(number)
    assert keep(tmp_path, run) is None
    monkeypatch.setattr("chaoslab.archive.cleanup.is_owned", lambda _: False)
    assert keep(tmp_path, run) is KeepReason.OTHER_USER


def one(
    name: str,
    *,
    age_s: float,
    size: int,
    kept: KeepReason | None = None,
    plan: str | None = "kill_half",
) -> Candidate:
    return Candidate(
        path=Path(name), plan=plan, outcome=plan and Outcome.PASS, size_bytes=size, age_s=age_s,
        keep=kept,
    )  # fmt: skip


def test_by_size_the_oldest_go_until_the_rest_fits(tmp_path: Path) -> None:
    runs = [
        one("young", age_s=1, size=10),
        one("oldest", age_s=4, size=10, kept=KeepReason.FAILING),
        one("old", age_s=3, size=10),
        one("middle", age_s=2, size=10),
    ]
    found = plan_cleanup(runs, Rules(most_bytes=25))
    assert [(gone.path.name, why) for gone, why in found.removed] == [
        ("old", RemoveReason.SIZE), ("middle", RemoveReason.SIZE),
    ]  # fmt: skip
    assert (found.freed_bytes, found.kept_bytes) == (20, 20)
    assert plan_cleanup(runs, Rules(most_bytes=40)).removed == ()
    assert plan_cleanup(runs, Rules(most_bytes=0)).kept_bytes == 10


def test_records_are_summed_by_plan_the_largest_first() -> None:
    records = [
        one("a", age_s=9, size=10),
        one("b", age_s=1, size=10, kept=KeepReason.NEWEST),
        one("c", age_s=2, size=70, plan="slow_chip"),
        one("d", age_s=8, size=5, plan=None),
    ]
    slow, half, twins = by_plan(plan_cleanup(records, Rules(older_than_s=5)))
    assert (slow.plan, slow.records, slow.removed, slow.freed_bytes) == ("slow_chip", 1, 0, 0)
    assert (half.size_bytes, half.oldest_s, half.removed, half.freed_bytes) == (20, 9, 1, 10)
    assert half.outcomes == {Outcome.PASS: 2}
    assert (twins.plan, twins.removed, twins.outcomes) == (None, 1, {None: 1})


def test_a_kept_twin_goes_by_age_unless_it_is_in_the_making(tmp_path: Path) -> None:
    for name in ("0123456789abcdef", "89ab.partial-1234"):
        twin = tmp_path / ".twins" / name
        twin.mkdir(parents=True)
        (twin / "journal.jsonl").write_text("x" * 5000)
        os.utime(twin, (BEGAN.timestamp(),) * 2)
    ((gone, why),) = of(tmp_path, OLD).removed
    assert (gone.path.name, gone.is_twin, why) == ("0123456789abcdef", True, RemoveReason.AGE)
    assert gone.size_bytes >= 5000
    remove(gone)
    assert [path.name for path in (tmp_path / ".twins").iterdir()] == ["89ab.partial-1234"]


def test_what_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    path = record(tmp_path, {"rejoin": 0.5}).directory.path
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(FleetError, match=path.name):
        remove(one(str(path), age_s=1, size=1))
    assert path.is_dir()
    remove(one(str(tmp_path / "absent"), age_s=1, size=1))  # as another clean-up did
