"""Which exit code a gate makes of a verdict."""

import re
from dataclasses import replace

import pytest

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.gate import FailOn, Gate
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode, PlanError

CODES = {
    Outcome.PASS: ExitCode.PASS,
    Outcome.FAIL: ExitCode.FAIL,
    Outcome.UNKNOWN: ExitCode.UNKNOWN,
}


def verdict(outcome: Outcome, *margins: float | None, exit_code: ExitCode | None = None) -> Verdict:
    return Verdict(
        outcome=outcome,
        exit_code=CODES[outcome] if exit_code is None else exit_code,
        training_continued=True,
        longest_gap_s=0.5,
        learners_rejoined={},
        findings=tuple(
            Finding(check=f"check-{number}", outcome=outcome, reason="so it is", margin=margin)
            for number, margin in enumerate(margins)
        ),
        injections=(),
        residue=(),
    )


@pytest.mark.parametrize(
    ("gate", "codes"),
    [
        (Gate(), CODES),
        *((Gate(fail_on=on), {**CODES, Outcome.UNKNOWN: ExitCode.FAIL}) for on in FailOn),
        (
            Gate(must_fail=("check-0",)),
            {**CODES, Outcome.PASS: ExitCode.FAIL, Outcome.FAIL: ExitCode.PASS},
        ),
    ],
    ids=["no options", *FailOn, "a fail is expected"],
)
def test_the_exit_code_is_that_of_the_verdict_unless_the_gate_says_otherwise(
    gate: Gate, codes: dict[Outcome, ExitCode]
) -> None:
    assert {one: gate.judge(verdict(one, 0.5, None)).exit_code for one in Outcome} == codes


@pytest.mark.parametrize(
    ("must_fail", "code"),
    [
        (("continuity",), ExitCode.FAIL),
        (("rejoin",), ExitCode.PASS),
        (("rejoin (2)",), ExitCode.FAIL),
        (("rejoin", "ledger"), ExitCode.PASS),
        (("rejoin", "continuity"), ExitCode.FAIL),
        (("rejoin", "not judged"), ExitCode.FAIL),
    ],
)
def test_a_run_that_failed_for_another_reason_is_not_the_expected_fail(
    must_fail: tuple[str, ...], code: ExitCode
) -> None:
    outcomes = [
        ("continuity", Outcome.PASS), ("rejoin", Outcome.FAIL), ("rejoin", Outcome.UNKNOWN),
        ("ledger", Outcome.FAIL),
    ]  # fmt: skip
    findings = tuple(
        Finding(check=check, outcome=outcome, reason="so it is") for check, outcome in outcomes
    )
    failed = replace(verdict(Outcome.FAIL), findings=findings)
    found = Gate(must_fail=must_fail).judge(failed)
    assert found.exit_code is code
    assert len(found.reasons) == 1


@pytest.mark.parametrize(
    "rule",
    ["training_continues", "learners_rejoin", "participation", "cadence", "real_work", "ledger",
     "agreement", "versions", "numeric_health", "unasked", "strangers", "stop"],
)  # fmt: skip
def test_a_rule_of_every_run_that_can_fail_may_be_expected_to(rule: str) -> None:
    Gate(must_fail=(rule,)).refuse_unknown([])
    with pytest.raises(PlanError, match=f"fail:{rule} "):
        Gate(must_fail=(rule,)).refuse_unknown(["rejoin"], left_out=[rule])


@pytest.mark.parametrize("name", ["", "rejon", "rejoin (3)", "goodput", "evidence"])
def test_a_name_that_can_never_fail_is_refused_with_those_that_can(name: str) -> None:
    expect = ["rejoin", "continuity", "rejoin"]
    Gate(must_fail=("rejoin (2)", "continuity", "unasked")).refuse_unknown(expect)
    with pytest.raises(PlanError, match=f"fail:{re.escape(name)} .* rejoin, continuity, rejoin"):
        Gate(must_fail=("rejoin", name)).refuse_unknown(expect)


def test_a_pass_near_its_bound_is_weak() -> None:
    near = verdict(Outcome.PASS, 0.5, 0.04, None)
    assert Gate(fail_on=FailOn.UNKNOWN).judge(near).exit_code is ExitCode.PASS
    found = Gate(fail_on=FailOn.LOW_MARGIN).judge(near)
    assert found.exit_code is ExitCode.FAIL
    (reason,) = found.reasons
    assert "check-1" in reason
    assert Gate(fail_on=FailOn.LOW_MARGIN, min_margin=0.04).judge(near).exit_code is ExitCode.PASS
    assert len(Gate(fail_on=FailOn.LOW_MARGIN, min_margin=0.6).judge(near).reasons) == 2
    assert (
        Gate(fail_on=FailOn.LOW_MARGIN).judge(verdict(Outcome.PASS, None)).exit_code
        is ExitCode.PASS
    )


@pytest.mark.parametrize("code", [ExitCode.BROKEN, ExitCode.INTERRUPTED])
@pytest.mark.parametrize("gate", [Gate(must_fail=("check-0",)), Gate(fail_on=FailOn.LOW_MARGIN)])
def test_no_gate_accepts_a_run_that_was_cut_short(gate: Gate, code: ExitCode) -> None:
    assert gate.judge(verdict(Outcome.FAIL, exit_code=code)).exit_code is code
