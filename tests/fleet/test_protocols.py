"""What a fleet can do follows from what it implements."""

import pytest

from chaoslab.core.errors import HarnessBug
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import PROTOCOLS, Pausable, Stressable, abilities_of, able
from tests.contracts.no_fleet import NoFleet
from tests.virtual_clock import VirtualClock


class Stopping:
    kind = "stopping"

    def pause(self, *names: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def stress(self, name: str, injection: str, stressor: object) -> None: ...


class Limited(Stopping):
    lacking = frozenset({Ability.QUOTA})

    def relieve(self, name: str, injection: str) -> None: ...


def test_every_ability_comes_from_one_protocol() -> None:
    found = [ability for abilities in PROTOCOLS.values() for ability in abilities]
    assert sorted([*found, Ability.KILL]) == sorted(Ability)


def test_a_protocol_counts_when_all_of_it_is_implemented() -> None:
    assert abilities_of(Stopping) == abilities_of(Stopping()) == {Ability.KILL, Ability.PAUSE}


def test_what_the_machine_lacks_is_taken_off() -> None:
    kill, pause = Ability.KILL, Ability.PAUSE
    assert abilities_of(Limited) == {kill, pause, *PROTOCOLS[Stressable]} - {Ability.QUOTA}


def test_a_fault_that_asks_for_what_is_not_there_is_our_mistake() -> None:
    fleet: Fleet = NoFleet(VirtualClock())
    assert able(fleet, Pausable) is fleet
    with pytest.raises(HarnessBug, match="Stressable"):
        able(Stopping(), Stressable)  # type: ignore[arg-type]  # what it lacks is the point
