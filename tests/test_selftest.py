"""`chaoslab research selftest` as a person sees it: what it lists, what it runs, how it leaves."""

import gc
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.checks.base import Outcome
from chaoslab.cli.main import main
from chaoslab.cli.research.selftest import exit_code
from chaoslab.core.errors import ExitCode
from chaoslab.fleet.local import fleet
from chaoslab.selftest.catalogue import TRIALS
from chaoslab.selftest.trial import Answer, Result, carry_out_trial

ROOT = Path(__file__).parent.parent

CAUGHT = Result(
    trial=TRIALS[0],
    answer=Answer.CAUGHT,
    check="rejoin",
    sentence="it was never brought back",
    took_s=20.0,
    verdict=Outcome.FAIL,
)
PASSED = replace(CAUGHT, trial=TRIALS[-1], answer=Answer.PASSED, verdict=Outcome.PASS)
ALARM = replace(PASSED, answer=Answer.ALARM)


def test_all_trials_are_listed_with_who_must_find_them() -> None:
    done = CliRunner().invoke(main, ["research", "selftest", "--list"])
    assert done.exit_code == ExitCode.PASS
    for trial in TRIALS:
        assert trial.name in done.output
    listed = json.loads(
        CliRunner().invoke(main, ["research", "selftest", "--list", "--json"]).output
    )
    assert [one["name"] for one in listed] == [trial.name for trial in TRIALS]


def test_a_trial_that_nobody_knows_is_refused_with_the_nearest_one() -> None:
    done = CliRunner().invoke(main, ["research", "selftest", "--only", "deaf_sincer"])
    assert done.exit_code == ExitCode.REFUSED
    assert "`deaf_syncer`" in done.output


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([CAUGHT, PASSED], ExitCode.PASS),
        ([CAUGHT, replace(CAUGHT, answer=Answer.MISSED), PASSED], ExitCode.FAIL),
        ([CAUGHT, replace(CAUGHT, answer=Answer.MISTAKEN)], ExitCode.FAIL),
        ([CAUGHT, replace(ALARM, verdict=Outcome.FAIL)], ExitCode.FAIL),
        ([CAUGHT, replace(ALARM, verdict=Outcome.UNKNOWN)], ExitCode.UNKNOWN),
        ([CAUGHT, replace(CAUGHT, answer=Answer.UNABLE)], ExitCode.UNKNOWN),
        ([replace(CAUGHT, answer=Answer.BROKEN), ALARM], ExitCode.BROKEN),
        ([CAUGHT, replace(CAUGHT, answer=Answer.INTERRUPTED)], ExitCode.INTERRUPTED),
    ],
    ids=[
        "right",
        "missed",
        "mistaken",
        "false alarm",
        "a busy machine",
        "an idle period",
        "broken",
        "interrupted",
    ],
)
def test_the_exit_code_is_that_of_the_worst(results: list[Result], code: ExitCode) -> None:
    assert exit_code(results) is code


@pytest.mark.gate
@pytest.mark.alone
def test_two_quick_trials_are_caught_and_their_records_are_kept(tmp_path: Path) -> None:
    words = ("--only", "restless_baseline", "--only", "idle_kill", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "chaoslab", "research", "selftest", *words, "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=240,
    )
    assert done.returncode == ExitCode.PASS, done.stdout + done.stderr
    baseline, kill = json.loads(done.stdout)["trials"]
    assert (baseline["answer"], baseline["said_by"]) == ("caught", "baseline")
    assert (kill["answer"], kill["said_by"]) == ("caught", "evidence")
    assert (Path(kill["record"]) / "verdict.json").is_file()
    assert "idle_kill: " in done.stderr


AT_THE_GATE = ("deaf_syncer", "stale_rejoiner", "mute_rejoiner")
ONE_OF_EACH = {trial.check: trial for trial in reversed(TRIALS) if trial.check}
"""By check: the first trial that it must find."""
TRIED = {
    trial.name: trial
    for trial in TRIALS
    if trial.name in {*AT_THE_GATE, "refused_plan", "no_reconnect", "stubborn_learner"}
    or (trial in ONE_OF_EACH.values() and trial.name != "restless_baseline")  # above
}


@pytest.mark.filterwarnings(  # messy_fleet forgets a process, and the files of its output
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.alone
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.gate if name in AT_THE_GATE else pytest.mark.deep)
        for name in TRIED
    ],
)
def test_what_is_wrong_is_found_on_real_processes(name: str, tmp_path: Path) -> None:
    """All trials: `chaoslab research selftest`."""
    result = carry_out_trial(TRIED[name], tmp_path)
    gc.collect()  # what messy_fleet forgot warns here, where it is ignored
    if result.answer is Answer.UNABLE:
        pytest.skip(result.sentence)
    assert result.answer.is_right, told(result)


def told(result: Result) -> str:
    """All that the verdict says, for a run that others disturbed, too."""
    verdict = result.directory / "verdict.json" if result.directory else None
    return verdict.read_text() if verdict and verdict.exists() else result.sentence


def test_a_trial_that_cannot_be_had_here_does_not_keep_the_others_from_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fleet, "can_lose_power", lambda: False)
    trial = next(one for one in TRIALS if one.name == "careless_syncer")
    result = carry_out_trial(trial, tmp_path)
    assert result.answer is Answer.UNABLE
    assert "cut_power" in result.sentence
