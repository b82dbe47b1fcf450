"""A training that is not chaoslab's own, in real runs: killed, back, compared with its twin."""

from pathlib import Path

import pytest

from chaoslab.selftest.catalogue import TRIALS
from chaoslab.selftest.trial import PLANS, carry_out_trial
from tests.whole_runs import passed

pytestmark = pytest.mark.alone

TRAINERS = Path(__file__).parent / "trainers"

JAX = r"""
version: 1
name: in-jax
training:
  script:
    command: "{{python}} '{trainer}' {{folder}}"
    progress: 'iter (?P<step>\d+): loss=(?P<loss>\S+)'
    saved: 'Checkpoint of step (?P<step>\d+) is complete'
    resumed: 'Restored checkpoint of step (?P<step>\d+)'
twin: true
baseline: {{warmup: 10 rounds, window: 40 rounds, max_variation: 1000%}}
limits: {{min_alive: 0, timeout: 5m}}
faults:
  - {{id: dies, fault: process.kill, target: {{workers: all}}, at: {{step: 90}}, for: 1s}}
expect:
  - {{check: rejoin, within: 90s}}
  - {{check: cleanup}}
"""

BROKEN = {trial.name: trial for trial in TRIALS if trial.plan == "scripted" and trial.check}


@pytest.mark.gate
def test_a_worker_that_goes_on_as_it_should_passes(tmp_path: Path) -> None:
    ran = passed((PLANS / "scripted.yaml").read_text(), tmp_path)
    assert 0 < ran.verdict["work_lost"]["steps"] < 40
    assert {one["check"] for one in ran.verdict["findings"]} == {"rejoin", "cleanup"}


@pytest.mark.gate
def test_a_trainer_in_jax_that_knows_nothing_of_chaoslab(tmp_path: Path) -> None:
    ran = passed(JAX.format(trainer=TRAINERS / "jax_train.py"), tmp_path)
    assert ran.verdict["work_lost"]["steps"] > 0


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
