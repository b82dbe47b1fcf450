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


OWN = {"bandwidth": {"bits", "merged_bits"}, "goodput": set[str]()}
"""Constants that cells of a study have for themselves: how much they send."""
PUBLISHED = (
    *(("bandwidth", (), {"model": model, "centres": "2"}) for model in ("1B", "10B", "100B")),
    ("goodput", ("seeds=4", "base.horizon=2d"), {"failures": "one_per_year"}),
)


@pytest.mark.deep
@pytest.mark.parametrize(("study", "overrides", "only"), PUBLISHED)
def test_what_was_published_is_met_within_the_bounds_of_the_study(
    tmp_path: Path, study: str, overrides: tuple[str, ...], only: Mapping[str, str]
) -> None:
    it = grid_with(ROOT / f"{study}.yaml", tmp_path, *overrides, only=only)
    (published,) = [one for one in it.experiment.published if only.items() >= one.where.items()]
    errors = tables.errors_of(it, published)
    assert errors.count == (30 if study == "goodput" else 25)
    assert abs(errors.largest) <= (4.5 if study == "goodput" else 1)
    assert study == "goodput" or errors.equal >= 20
    assert errors.rms < 2


@pytest.mark.deep
def test_without_the_fitted_constant_of_bandwidth_one_value_is_two_steps_off(
    tmp_path: Path,
) -> None:
    off = []
    for study, _, only in PUBLISHED[:3]:
        it = grid_with(ROOT / f"{study}.yaml", tmp_path, "base.sent_share=100%", only=only)
        off += [
            it.unit("bandwidth").difference(it.mean(labels, "bandwidth").value, published)
            for labels in it.cells
            if (published := it.published(labels, "bandwidth")) is not None
        ]
    assert (len(off), min(off), sorted(off)[-2:]) == (75, 0, [1, 2])


@pytest.mark.parametrize("study", OWN)
def test_one_set_of_constants_serves_all_cells_of_a_study(study: str) -> None:
    experiment, _ = load(ROOT / f"{study}.yaml")
    assert {*experiment.constants} == {*experiment.base} - {"horizon"}
    own = {key for one in experiment.matrix for given in one.values.values() for key in given}
    assert own & {*experiment.constants} == OWN[study]


def test_constants_of_four_regions_are_those_of_bandwidth() -> None:
    ours, theirs = (load(ROOT / f"{study}.yaml")[0].base for study in ("four_regions", "bandwidth"))
    shared = ours.keys() & theirs.keys() - {"latency"}
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
    assert "sent_share" in shared


@pytest.mark.parametrize("rate", ["2gbit", "3gbit", "4gbit", "5gbit"])
def test_the_page_says_where_twenty_times_begins_and_ends(rate: str) -> None:
    def ends(method: str) -> str:
        """The shortest and the longest step with 20 times and all rounds."""
        steps = [
            line["compute"]
            for line in stated("four_regions")
            if (line["method"], line["rate"]) == (method, rate)
            and float(line["speed_up"]) >= 20
            and float(line["rounds"]) >= 0.99
        ]
        return f"{steps[0]} to {steps[-1]}"

    row = f"| {rate} | {ends('Decoupled')} | {ends('Decoupled 4 bits')} |"
    assert row in (ROOT / "four_regions" / "README.md").read_text("utf-8")


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
    assert made == shown, (
        f"run `chaoslab research experiment experiments/{study}.yaml --out experiments/{study}`"
    )
