"""Execution of experiments: resumed, in any number of processes, always with the same results."""

from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.experiments import results as results_module
from chaoslab.experiments.execution import carry_out, values_of
from chaoslab.experiments.file import load
from chaoslab.experiments.results import ResultsFile
from tests.experiments.studies import SMALL, written


def simulated(
    folder: Path, text: str = SMALL, *, jobs: int = 1
) -> tuple[list[tuple[int, int]], ResultsFile]:
    """The progress that was told, and the results."""
    experiment, cells = load(written(folder, text))
    results = ResultsFile.open(folder / "results.jsonl")
    told: list[tuple[int, int]] = []
    carry_out(experiment, cells, results, jobs=jobs, on_progress=lambda *at: told.append(at))
    values_of(experiment, cells, results)
    return told, results


def test_every_cell_is_simulated_with_every_seed(tmp_path: Path) -> None:
    assert simulated(tmp_path)[0] == [(n, 24) for n in range(25)]


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


@pytest.mark.parametrize(
    ("before", "after", "number"),
    [("learners: 2}", "learners: 3}", 12), ("seeds: 3", "seeds: 5", 16)],
)
def test_only_what_is_new_is_simulated(
    tmp_path: Path, before: str, after: str, number: int
) -> None:
    simulated(tmp_path)
    assert simulated(tmp_path, SMALL.replace(before, after))[0][0] == (0, number)


def test_another_simulator_simulates_everything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(tmp_path)
    monkeypatch.setattr(results_module, "simulator_digest", lambda _: "another")
    assert simulated(tmp_path)[0][0] == (0, 24)


@pytest.mark.deep
def test_processes_give_the_same_results_as_one(tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    one = simulated(alone)[1]
    told, two = simulated(together, jobs=2)
    assert two.found == one.found
    assert told[-1] == (24, 24)
