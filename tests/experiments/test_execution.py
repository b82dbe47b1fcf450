"""Execution of experiments: resumed, in any number of processes, always with the same results."""

import json
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.experiments import results as results_module
from chaoslab.experiments.execution import carry_out, values_of
from chaoslab.experiments.file import load
from chaoslab.experiments.results import ResultsFile
from tests.experiments.studies import SMALL, written


def simulated(
    folder: Path, text: str = SMALL, *, jobs: int = 1, most: int | None = None
) -> tuple[list[tuple[int, int]], ResultsFile]:
    """The progress that was told, and the results; interrupted after `most` simulations."""
    experiment, cells = load(written(folder, text))
    results = ResultsFile.open(folder / "results.jsonl")
    told: list[tuple[int, int]] = []

    def on_progress(done: int, every: int) -> None:
        told.append((done, every))
        if done == most:
            raise KeyboardInterrupt

    if most is None:
        carry_out(experiment, cells, results, jobs=jobs, on_progress=on_progress)
        values_of(experiment, cells, results)
    else:
        with pytest.raises(KeyboardInterrupt):
            carry_out(experiment, cells, results, jobs=jobs, on_progress=on_progress)
    return told, results


def test_every_cell_is_simulated_with_every_seed(tmp_path: Path) -> None:
    told, results = simulated(tmp_path)
    assert told == [(n, 24) for n in range(25)]
    assert len(results.found) == 24


def test_an_interrupted_experiment_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    simulated(tmp_path, most=10)
    told, resumed = simulated(tmp_path)
    assert told[0] == (0, 14)
    assert resumed.found == simulated(whole)[1].found


def test_a_line_that_was_cut_off_is_simulated_again(tmp_path: Path) -> None:
    simulated(tmp_path)
    path = tmp_path / "results.jsonl"
    before = path.read_bytes()
    path.write_bytes(before[:-20])
    told, _ = simulated(tmp_path)
    assert told[0] == (0, 1)
    assert sorted(path.read_bytes().splitlines()) == sorted(before.splitlines())


def test_what_is_no_result_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"key": "a"}\n')
    with pytest.raises(FleetError, match=r"results\.jsonl"):
        ResultsFile.open(path)
    assert ResultsFile.open(path, is_fresh=True).found == {}


def test_only_cells_with_other_settings_are_simulated_again(tmp_path: Path) -> None:
    simulated(tmp_path)
    told, _ = simulated(tmp_path, SMALL.replace("learners: 2}", "learners: 3}"))
    assert told[0] == (0, 12)


def test_more_seeds_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    simulated(tmp_path)
    told, _ = simulated(tmp_path, SMALL.replace("seeds: 3", "seeds: 5"))
    assert told[0] == (0, 16)


def test_another_simulator_simulates_everything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(tmp_path)
    monkeypatch.setattr(results_module, "simulator_digest", lambda _: "another")
    told, _ = simulated(tmp_path)
    assert told[0] == (0, 24)


@pytest.mark.deep
def test_processes_give_the_same_results_as_one(tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    one = simulated(alone)[1]
    told, two = simulated(together, jobs=2)
    assert two.found == one.found
    assert told[-1] == (24, 24)
    lines = [set((f / "results.jsonl").read_text().splitlines()) for f in (alone, together)]
    assert lines[0] == lines[1]
    assert all(json.loads(line)["values"] for line in lines[0])
