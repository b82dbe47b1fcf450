"""What the last verdict of each plan is worth now."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaoslab.archive.index import index
from chaoslab.archive.standing import CodeOf, Standing, State, code_here, standings, worst
from chaoslab.checks.base import Outcome
from chaoslab.core.errors import ExitCode
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.report.files import VERDICT_JSON
from chaoslab.run.judged_run import carry_out
from chaoslab.undo.log import UndoLogFile
from tests.archive.records import BEGAN, CODE, record

DAY_S = 86400.0


def now(root: Path, *, max_age_s: float | None = None, code_of: CodeOf | None = None) -> Standing:
    at = BEGAN + timedelta(days=10)
    (one,) = standings(index(root), at, max_age_s=max_age_s, code_of=code_of)
    return one


@pytest.mark.parametrize(
    ("found", "state", "code"),
    [
        (0.5, State.PASS, ExitCode.PASS),
        (-0.5, State.FAIL, ExitCode.FAIL),
        (Outcome.UNKNOWN, State.UNKNOWN, ExitCode.UNKNOWN),
    ],
)
def test_the_last_verdict_counts(
    tmp_path: Path, found: float | Outcome, state: State, code: ExitCode
) -> None:
    record(tmp_path, {"rejoin": Outcome.FAIL})
    record(tmp_path, {"rejoin": found}, day=1)
    assert (now(tmp_path).state, now(tmp_path).exit_code) == (state, code)


def test_a_pass_expires_and_a_failure_does_not(tmp_path: Path) -> None:
    record(tmp_path, {"rejoin": 0.5})
    assert now(tmp_path, max_age_s=11 * DAY_S).state is State.PASS
    assert now(tmp_path, max_age_s=9 * DAY_S).state is State.EXPIRED
    assert now(tmp_path, max_age_s=9 * DAY_S).exit_code is ExitCode.UNKNOWN
    record(tmp_path, {"rejoin": -0.5}, day=0.5)
    assert now(tmp_path, max_age_s=9 * DAY_S).state is State.FAIL


def test_a_pass_dated_ahead_does_not_hold_for_ever(tmp_path: Path) -> None:
    record(tmp_path, {"rejoin": 0.5}, day=20)
    assert now(tmp_path, max_age_s=11 * DAY_S).state is State.PASS
    assert now(tmp_path, max_age_s=9 * DAY_S).state is State.EXPIRED


def test_a_pass_of_other_code_is_no_pass(tmp_path: Path) -> None:
    record(tmp_path, {"rejoin": 0.5})
    assert now(tmp_path, code_of=lambda _: CODE).state is State.PASS
    assert now(tmp_path, code_of=lambda _: {**CODE, "data": "moved"}).state is State.PASS
    assert now(tmp_path, code_of=lambda _: {**CODE, "code": "beef"}).state is State.OTHER_CODE
    assert now(tmp_path, code_of=lambda _: {**CODE, "versions": "2"}).state is State.OTHER_CODE
    assert now(tmp_path, code_of=lambda _: None).state is State.OTHER_CODE
    record(tmp_path, {"rejoin": 0.5}, day=1, code={})
    assert now(tmp_path, code_of=lambda _: CODE).state is State.OTHER_CODE
    journal = record(tmp_path, {"rejoin": 0.5}, day=2).directory.path / "journal.jsonl"
    journal.unlink()
    journal.mkdir()
    assert now(tmp_path, code_of=lambda _: CODE).state is State.OTHER_CODE
    record(tmp_path, {"rejoin": 0.5}, day=3, exit_code=4)
    assert now(tmp_path).state is State.UNKNOWN, "something was left behind"


def test_a_simulated_pass_holds_on_the_same_code_whatever_computes(tmp_path: Path) -> None:
    plan = tmp_path / "quiet.yaml"
    plan.write_text(
        "version: 1\nname: quiet\ntraining: {learners: 2, stop: {rounds: 12}}\n"
        "baseline: {warmup: 2 rounds, window: 4 rounds}\nexpect: [{check: agreement}]\n"
    )
    carry_out(prepare(Asked(plan=str(plan), fleet="sim")), tmp_path / "runs")
    (run,) = index(tmp_path / "runs")
    here = code_here(run)
    assert here is not None

    def state(code: CodeOf) -> State:
        (one,) = standings([run], datetime.now(UTC), max_age_s=None, code_of=code)
        return one.state

    assert state(code_here) is State.PASS
    assert state(lambda _: {**here, "code": "beef"}) is State.OTHER_CODE


def test_a_later_run_without_a_verdict_does_not_hide_the_last_verdict(tmp_path: Path) -> None:
    record(tmp_path, {"rejoin": 0.5, "continuity": 0.2})
    running = record(tmp_path, day=2)
    with UndoLogFile(running.directory.path):
        found = now(tmp_path)
    assert (found.state, found.is_running) == (State.PASS, True)
    assert found.tightest.check == "continuity"
    assert not now(tmp_path).is_running


def test_without_a_verdict_that_can_be_read_no_plan_is_known_to_pass(tmp_path: Path) -> None:
    record(tmp_path)
    assert now(tmp_path).state is State.NOT_JUDGED
    assert worst([now(tmp_path)]) is ExitCode.UNKNOWN
    file = record(tmp_path, {"rejoin": 0.5}, day=1).directory.path / VERDICT_JSON
    file.unlink()
    assert now(tmp_path).state is State.NOT_JUDGED
    file.write_text("")
    found = now(tmp_path)
    assert (found.state, found.exit_code) == (State.DAMAGED, ExitCode.UNKNOWN)
    assert "verdict.json" in found.damage


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
    found = standings(index(tmp_path), BEGAN, max_age_s=None, code_of=None)
    assert [worst(found[:upto]) for upto in (1, 2, 3)] == [
        ExitCode.PASS, ExitCode.UNKNOWN, ExitCode.FAIL,
    ]  # fmt: skip
    assert worst([]) is ExitCode.UNKNOWN


def test_the_code_here_is_not_known_for_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    assert code_here(record(tmp_path, text="no plan")) is None
    of_a_plan = code_here(record(tmp_path, text="version: 1\nname: quiet\n"))
    assert of_a_plan.keys() >= {"code", "versions"}
