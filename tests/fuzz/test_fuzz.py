"""Every target of the package over ten thousand seeds: nothing crashes, hangs or grows."""

import pytest

from tests.fuzz import TARGETS
from tests.fuzz.campaign import campaign

_SEEDS = 10_000


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("target", TARGETS)
def test_ten_thousand_seeds_show_no_defect(target: str) -> None:
    defect = campaign(target, 0, _SEEDS)
    assert defect is None, str(defect)
