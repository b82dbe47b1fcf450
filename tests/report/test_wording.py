"""Numbers of a verdict in words."""

import pytest

from chaoslab.report.wording import percent


@pytest.mark.parametrize(
    ("share", "text"),
    [(-0.998, "-99.8%"), (-1.0, "-100%"), (0.0, "+0%"), (-0.002, "-0.2%"), (0.123, "+12%")],
)
def test_a_share_is_not_rounded_to_a_bound_that_it_does_not_reach(share: float, text: str) -> None:
    assert percent(share) == text
