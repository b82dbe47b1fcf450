"""The plans of the trainings of packages, and the table of what came of them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoslab.plan.file import load
from chaoslab.prepare.kinds import kinds
from tests.trainers.packages import survival
from tests.trainers.packages.catalogue import PACKAGES


@pytest.mark.parametrize("fault", survival.FAULTS)
def test_each_plan_can_be_read(fault: str, tmp_path: Path) -> None:
    for name in PACKAGES:
        path = tmp_path / f"{name}.yaml"
        path.write_text(survival.plan_of(name, fault))
        plan, _ = load(path, kinds())
        assert {one.fault for one in plan.faults} == {
            one["fault"] for one in survival.FAULTS[fault]
        }


def test_the_table_shows_outcomes_and_the_reason_of_the_worst_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survival, "RECORDS", tmp_path)
    found = {
        "hf-kill": [("PASS", "rejoin", "it came back")],
        "hf-disk": [("UNKNOWN", "rejoin", "no fault"), ("FAIL", "unasked", "it exited")],
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
    assert told[2] == f"| {PACKAGES['hf'].title} | PASS |  |  |  |  | FAIL `unasked` |"
    assert told[-1] == f"- {PACKAGES['hf'].title}, disk: `unasked` (a_code): it exited"
