"""What an engine says that it cannot do is not asked of it."""

import pytest

from chaoslab.core.events import Json
from chaoslab.fleet.base import Ability
from chaoslab.fleet.docker.capabilities import lacking

WHOLE: dict[str, Json] = {"CpuCfsQuota": True, "MemoryLimit": True, "CgroupDriver": "cgroupfs"}


@pytest.mark.parametrize(
    ("said", "abilities"),
    [
        ({}, set()),
        ({"CpuCfsQuota": False}, {Ability.SLOW, Ability.QUOTA}),
        ({"MemoryLimit": False}, {Ability.MEMORY_LIMIT}),
        ({"CgroupDriver": "none"}, {Ability.PAUSE}),
    ],
)
def test_what_an_engine_does_without_is_taken_from_the_fleet(
    said: dict[str, Json], abilities: set[Ability]
) -> None:
    lacks = lacking({**WHOLE, **said})
    assert lacks.keys() == abilities
    assert all(lacks.values())
