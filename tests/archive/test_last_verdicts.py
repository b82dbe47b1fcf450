"""What the last verdict of each plan is worth now."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chaoslab.archive.index import index
from chaoslab.archive.last_verdicts import (
    CodeOf,
    LastVerdict,
    State,
    code_here,
    last_verdicts,
    worst,
)
from chaoslab.checks.base import Outcome
from chaoslab.core.errors import ExitCode
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.report.files import VERDICT_JSON
from chaoslab.run.judged_run import run_and_judge
from chaoslab.undo.log import UndoLogFile
from tests.archive.records import BEGAN, CODE, PLAN, record

DAY_S = 86400.0


def now(
    root: Path, *, max_age_s: float | None = None, code_of: CodeOf | None = None
) -> LastVerdict:
    at = BEGAN + timedelta(days=10)
    (one,) = last_verdicts(index(root), at, max_age_s=max_age_s, code_of=code_of)
    return one


EXIT_CODES = {State.PASS: ExitCode.PASS, State.FAIL: ExitCode.FAIL}
PASSED, FAILED, OPEN = ({"found": {"rejoin": one}} for one in (0.5, -0.5, Outcome.UNKNOWN))


@pytest.mark.parametrize(
    ("records", "how", "state"),
    [
        ([FAILED, {**PASSED, "day": 1}], {}, State.PASS),
        ([PASSED, {**FAILED, "day": 1}], {}, State.FAIL),
        ([PASSED, {**OPEN, "day": 1}], {}, State.UNKNOWN),
        ([{**PASSED, "exit_code": 4}], {}, State.UNKNOWN),  # something was left behind
        ([{}], {}, State.NOT_JUDGED),
        ([PASSED], {"max_age_s": 11 * DAY_S}, State.PASS),
        ([PASSED], {"max_age_s": 9 * DAY_S}, State.EXPIRED),
        ([FAILED], {"max_age_s": 9 * DAY_S}, State.FAIL),
        ([{**PASSED, "day": 20}], {"max_age_s": 11 * DAY_S}, State.PASS),  # dated ahead
        ([{**PASSED, "day": 20}], {"max_age_s": 9 * DAY_S}, State.EXPIRED),
        ([PASSED], {"code_of": lambda _: CODE}, State.PASS),
        ([PASSED], {"code_of": lambda _: {**CODE, "data": "moved"}}, State.PASS),
        ([PASSED], {"code_of": lambda _: {**CODE, "code": "beef"}}, State.OTHER_CODE),
        ([PASSED], {"code_of": lambda _: {**CODE, "versions": "2"}}, State.OTHER_CODE),
        ([PASSED], {"code_of": lambda _: None}, State.OTHER_CODE),
        ([{**PASSED, "code": {}}], {"code_of": lambda _: CODE}, State.OTHER_CODE),
    ],
)
def test_the_last_verdict_counts_while_it_is_young_and_of_the_same_code(
    tmp_path: Path, records: list[dict[str, Any]], how: dict[str, Any], state: State
) -> None:
    for one in records:
        record(tmp_path, **one)
    found = now(tmp_path, **how)
    assert (found.state, found.exit_code) == (state, EXIT_CODES.get(state, ExitCode.UNKNOWN))


def test_a_record_whose_journal_cannot_be_read_is_of_other_code(tmp_path: Path) -> None:
    journal = record(tmp_path, {"rejoin": 0.5}).directory.path / "journal.jsonl"
    journal.unlink()
    journal.mkdir()
    assert now(tmp_path, code_of=lambda _: CODE).state is State.OTHER_CODE


def test_a_simulated_pass_holds_on_the_same_code_whatever_computes(tmp_path: Path) -> None:
    plan = tmp_path / "quiet.yaml"
    plan.write_text(
        "version: 1\nname: quiet\ntraining: {learners: 2, stop: {rounds: 60}}\n"
        "baseline: {warmup: 2 rounds, window: 4 rounds}\nexpect: [{check: agreement}]\n"
    )
    run_and_judge(prepare(Asked(plan=str(plan), fleet="sim")), tmp_path / "runs")
    (run,) = index(tmp_path / "runs")
    here = code_here(run)
    assert here is not None

    def state(code: CodeOf) -> State:
        (one,) = last_verdicts([run], datetime.now(UTC), max_age_s=None, code_of=code)
        return one.state

    assert state(code_here) is State.PASS
    assert state(lambda _: {**here, "code": "beef"}) is State.OTHER_CODE
    assert state(lambda _: {**here, "costs": "others"}) is State.OTHER_CODE


def test_a_run_that_goes_on_hides_no_verdict_and_one_that_ended_without_any_does(
    tmp_path: Path,
) -> None:
    record(tmp_path, {"rejoin": 0.5, "continuity": 0.2})
    running = record(tmp_path, day=2)
    with UndoLogFile(running.directory.path):
        found = now(tmp_path)
    assert (found.state, found.is_running) == (State.PASS, True)
    assert found.tightest.check == "continuity"
    assert not now(tmp_path).is_running
    assert now(tmp_path).state is State.NOT_JUDGED


def states(root: Path) -> list[tuple[str, str, State]]:
    found = last_verdicts(index(root), BEGAN, max_age_s=None, code_of=None)
    return sorted((one.plan, one.fleet, one.state) for one in found)


def test_a_pass_on_another_fleet_or_of_other_settings_hides_no_fail(tmp_path: Path) -> None:
    record(tmp_path, {"rejoin": -0.5})
    record(tmp_path, {"rejoin": 0.5}, day=1, fleet="sim")
    record(tmp_path, {"rejoin": 0.5}, day=2, text=f"{PLAN}settle: 9s\n")
    record(tmp_path, {"rejoin": 0.5}, day=3, text=PLAN.replace("seed: 1", "seed: 2"), fleet="sim")
    assert states(tmp_path) == [
        ("kill_half", "local", State.FAIL), ("kill_half", "local", State.PASS),
        ("kill_half", "sim", State.PASS),
    ]  # fmt: skip
    found = last_verdicts(index(tmp_path), BEGAN, max_age_s=None, code_of=None)
    assert worst(found) is ExitCode.FAIL
    assert len({one.version for one in found}) == 2


def test_runs_of_an_older_plan_file_are_left_out_and_those_of_its_settings_stay(
    tmp_path: Path,
) -> None:
    def ran(source: str, resolved: str, day: int, *, is_pass: bool = True) -> None:
        found = {"rejoin": 0.5 if is_pass else -0.5}
        made = record(tmp_path, found, day=day, text=resolved)
        (made.directory.path / "plan.source.yaml").write_text(source)

    ran("old file", "old", 0, is_pass=False)
    ran("new file", "new", 1)
    assert states(tmp_path) == [("kill_half", "local", State.PASS)]
    ran("new file", "new, easier", 2)
    assert states(tmp_path) == [("kill_half", "local", State.PASS)] * 2
    ran("new, easier", "new, easier", 3)  # a replay, whose file is the record of another
    assert states(tmp_path) == [("kill_half", "local", State.PASS)] * 2
    ran("new file", "new", 4, is_pass=False)
    assert State.FAIL in {state for *_, state in states(tmp_path)}


def test_a_damaged_run_counts_for_its_fleet_and_version(tmp_path: Path) -> None:
    record(tmp_path, {"rejoin": 0.5})
    record(tmp_path, {"rejoin": 0.5}, fleet="sim")
    damaged = record(tmp_path, {"rejoin": 0.5}, day=1)
    (damaged.directory.path / "run.json").write_text("")
    assert states(tmp_path) == [
        ("kill_half", "local", State.DAMAGED), ("kill_half", "sim", State.PASS),
    ]  # fmt: skip


def test_a_verdict_whose_file_is_gone_is_none_and_a_damaged_one_is_no_pass(tmp_path: Path) -> None:
    file = record(tmp_path, {"rejoin": 0.5}).directory.path / VERDICT_JSON
    file.unlink()
    assert now(tmp_path).state is State.NOT_JUDGED
    file.write_text("")
    assert now(tmp_path).state is State.DAMAGED
    assert "verdict.json" in now(tmp_path).damage


def test_a_pass_before_a_damaged_run_does_not_stand(tmp_path: Path) -> None:
    record(tmp_path, {"rejoin": 0.5})
    damaged = record(tmp_path, {"rejoin": -0.5}, day=1)
    (damaged.directory.path / "run.json").write_text("")
    found = now(tmp_path)
    assert (found.state, found.exit_code) == (State.DAMAGED, ExitCode.UNKNOWN)
    assert "run.json" in found.damage
    record(tmp_path, {"rejoin": 0.5}, day=2)
    assert now(tmp_path).state is State.PASS


def test_the_worst_plan_decides_and_no_plan_is_no_pass(tmp_path: Path) -> None:
    for plan, found in (("a", 0.5), ("b", Outcome.UNKNOWN), ("c", -0.5)):
        record(tmp_path, {"rejoin": found}, plan=plan)
    found = last_verdicts(index(tmp_path), BEGAN, max_age_s=None, code_of=None)
    assert [worst(found[:upto]) for upto in (1, 2, 3)] == [
        ExitCode.PASS, ExitCode.UNKNOWN, ExitCode.FAIL,
    ]  # fmt: skip
    assert worst([]) is ExitCode.UNKNOWN


def test_the_code_here_is_not_known_for_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    assert code_here(record(tmp_path, text="no plan")) is None
    of_a_plan = code_here(record(tmp_path, text="version: 1\nname: quiet\n"))
    assert of_a_plan.keys() >= {"code", "versions"}
