"""Costs of a simulation: defaults with their sources, and files that replace some of them."""

from dataclasses import fields
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import RoundStored
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.history import History
from chaoslab.run.judged_run import run_and_judge
from chaoslab.sim.chance import Chance
from chaoslab.sim.costs import Costs
from chaoslab.sim.settings import SimFleets


def test_every_default_has_a_source() -> None:
    assert [one.name for one in Costs.each() if not one.metadata["source"].strip()] == []
    assert {one.name for one in fields(Costs)} == {one.name for one in Costs.each()} | {"quantiles"}


def test_a_file_replaces_the_costs_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    file.write_text("start_s = 9\nspread = 0.2\n")
    assert Costs.read(file) == Costs(start_s=9, spread=0.2)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    costs = Costs(start_s=2.5, step_s=0.04, quantiles={"push_s": [0.0, 0.01, 0.5]})
    file.write_text(costs.to_toml())
    assert Costs.read(file) == costs


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("begin_s = 1", "begin_s"),
        ("start_s = -1", "start_s"),
        ("flops_per_s = 0", "flops_per_s"),
        ('start_s = "1s"', "start_s"),
        ("start_s = inf", "start_s"),
        ("start_s =", "costs.toml"),
        ("quantiles = 3", "quantiles"),
        ("[quantiles]\nstart_s = [1, 2]", "quantiles.start_s"),
        ("[quantiles]\npush_s = 1", "quantiles.push_s"),
        ("[quantiles]\npush_s = [1]", "quantiles.push_s"),
        ("[quantiles]\npush_s = [2, 1]", "quantiles.push_s"),
        ("[quantiles]\npush_s = [-1, 1]", "quantiles.push_s"),
        ('[quantiles]\npush_s = ["1s", "2s"]', "quantiles.push_s"),
    ],
)
def test_a_wrong_file_is_refused_by_its_key(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "costs.toml"
    file.write_text(text)
    with pytest.raises(PlanError, match=key):
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
    with pytest.raises(PlanError, match="rate"):
        prepare(Asked(plan="kill_half", settings=("fleet.rate=0B/s",), fleet="sim"))


def test_work_with_quantiles_varies_as_they_say() -> None:
    chance = Chance("a name")
    drawn = sorted(chance.among([1.0, 2.0, 2.0, 10.0]) for _ in range(3000))
    assert drawn[0] >= 1.0
    assert drawn[-1] <= 10.0
    assert drawn[1000] == pytest.approx(2.0, abs=0.1)
    assert drawn[1500] == 2.0
    assert drawn[2500] == pytest.approx(6.0, abs=0.5)


def test_rounds_of_a_simulation_take_as_long_as_the_quantiles_say(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    file.write_text("store_s = 0.01\n[quantiles]\nstore_s = [0.02, 0.02, 0.08]\n")
    settings = (f"fleet.costs={file}", "twin=false", "training.stop.rounds=60")
    run = run_and_judge(prepare(Asked(plan="kill_one", settings=settings, fleet="sim")), tmp_path)
    took_s = sorted(e.payload.took_s for e in History.read(run.directory.path).of(RoundStored))
    assert took_s[0] == pytest.approx(0.02)
    assert took_s[len(took_s) // 4] == pytest.approx(0.02)
    assert 0.05 < took_s[-1] < 0.081
