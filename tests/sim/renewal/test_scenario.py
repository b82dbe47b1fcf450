"""Scenarios that cannot be are refused, with the key that is wrong."""

from typing import Any

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.sim.renewal.scenario import Policy, Scenario


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"policy": Policy.RIGID, "learners": 2}, "learners: must be 1 with the policy rigid"),
        ({"policy": Policy.ELASTIC, "learners": 2}, "learners: must be 1 with the policy elastic"),
        ({"learners": 0}, "learners: must be 1 to 10,000, got 0"),
        ({"learners": 4, "quorum": 5}, "quorum: must be 1 to 4, got 5"),
        ({"chips": 100, "slice_chips": 256}, "chips: must be at least a slice per learner, 256"),
        ({"horizon_s": 0.0}, "horizon: must be above 0"),
        ({"change_s": -1.0}, "change: must be above 0"),
        ({"slice_chips": 0}, "slice_chips: must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    usual: dict[str, Any] = {"policy": Policy.DECOUPLED, "chips": 10_000}
    with pytest.raises(PlanError, match=said):
        Scenario(**{**usual, **settings})
