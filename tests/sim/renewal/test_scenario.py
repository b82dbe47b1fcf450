"""Scenarios that cannot be are refused, with the key that is wrong."""

from typing import Any

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.sim.renewal.scenario import Policy, Scenario


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"policy": Policy.RIGID, "learners": 2}, "learners"),
        ({"policy": Policy.ELASTIC, "learners": 2}, "learners"),
        ({"learners": 0}, "learners"),
        ({"learners": 4, "quorum": 5}, "quorum"),
        ({"chips": 100, "slice_chips": 256}, "chips"),
        ({"horizon_s": 0.0}, "horizon"),
        ({"change_s": -1.0}, "change"),
        ({"slice_chips": 0}, "slice_chips"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], key: str) -> None:
    usual: dict[str, Any] = {"policy": Policy.DECOUPLED, "chips": 10_000}
    with pytest.raises(PlanError, match=f"^{key}: "):
        Scenario(**{**usual, **settings})
