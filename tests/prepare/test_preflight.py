"""What a fleet lacks, and where a refusal says that it was written."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.plan.file import load
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.preflight import refuse_impossible
from chaoslab.prepare.setup import LinkSetup
from chaoslab.undo.base import UndoLog

TEXT = """
version: 1
name: two
training: {learners: 2}
faults:
- {fault: process.kill, target: {learners: [learner-0]}, at: {round: 60}, for: 5s}
"""


class Hosts:
    """A fleet that can do nothing or little, or with a host that cannot be used."""

    kind = "ssh"

    def __init__(self, *abilities: Ability, problem: str = "") -> None:
        self._abilities, self._problem = frozenset(abilities), problem
        self.asked = 0

    @property
    def abilities(self) -> frozenset[Ability]:
        self.asked += 1
        if self._problem:
            raise AbilityError(self._problem)
        return self._abilities

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        raise NotImplementedError


def hold_against(fleet: Hosts, folder: Path, text: str = TEXT) -> None:
    (folder / "two.yaml").write_text(text)
    plan, _ = load(folder / "two.yaml", kinds())
    refuse_impossible(plan, schedule(plan, roster_of(plan)), fleet, LinkSetup())


class Short(Hosts):
    """A fleet that lacks what a setting would give it."""

    remedies: ClassVar[Mapping[Ability, str]] = {Ability.KILL: "write fleet.sharp: true"}


def test_what_a_fleet_lacks_is_placed_at_the_fault_that_needs_it(tmp_path: Path) -> None:
    with pytest.raises(AbilityError, match=r"two\.yaml:6:3: .*kill"):
        hold_against(Hosts(), tmp_path)
    with pytest.raises(AbilityError, match=r"fleet\.sharp: true$"):
        hold_against(Short(), tmp_path)
    with pytest.raises(AbilityError, match=r"^host-0 has no interpreter$"):  # at no fault
        hold_against(Hosts(problem="host-0 has no interpreter"), tmp_path)


def test_a_fleet_is_asked_once_what_it_can_do(tmp_path: Path) -> None:
    fleet = Hosts(Ability.KILL, Ability.HOOKS)
    again = [TEXT.splitlines()[-1].replace("60", str(round_)) for round_ in (80, 100)]
    phase = again[0].replace("round: 80", "phase: written")
    hold_against(fleet, tmp_path, "\n".join([TEXT.strip(), *again, phase, ""]))
    assert fleet.asked == 1


def test_every_fault_that_a_fleet_cannot_do_is_named_once(tmp_path: Path) -> None:
    line = TEXT.splitlines()[-1]
    stop = line.replace("process.kill", "process.pause").replace("60", "80")
    text = "\n".join([TEXT.strip(), stop, line.replace("60", "100"), ""])
    with pytest.raises(AbilityError) as refused:
        hold_against(Hosts(Ability.PAUSE), tmp_path, text)
    places = [said.split(":")[1] for said in str(refused.value).splitlines()]
    assert places == ["5", "7"]
