"""Cells that are fault plans: what they measure, what their results depend on, and mistakes."""

from pathlib import Path

import pytest

from chaoslab.experiments.file import load
from chaoslab.experiments.plan_cells import MEASURES, cell_of, measure
from chaoslab.experiments.results import key_of
from chaoslab.plan.file.writing import written as plan_of
from tests.experiments.studies import SIMULATED, written


def test_a_cell_is_the_plan_with_its_keys(tmp_path: Path) -> None:
    _, cells = load(written(tmp_path, SIMULATED))
    one, every = (cell.settings for cell in cells)
    assert "training.quorum=1" in one.settings
    assert "quorum: 4" in every.resolved
    assert "kind: sim" in every.resolved
    assert key_of("plan", cells[0]) != key_of("plan", cells[1])


COSTS = ("fleet.costs: c.toml", "c.toml", "start_s = {}.0\n")
TRACED = """
    faults: [{id: wan, fault: network.trace, file: t.csv, target: {learners: 1}, at: {time: 30s},
      for: 20s}]
""".strip()
TRACE = (TRACED, "t.csv", "time,rate\n0s,{}0mbit\n")


@pytest.mark.parametrize(("named", "file", "contents"), [COSTS, TRACE], ids=["costs", "trace"])
def test_a_file_that_a_plan_names_counts_by_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, file: str, contents: str
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = []
    for number in (1, 2, 1):
        Path(file).write_text(contents.format(number))
        _, cells = load(written(tmp_path, SIMULATED.replace("faults: []", named)))
        keys.append(key_of("plan", cells[0]))
    assert keys[0] == keys[2] != keys[1]


def test_data_of_a_real_run_counts_and_a_simulation_reads_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str | None, list[str | None]] = {None: [], "sim": []}
    for text in ("once upon a time\n", "there was a king\n"):
        Path("books.txt").write_text(text * 20_000)
        for fleet, seen in found.items():
            cell = cell_of({"plan": "kill_one", "training.data": "books.txt"}, fleet=fleet)
            seen.append(cell.contents)
    assert found["sim"] == [None, None]
    assert len({None, *found[None]}) == 3


@pytest.mark.parametrize("fleet", ["sim", None])
def test_the_key_of_what_names_no_file_is_that_of_its_plan(fleet: str | None) -> None:
    assert "contents" not in plan_of(cell_of({"plan": "kill_one"}, fleet=fleet))


@pytest.mark.deep
def test_undisturbed_learners_use_all_of_their_time_and_failures_cost_some() -> None:
    base = {
        "plan": "kill_one", "training.step_time": "50ms", "training.stop.rounds": 90,
        "expect": [{"check": "versions"}],
    }  # fmt: skip
    alone = measure(cell_of({**base, "faults": []}), 1)
    assert set(alone) == set(MEASURES)
    assert (alone["passes"], alone["goodput"]) == (1, pytest.approx(1, abs=0.01))
    assert alone["uptime"] == 1
    assert alone["rounds"] == pytest.approx(1, abs=0.1)  # a few dozen: one more is 3 %
    assert alone["contributors"] == pytest.approx(1, abs=0.01)
    assert alone["committed"] + alone["overwritten"] == pytest.approx(1, abs=0.03)
    killed = measure(cell_of({**base, "faults.0.for": "8s"}), 1)
    assert killed["goodput"] < alone["goodput"] - 0.02
