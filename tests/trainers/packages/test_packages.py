"""Trainings whose loop comes from a package: what they survive, in real runs with a twin.

`python -m tests.trainers.packages.catalogue` installs them; without that they are skipped.
"""

import pytest

from tests.trainers.packages.catalogue import PACKAGES
from tests.trainers.packages.survival import BROKEN, FAULTS, RECORDS, plan_of
from tests.whole_runs import Ran, begin, ended, whole

pytestmark = [pytest.mark.deep, pytest.mark.trainers, pytest.mark.alone]


def ran(name: str, fault: str, broken: str = "") -> Ran:
    """A run of one of them; its record stays."""
    if not PACKAGES[name].has(fault, broken):
        pytest.skip(f"{name} has no checkpoints")
    if not PACKAGES[name].is_installed:
        pytest.skip(f"{name} is not installed: `python -m tests.trainers.packages.catalogue`")
    RECORDS.mkdir(parents=True, exist_ok=True)
    return ended(begin(plan_of(name, fault, broken), RECORDS), RECORDS, limit_s=1800)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", PACKAGES)
def test_it_survives_what_the_catalogue_says(name: str, fault: str) -> None:
    found = ran(name, fault)
    if fault not in PACKAGES[name].fails:
        assert (found.code, found.verdict["outcome"]) == (0, "PASS"), whole(found.verdict)
        return
    check, code = PACKAGES[name].fails[fault]
    assert code in found.finding(check)["codes"], whole(found.verdict)


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("name", PACKAGES)
def test_a_resume_that_is_wrong_in_one_way_never_passes(name: str, how: str) -> None:
    verdict = ran(name, "kill", how).verdict
    assert verdict["outcome"] != "PASS", whole(verdict)
    blamed = {one["check"] for one in verdict["findings"] if one["outcome"] != "PASS"}
    assert blamed & {"resume", "divergence", "real_work"}  # the latter for the learning rate
