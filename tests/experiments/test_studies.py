"""The studies of experiments/: their pages have every cell, and say what their commands give."""

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.experiments import tables
from chaoslab.experiments.file import load
from tests.experiments.studies import grid_with, stated

ROOT = Path(__file__).parents[2] / "experiments"
BANDWIDTH = {"model": "1B", "centres": "8", "utilisation": "90%"}
FOUR_REGIONS = {"compute": "3 s", "rate": "3gbit"}
GOODPUT = {"failures": "meta_rsc_2", "chips": "150k"}


@pytest.mark.parametrize("study", ["bandwidth", "four_regions", "goodput", "tiers"])
def test_the_page_has_every_cell(study: str) -> None:
    experiment, cells = load(ROOT / f"{study}.yaml")
    lines = [{d.name: line[d.name] for d in experiment.matrix} for line in stated(study)]
    assert lines == [dict(cell.labels) for cell in cells]


@pytest.mark.parametrize(
    ("study", "only"),
    [
        ("bandwidth", {**BANDWIDTH, "method": "data parallel"}),
        ("bandwidth", {**BANDWIDTH, "method": "and 4 bits"}),
        ("bandwidth", {**BANDWIDTH, "method": "Decoupled 4 bits"}),
        ("four_regions", {**FOUR_REGIONS, "method": "data parallel"}),
        ("four_regions", {**FOUR_REGIONS, "method": "Decoupled"}),
        ("goodput", {**GOODPUT, "system": "rigid"}),
        ("goodput", {**GOODPUT, "system": "elastic"}),
        ("goodput", {**GOODPUT, "system": "Decoupled M=16"}),
    ],
    ids=lambda given: given if isinstance(given, str) else given.get("method") or given["system"],
)
def test_the_numbers_of_the_page_are_what_its_command_gives(
    tmp_path: Path, study: str, only: Mapping[str, str]
) -> None:
    """With all seeds, to the last digit."""
    (shown,) = [line for line in stated(study) if only.items() <= line.items()]
    grid = grid_with(ROOT / f"{study}.yaml", tmp_path, only=only)
    (made,) = csv.DictReader(tables.as_csv(grid).splitlines())
    assert made == shown, f"run `chaoslab experiment run experiments/{study}.yaml`"
