"""The catalogue: every check of the design, each passing its contract."""

import pytest

from chaoslab.checks.base import Check
from chaoslab.checks.catalogue import CHECKS
from chaoslab.core.errors import PlanError
from tests.contracts.check_kit import CheckKit


@pytest.fixture(params=list(CHECKS.values()), ids=list(CHECKS))
def check(request: pytest.FixtureRequest) -> Check:
    instance: Check = request.param()
    return instance


class TestEveryCheck(CheckKit):
    pass


def test_the_catalogue_holds_every_check_under_its_own_name() -> None:
    assert [check.name for check in CHECKS.values()] == list(CHECKS)


@pytest.mark.parametrize(
    ("check", "setting", "value"),
    [
        ("goodput", "min_share", 0.0),
        ("goodput", "max_share", 1.0),
        ("recovery", "min_share", 0.0),
        ("rejoin", "contributions", 0),
        ("handover", "within_s", 0.0),
        ("quorum_progress", "quorum", 0),
        ("quorum_progress", "within_s", 0.0),
        ("bandwidth", "max_peak", 0.5),
    ],
)
def test_a_setting_that_demands_nothing_or_too_much_is_a_plan_error(
    check: str, setting: str, value: float
) -> None:
    with pytest.raises(PlanError):
        CHECKS[check](**{setting: value})
