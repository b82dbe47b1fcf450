"""The catalogue: every check of the design, each passing its contract."""

import pytest

from chaoslab.checks.base import Check
from chaoslab.checks.catalogue import CHECKS
from tests.contracts.check_kit import CheckKit


@pytest.fixture(params=list(CHECKS.values()), ids=list(CHECKS))
def check(request: pytest.FixtureRequest) -> Check:
    instance: Check = request.param()
    return instance


class TestEveryCheck(CheckKit):
    pass


def test_the_catalogue_holds_every_check_under_its_own_name() -> None:
    assert {name: check.name for name, check in CHECKS.items()} == {name: name for name in CHECKS}
    assert set(CHECKS) == {
        "training_continues", "learners_rejoin", "injections",
        "continuity", "rejoin", "survivors", "goodput", "ledger", "agreement", "loss_parity",
        "detection", "versions", "numeric_health", "cleanup", "staleness", "retries", "recovery",
        "bandwidth", "repairs", "checkpoints", "succession", "join", "contribution_share",
        "quorum_progress", "handover",
    }  # fmt: skip


def test_every_setting_says_what_it_means() -> None:
    for check in CHECKS.values():
        assert check.__doc__
        assert isinstance(check(), Check)
