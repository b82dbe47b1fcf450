"""A training that is not chaoslab's own, in real runs: killed, back, compared with its twin."""

import shlex
import sys
from pathlib import Path

import pytest

from tests.whole_runs import Ran, begin, ended, whole

pytestmark = pytest.mark.alone

TRAINER = Path(__file__).parent / "trainers" / "train.py"
PLAN = r"""
version: 1
name: a-script
training:
  script:
    command: '{python} {trainer} --rank {{rank}} --folder {{folder}} --broken "{broken}"'
    workers: 2
    progress: 'step (?P<step>\d+) loss (?P<loss>\S+) lr (?P<lr>\S+)'
    saved: 'saved step (?P<step>\d+)'
    resumed: 'resumed from step (?P<step>\d+)'
twin: true
baseline: {{warmup: 10 rounds, window: 60 rounds, max_variation: 1000%}}
limits: {{timeout: 5m}}
faults:
  - {{id: dies, fault: process.kill, target: {{workers: 1}}, at: {{step: 140}}, for: 1s}}
expect:
  - {{check: rejoin, within: 90s}}
  - {{check: cleanup}}
"""
"""Killed at step 140, when 125 is saved."""


def run(broken: str, folder: Path) -> Ran:
    """A whole run, with its twin."""
    python, trainer = shlex.quote(sys.executable), shlex.quote(str(TRAINER))
    plan = PLAN.format(python=python, trainer=trainer, broken=broken)
    return ended(begin(plan, folder), folder)


@pytest.mark.gate
def test_a_worker_that_goes_on_as_it_should_passes(tmp_path: Path) -> None:
    ran = run("", tmp_path)
    assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)
    assert 0 < ran.verdict["work_lost"]["steps"] < 40


@pytest.mark.gate
def test_one_that_begins_anew_fails(tmp_path: Path) -> None:
    ran = run("no_resume", tmp_path)
    assert (ran.verdict["outcome"], ran.finding("resume")["outcome"]) == ("FAIL", "FAIL")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("broken", "check"),
    [
        ("older", "resume"),
        ("moments", "divergence"),
        ("rate", "divergence"),
        ("data", "divergence"),
        ("shard", "divergence"),
    ],
)
def test_one_whose_resume_is_broken_otherwise_fails(
    broken: str, check: str, tmp_path: Path
) -> None:
    ran = run(broken, tmp_path)
    assert (ran.verdict["outcome"], ran.finding(check)["outcome"]) == ("FAIL", "FAIL")
