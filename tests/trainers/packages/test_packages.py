"""Trainings whose loop comes from a package: what they survive, in real runs with a twin.

`python -m tests.trainers.packages.catalogue` installs them; without that they are skipped.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.packages.catalogue import PACKAGES
from tests.whole_runs import Ran, begin, ended, whole

pytestmark = [pytest.mark.deep, pytest.mark.soak, pytest.mark.alone]

CHECKS = (
    {"check": "rejoin", "within": "90s", "contributions": 3},
    {"check": "resume"},
    {"check": "divergence"},
    {"check": "participation", "min_share": "5%"},
    {"check": "cadence", "min_share": "5%"},
    {"check": "cleanup"},
)
BROKEN = ("no_resume", "older", "moments", "rate", "data", "shard")


def killed(name: str, folder: Path, more: str = "") -> Ran:
    """A run in which a worker is killed between two checkpoints."""
    package = PACKAGES[name]
    if not (package.folder(name) / "ready").exists():
        pytest.skip(
            f"{name} is not installed: `python -m tests.trainers.packages.catalogue {name}`"
        )
    script = dict(package.keys(name))
    script["command"] += more
    plan: dict[str, Any] = {
        "version": 1,
        "name": name,
        "training": {"script": script},
        "twin": True,
        "baseline": {"warmup": "10 rounds", "window": "300 rounds", "max_variation": "300%"},
        "limits": {"min_alive": 0, "max_affected": "100%", "timeout": "10m"},
        "settle": "60s",
        "faults": [
            {"id": "dies", "fault": "process.kill", "target": {"workers": 1}, "at": {"step": 410},
             "for": "2s"}
        ],
        "expect": list(CHECKS),
    }  # fmt: skip
    return ended(begin(json.dumps(plan), folder), folder)


@pytest.mark.parametrize("name", PACKAGES)
def test_it_is_killed_and_goes_on_as_it_does(name: str, tmp_path: Path) -> None:
    ran = killed(name, tmp_path)
    assert ran.statuses == ["proved"]
    if PACKAGES[name].kill == "PASS":
        assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)
    else:
        assert ran.finding(PACKAGES[name].kill)["outcome"] == "FAIL", whole(ran.verdict)


@pytest.mark.parametrize("how", BROKEN)
def test_a_resume_of_hf_trainer_that_is_wrong_in_one_way_never_passes(
    how: str, tmp_path: Path
) -> None:
    ran = killed("hf", tmp_path, f" {how}")
    assert ran.verdict["outcome"] != "PASS", whole(ran.verdict)
    blamed = {one["check"] for one in ran.verdict["findings"] if one["outcome"] != "PASS"}
    assert blamed & {"resume", "divergence"}
