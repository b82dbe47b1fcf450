"""Costs of a simulation: defaults with their sources, and files that replace some of them."""

from dataclasses import fields
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.sim.costs import Costs
from chaoslab.sim.settings import SimFleets


def test_every_default_has_a_source() -> None:
    assert [one.name for one in fields(Costs) if not one.metadata["source"].strip()] == []


def test_a_file_replaces_the_costs_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    file.write_text("start_s = 9\nspread = 0.2\n")
    assert Costs.read(file) == Costs(start_s=9, spread=0.2)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file, costs = tmp_path / "costs.toml", Costs(start_s=2.5, step_s=0.04)
    file.write_text(costs.to_toml())
    assert Costs.read(file) == costs


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("begin_s = 1", "begin_s: must be one of"),
        ("start_s = -1", "start_s: must be at least 0, got -1"),
        ("flops_per_s = 0", "flops_per_s: must be above 0, got 0"),
        ('start_s = "1s"', "start_s: must be a number, got '1s'"),
        ("start_s = inf", "start_s: must be at least 0, got inf"),
        ("start_s =", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_by_its_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "costs.toml"
    file.write_text(text)
    with pytest.raises(PlanError, match=says):
        Costs.read(file)


def test_a_step_takes_as_long_as_its_flops() -> None:
    assert Costs(flops_per_s=6e9).step_takes_s(1_000_000, 1000) == pytest.approx(1.0)
    assert Costs(step_s=0.25).step_takes_s(1_000_000, 1000) == 0.25


def test_a_plan_may_give_the_rate_of_its_links(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    file.write_text("start_s = 9\n")
    settings = ("fleet.rate=1kB/s", f"fleet.costs={file}")
    made = prepare(Asked(plan="kill_half", settings=settings, fleet="sim")).fleet_setup.fleet
    assert isinstance(made, SimFleets)
    assert made.costs == Costs(start_s=9, rate_bytes_per_s=1e3)
    with pytest.raises(PlanError, match="above 0"):
        prepare(Asked(plan="kill_half", settings=("fleet.rate=0B/s",), fleet="sim"))
