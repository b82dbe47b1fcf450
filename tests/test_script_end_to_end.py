"""A training that is not chaoslab's own, in real runs: killed, back, compared with its twin."""

from pathlib import Path

import pytest

from chaoslab.selftest.catalogue import TRIALS
from chaoslab.selftest.trial import PLANS, carry_out_trial
from tests.whole_runs import passed

pytestmark = pytest.mark.alone

BROKEN = {trial.name: trial for trial in TRIALS if trial.plan == "scripted" and trial.check}


@pytest.mark.gate
def test_a_worker_that_goes_on_as_it_should_passes(tmp_path: Path) -> None:
    ran = passed((PLANS / "scripted.yaml").read_text(), tmp_path)
    assert 0 < ran.verdict["work_lost"]["steps"] < 40
    assert {one["check"] for one in ran.verdict["findings"]} == {"rejoin", "cleanup"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("no_resume_trainer", marks=pytest.mark.gate),
        *(pytest.param(name, marks=pytest.mark.deep) for name in [*BROKEN][1:]),
    ],
)
def test_one_whose_resume_is_broken_is_found(name: str, tmp_path: Path) -> None:
    result = carry_out_trial(BROKEN[name], tmp_path)
    assert result.answer.is_right, (result.answer, result.sentence)
