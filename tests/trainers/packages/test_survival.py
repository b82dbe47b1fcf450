"""The configurations of the trainings of packages, their plans, and the tables of what came."""

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.plan.file import load
from chaoslab.prepare.kinds import kinds
from tests.trainers.packages import survival
from tests.trainers.packages.catalogue import HERE, PACKAGES


@pytest.mark.parametrize("training", [*HERE.glob("*_train.py")], ids=lambda file: file.stem)
def test_a_configuration_has_at_most_40_lines(training: Path) -> None:
    """Beside its docstring, comments and empty lines; what it gets wrong on purpose included."""
    text = training.read_text()
    lines = text.splitlines()[ast.parse(text).body[0].end_lineno or 0 :]
    assert len([one for one in lines if one.strip() and not one.lstrip().startswith("#")]) <= 40


@pytest.mark.parametrize("fault", survival.FAULTS)
def test_each_plan_can_be_read(fault: str, tmp_path: Path) -> None:
    for name in PACKAGES:
        path = tmp_path / f"{name}.yaml"
        path.write_text(survival.plan_of(name, fault))
        plan, _ = load(path, kinds())
        assert {one.fault for one in plan.faults} == {
            one["fault"] for one in survival.FAULTS[fault]
        }


def test_the_tables_show_outcomes_and_the_reason_of_the_worst_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survival, "RECORDS", tmp_path)
    found = {
        "hf-kill": [("PASS", "rejoin", "it came back")],
        "hf-disk": [("UNKNOWN", "rejoin", "no fault"), ("FAIL", "unasked", "it exited")],
        "hf-kill-data": [("FAIL", "resume", "anew")],
    }
    for run, findings in found.items():
        verdict = {
            "outcome": findings[-1][0],
            "findings": [
                {"outcome": outcome, "check": check, "reason": reason, "codes": ["a_code"]}
                for outcome, check, reason in findings
            ],
        }
        (tmp_path / run / "latest").mkdir(parents=True)
        (tmp_path / run / "latest" / "verdict.json").write_text(json.dumps(verdict))
    told = CliRunner().invoke(survival.table).output.splitlines()
    title, torchft, missing = PACKAGES["hf"].title, PACKAGES["torchft"].title, "not measured | "
    assert told[2] == f"| {title} | PASS | {3 * missing}FAIL `unasked` |"
    assert [line for line in told if "none" in line] == [
        f"| {torchft} | {2 * missing}none | none | none |",
        f"| {torchft} | {5 * 'none | '}none |",
    ]
    assert f"| {title} | {4 * missing}FAIL `resume` | not measured |" in told
    assert told[-1] == "- hf-kill-data: `resume` (a_code): anew"
