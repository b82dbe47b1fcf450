"""The study of goodput: near to what was published, and its page is what the code gives."""

from pathlib import Path

import pytest

from chaoslab.experiments import tables
from chaoslab.experiments.file import load
from tests.experiments.studies import grid_with

ROOT = Path(__file__).parent.parent.parent
STUDY = ROOT / "experiments" / "goodput.yaml"
PAGE = ROOT / "experiments" / "goodput" / "README.md"
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


def test_the_errors_of_the_page_are_within_its_bounds() -> None:
    text = PAGE.read_text("utf-8")
    assert "30 cells of goodput against arXiv 2604.21428" in text
    assert "Not met" not in text
