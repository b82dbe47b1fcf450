"""The study of goodput: near to what was published, and its page is what the code gives."""

import csv
from pathlib import Path

import pytest

from chaoslab.experiments import tables
from chaoslab.experiments.file import load
from chaoslab.experiments.model import Experiment
from tests.experiments.studies import grid_with

ROOT = Path(__file__).parent.parent.parent
STUDY = ROOT / "experiments" / "goodput.yaml"
PAGE = ROOT / "experiments" / "goodput" / "README.md"
RESULTS = ROOT / "experiments" / "goodput" / "results.csv"
PUBLISHED = {"failures": "one_per_year"}


@pytest.mark.deep
def test_thirty_cells_are_near_to_what_was_published(tmp_path: Path) -> None:
    it = grid_with(STUDY, tmp_path, "seeds=4", "base.horizon=2d", only=PUBLISHED)
    (published,) = it.experiment.published
    errors = tables.errors_of(it, published)
    assert errors.count == 30
    assert errors.rms < 2
    assert abs(errors.largest) <= 4.5


def test_one_set_of_constants_serves_all_cells() -> None:
    """The matrix says who is simulated; no cell has a cost or a repair of its own."""
    experiment, _ = load(STUDY)
    assert {*experiment.constants} == {*experiment.base} - {"horizon"}
    own = {key for one in experiment.matrix for given in one.values.values() for key in given}
    assert own == {"failures", "policy", "learners", "chips"}


def stated() -> tuple[Experiment, list[dict[str, str]]]:
    experiment, _ = load(STUDY)
    return experiment, list(csv.DictReader(RESULTS.read_text("utf-8").splitlines()))


def test_the_page_has_every_cell() -> None:
    experiment, lines = stated()
    assert [{d.name: line[d.name] for d in experiment.matrix} for line in lines] == [
        dict(labels) for labels, _ in experiment.cells()
    ]


@pytest.mark.parametrize("system", ["rigid", "elastic", "Decoupled M=16"])
def test_the_numbers_of_the_page_are_what_its_command_gives(tmp_path: Path, system: str) -> None:
    """Of the smallest cells with all of their seeds, to the last digit."""
    only = {"failures": "meta_rsc_2", "system": system, "chips": "150k"}
    it = grid_with(STUDY, tmp_path, only=only)
    _, lines = stated()
    (shown,) = [line for line in lines if only.items() <= line.items()]
    (made,) = csv.DictReader(tables.as_csv(it).splitlines())
    assert made == shown, "run `chaoslab experiment run experiments/goodput.yaml`"


def test_the_errors_of_the_page_are_within_its_bounds() -> None:
    text = PAGE.read_text("utf-8")
    assert "30 cells of goodput against arXiv 2604.21428" in text
    assert "Not met" not in text
