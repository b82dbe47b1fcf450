"""Every target of the package: no seed crashes it, hangs it or makes it grow."""

import pytest

from tests.fuzz import TARGETS
from tests.fuzz.campaign import campaign


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "seeds",
    [
        50,
        pytest.param(3_000, marks=pytest.mark.deep),
        pytest.param(10_000, marks=[pytest.mark.deep, pytest.mark.soak]),
    ],
    ids="{} seeds".format,
)
@pytest.mark.parametrize("target", TARGETS)
def test_no_seed_shows_a_defect(target: str, seeds: int) -> None:
    defect = campaign(target, 0, seeds)
    assert defect is None, str(defect)
