"""The index of the runs below a folder."""

from pathlib import Path

import pytest

from chaoslab.archive.index import PastRun, index, judged, plans
from chaoslab.checks.base import Outcome
from chaoslab.core.errors import FleetError, PlanError
from tests.archive.records import BEGAN, CODE, PLAN, record


def test_runs_are_found_the_newest_first_and_by_plan(tmp_path: Path) -> None:
    for day, plan in enumerate(("kill_half", "pause_one", "kill_half")):
        record(tmp_path, {"rejoin": 0.5}, plan=plan, day=day)
    assert [run.plan for run in index(tmp_path)] == ["kill_half", "pause_one", "kill_half"]
    assert len(index(tmp_path, "kill_half")) == 2
    assert list(plans(index(tmp_path))) == ["kill_half", "pause_one"]


def test_what_is_known_of_a_run_is_read_without_its_journal(tmp_path: Path) -> None:
    run = record(tmp_path, {"rejoin": 0.5}, git={"commit": "beef", "has_changes": True})
    assert run.outcome is Outcome.PASS
    assert run.is_pass
    assert (run.started, run.commit) == (BEGAN, "beef+")
    assert run.provenance() == CODE


def test_a_run_that_died_at_once_is_listed_and_says_nothing(tmp_path: Path) -> None:
    run = record(tmp_path)
    (run.directory.path / "run.json").write_text("{}")
    (run.directory.path / "journal.jsonl").write_text("")
    found = PastRun.of(run.directory)
    assert (found.outcome, found.started, found.commit) == (None, None, None)
    assert found.provenance() == {}
    with pytest.raises(PlanError, match="--judge"):
        judged(found)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_damaged_run_json_is_named_and_hides_no_other_run(tmp_path: Path, text: str) -> None:
    run, other = record(tmp_path, {"rejoin": 0.5}), record(tmp_path, {"rejoin": 0.5}, day=1)
    (run.directory.path / "run.json").write_text(text)
    fine, damaged = index(tmp_path)
    assert (fine, damaged.directory) == (other, run.directory)
    assert f"{run.directory.path / 'run.json'} cannot be read: " in damaged.damage
    assert (damaged.outcome, damaged.is_pass, damaged.started) == (None, False, None)
    with pytest.raises(FleetError, match=r"run\.json"):
        PastRun.of(run.directory)


def test_the_version_of_a_plan_is_that_of_all_but_its_seed(tmp_path: Path) -> None:
    one = record(tmp_path)
    other_seed = record(tmp_path, text=PLAN.replace("seed: 1", "seed: 22"))
    other_plan = record(tmp_path, text=PLAN.replace("5s", "6s"))
    assert one.plan_version() == other_seed.plan_version() != other_plan.plan_version()
