"""A fleet of another package under `chaoslab plan`: its settings and its refusals."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import SUMMARIES, main
from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.registry import Group
from chaoslab.core.units import Duration
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.local.settings import Local
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.prepare import kinds
from tests.core.test_registry import Packages

PLAN = """version: 1
name: trial
training: {learners: 2}
fleet:
  kind: cores
  cores: 1
  pace: 500ms
faults:
- {fault: process.crash_loop, lives: 1s, target: {learners: 1}, at: {round: 20}, for: 9s}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores(Local):
    cores: int = 2
    pace_s: Duration = 1.0

    def factory(self, request: FleetRequest) -> FleetFactory:
        if self.cores > 8:
            raise AbilityError("this machine has 8 cores")
        if self.cores < 1:
            raise PlanError("must be at least 1", key="cores")
        return LocalFleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Faster(Cores):
    """The same settings once more."""


@pytest.fixture(autouse=True)
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A plan in an empty folder, and two fleets that it may name."""
    monkeypatch.chdir(tmp_path)
    for name in SUMMARIES:  # their options would keep the fleets of these tests
        main.get_command(click.Context(main), name)
    monkeypatch.setattr(kinds, "FLEETS", {**kinds.FLEETS, "cores": Cores, "faster": Faster})
    kinds.kinds.cache_clear()
    Path("trial.yaml").write_text(PLAN)
    yield
    kinds.kinds.cache_clear()


def preview(*more: str) -> Result:
    return CliRunner().invoke(main, ["plan", "trial.yaml", *more])


def test_the_preview_shows_settings_as_the_plan_writes_them() -> None:
    shown = preview().stdout
    assert "(cores 1, pace 500ms)" in shown
    assert "process.crash_loop (" in shown
    assert "lives 1s" in shown
    assert "lives_s" not in shown
    found = json.loads(
        preview("--json", "--set", "fleet.kind=faster", "--set", "fleet.cores=2").stdout
    )
    assert found["fleet_settings"] == {"pace": "500ms"}
    assert found["warnings"] == []


def test_settings_of_another_fleet_are_allowed_with_a_warning() -> None:
    found = json.loads(preview("--json", "--fleet", "local").stdout)
    assert found["fleet_settings"] == {}
    assert [one.split(": ")[:2] for one in found["warnings"]] == [
        ["trial.yaml:6:3", "fleet.cores"], ["trial.yaml:7:3", "fleet.pace"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cores", "says"),
    [
        (9, "trial.yaml:5:3: fleet: "),
        (0, "--set fleet.cores=0: fleet.cores: "),
    ],
)
def test_what_a_fleet_refuses_is_placed_in_the_plan(cores: int, says: str) -> None:
    refused = preview("--set", f"fleet.cores={cores}")
    assert (refused.exit_code, says in refused.stderr) == (2, True)


def test_a_fleet_with_a_setting_named_like_a_key_of_chaoslab_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    lines = (
        f"from {__name__} import Cores, dataclass",
        "@dataclass(frozen=True)",
        "class Odd(Cores):",
        "    regions: int = 1",
    )
    code = "\n".join(lines)
    Packages(tmp_path).install("odd_fleet", Group.FLEETS, "odd = odd_fleet:Odd", code=code)
    kinds.kinds.cache_clear()
    refused = preview()
    assert refused.exit_code == 2
    for part in ("odd_fleet:Odd", "'regions'"):
        assert part in refused.stderr
