"""The study of bandwidth: near to what was published, and its page is what the code gives."""

import math
import re
from pathlib import Path

import pytest

from chaoslab.experiments import tables
from chaoslab.experiments.file import load
from tests.experiments.studies import grid_with, stated

ROOT = Path(__file__).parent.parent.parent
STUDY = ROOT / "experiments" / "bandwidth.yaml"
PAGE = ROOT / "experiments" / "bandwidth" / "README.md"
PAIR = (198.0, 0.84)
"""Gbit/s for data parallel and for Decoupled DiLoCo (arXiv 2604.21428)."""


@pytest.mark.deep
@pytest.mark.parametrize("model", ["1B", "10B", "100B"])
def test_every_published_value_is_met_within_one_step_of_the_grid(
    tmp_path: Path, model: str
) -> None:
    it = grid_with(STUDY, tmp_path, only={"model": model, "centres": "2"})
    (published,) = [one for one in it.experiment.published if one.where["model"] == model]
    errors = tables.errors_of(it, published)
    assert errors.count == 25
    assert abs(errors.largest) <= 1
    assert errors.equal >= 20


@pytest.mark.deep
def test_without_its_fitted_constant_one_value_is_two_steps_off(tmp_path: Path) -> None:
    off = []
    for model in ("1B", "10B", "100B"):
        only = {"model": model, "centres": "2"}
        it = grid_with(STUDY, tmp_path, "base.sent_share=100%", only=only)
        off += [
            it.unit("bandwidth").difference(it.mean(labels, "bandwidth").value, published)
            for labels in it.cells
            if (published := it.published(labels, "bandwidth")) is not None
        ]
    assert len(off) == 75
    assert sorted(off)[-2:] == [1, 2]
    assert min(off) == 0


def test_one_set_of_constants_serves_all_cells() -> None:
    """The matrix says what is trained and exchanged; no cell has a fitted constant of its own."""
    experiment, _ = load(STUDY)
    assert {*experiment.constants} == {*experiment.base}
    own = {key for one in experiment.matrix for given in one.values.values() for key in given}
    assert not own & {"sent_share", "fragment_layers", "latency", "merge"}


def test_the_setting_that_the_page_calls_nearest_to_the_pair_is_the_nearest() -> None:
    found = {
        (line["model"], line["centres"], line["utilisation"], line["method"]):
            float(line["bandwidth"])
        for line in stated("bandwidth")
    }  # fmt: skip
    off = {}
    for (model, centres, utilisation, method), ours in found.items():
        if method.startswith("Decoupled"):
            other = found[model, centres, utilisation, "data parallel"]
            ratios = (other / PAIR[0], ours / PAIR[1])
            place = (model, centres, utilisation, method)
            off[place] = max(abs(math.log(ratio)) for ratio in ratios)
    nearest = min(off, key=lambda place: off[place])
    assert nearest == ("5B at 1 s", "8", "95%", "Decoupled 4 bits")
    other, ours = found[(*nearest[:3], "data parallel")], found[nearest]
    text = " ".join(PAGE.read_text("utf-8").split())
    assert f"{other:.3g} against {ours:.3g} Gbit/s, a factor of {other / ours:.0f}" in text


def test_the_page_tells_the_errors_of_its_tables() -> None:
    text = PAGE.read_text("utf-8")
    equal = [int(number) for number in re.findall(r", (\d+) equal\. Asked", text)]
    assert len(equal) == 3
    assert f"all 75 values are within one step of the grid and {sum(equal)} are equal" in text
    assert "Not met" not in text
