"""What counts as caught: not every verdict that is not PASS, but the one that understood."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.verdict import Verdict
from chaoslab.cli.main import main
from chaoslab.cli.research import selftest as command
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.selftest import trial as module
from chaoslab.selftest.trial import Answer, Result, Trial, answer_of, carry_out_trial

TRIAL = Trial(
    name="deaf",
    wrong="pushes are lost",
    plan="killed",
    programs={"syncer": "deaf_syncer"},
    check="ledger",
    codes=(Code.PUSH_LOST,),
    culprits=("learner-1",),
)
CONTROL = Trial(name="calm_plan", wrong="", plan="calm")
FOUND = Finding(
    check="ledger",
    outcome=Outcome.FAIL,
    reason="learner-1's push was accepted, but its round was merged without it",
    codes=(Code.PUSH_LOST,),
    culprits=("learner-1",),
)
FINE = Finding(check="rejoin", outcome=Outcome.PASS, reason="learner-1 came back")
OTHER = Finding(check="continuity", outcome=Outcome.FAIL, reason="no round for 9 s")


def verdict(*findings: Finding, exit_code: ExitCode = ExitCode.FAIL) -> Verdict:
    return Verdict(
        outcome=Outcome.FAIL if FOUND in findings else Outcome.PASS,
        exit_code=exit_code,
        training_continued=True,
        longest_gap_s=0.1,
        learners_rejoined={},
        findings=findings,
        injections=(),
        residue=(),
    )


RESIDUE = Finding(check="residue", outcome=Outcome.UNKNOWN, reason="left", codes=(Code.LEFT_OVER,))
MESSY = replace(TRIAL, check="residue", codes=(Code.LEFT_OVER,), culprits=())


@pytest.mark.parametrize(
    ("trial", "findings", "exit_code", "answer", "told"),
    [
        (TRIAL, (FINE, OTHER, FOUND), ExitCode.FAIL, Answer.CAUGHT, FOUND),
        *((TRIAL, (FINE, found), ExitCode.FAIL, Answer.MISTAKEN, found) for found in (
            replace(FOUND, check="continuity"),
            replace(FOUND, codes=(Code.MERGED_TWICE,)),
            replace(FOUND, culprits=("learner-2",)),
        )),
        (TRIAL, (FINE, replace(FOUND, outcome=Outcome.PASS)), ExitCode.FAIL, Answer.MISSED, None),
        (CONTROL, (FINE,), ExitCode.FAIL, Answer.PASSED, None),
        (CONTROL, (FINE, OTHER), ExitCode.FAIL, Answer.ALARM, OTHER),
        (TRIAL, (FOUND,), ExitCode.INTERRUPTED, Answer.INTERRUPTED, FOUND),
        (MESSY, (RESIDUE,), ExitCode.BROKEN, Answer.CAUGHT, RESIDUE),
        (TRIAL, (RESIDUE,), ExitCode.BROKEN, Answer.BROKEN, RESIDUE),
    ],
)  # fmt: skip
def test_a_mutant_is_caught_by_the_finding_that_was_meant_and_a_control_by_none(
    trial: Trial, findings: tuple[Finding, ...], exit_code: ExitCode, answer: Answer,
    told: Finding | None,
) -> None:  # fmt: skip
    assert answer_of(trial, verdict(*findings, exit_code=exit_code)) == (answer, told)


def test_a_harness_that_breaks_before_there_is_a_record_is_a_result_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_: object, **__: object) -> None:
        raise FleetError("the disk is full")

    monkeypatch.setattr(module, "run_and_judge", break_off)
    result = carry_out_trial(CONTROL, tmp_path)
    assert (result.answer, result.answer.is_right) == (Answer.BROKEN, False)


def test_an_interrupt_between_two_trials_keeps_the_answers_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([Answer.CAUGHT])

    def carried_out(trial: Trial, *_: object, **__: object) -> Result:
        for answer in answers:
            return Result(trial=trial, answer=answer, check="it", sentence="said", took_s=1.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "carry_out_trial", carried_out)
    done = CliRunner().invoke(main, ["research", "selftest", "--json", "--out", str(tmp_path)])
    assert done.exit_code == ExitCode.INTERRUPTED
    assert [one["answer"] for one in json.loads(done.stdout)["trials"]] == ["caught"]


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (Answer.BROKEN, "chaoslab heal --all --out 'all runs'"),
        (Answer.MISTAKEN, "chaoslab show 'all runs/x'"),
    ],
)
def test_what_to_do_next_is_named_as_a_shell_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, again: str
) -> None:
    def carried_out(trial: Trial, *_: object, **__: object) -> Result:
        where = tmp_path / "all runs" / "x"
        return Result(
            trial=trial, answer=answer, check="it", sentence="said", took_s=1.0, directory=where
        )

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "carry_out_trial", carried_out)
    done = CliRunner().invoke(main, ["research", "selftest", "--out", "all runs"])
    assert f"next: {again}   " in done.stderr
