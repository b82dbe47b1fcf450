"""Tables of experiments: means with intervals, published values beside them, errors, bounds."""

import csv
import math
from io import StringIO
from pathlib import Path
from statistics import fmean, stdev
from xml.etree import ElementTree as Xml

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.experiments import page, tables
from chaoslab.experiments.page import svg
from chaoslab.experiments.tables import Errors, Grid, Mean
from tests.experiments.studies import SMALL, THIN, grid_of

VALUES = [0.57, 0.27, 0.90, 0.70, 0.9, 0.8, 0.99, 0.97]
"""Of the eight cells: the third differs by 2 points from what is published."""


def grid(folder: Path, text: str = SMALL) -> Grid:
    values = [
        {"goodput": [value - 0.01, value, value + 0.01], "uptime": [1.0, 1.0, 1.0]}
        for value in VALUES
    ]
    return grid_of(folder, text, values)


def test_a_table_shows_intervals_and_published_values(tmp_path: Path) -> None:
    first, second, uptime, *_ = tables.markdown(grid(tmp_path)).split("\n\n**")
    assert first.splitlines() == [
        "**goodput in % (failures one_per_year)**",
        "",
        "| system | 300k | 1.2M |",
        "| --- | ---: | ---: |",
        "| rigid | 57.0 ± 2.5 (57, +0.0) | 27.0 ± 2.5 (27, +0.0) |",
        "| decoupled | 90.0 ± 2.5 (88, +2.0) | 70.0 ± 2.5 (70, +0.0) |",
    ]
    assert "| rigid | 90.0 ± 2.5 | 80.0 ± 2.5 |" in second
    assert "| llama_3 | 100.0 ± 0.0 | 100.0 ± 0.0 |" in uptime


COUNTED = """tables:
  - {measures: [goodput, interruptions, outages], rows: system, where: {chips: 1.2M}}
  - {measures: [interruptions, outages], rows: system, where: {chips: 1.2M}}
  - {measure: interruptions, rows: system, columns: chips}
figure: {measure: interruptions, along: chips, lines: system}
"""


def test_counts_are_shown_as_they_are_and_each_measure_has_its_unit(tmp_path: Path) -> None:
    head, _, _ = SMALL.partition("tables:")
    counts = {"interruptions": [11402.0, 11402.5, 11403.0], "outages": [0.0, 0.0, 0.0]}
    it = grid_of(tmp_path, head + COUNTED, [{"goodput": [value] * 3, **counts} for value in VALUES])
    first, *_ = tables.markdown(it).split("\n\n**")
    assert first.splitlines()[2:] == [
        "| system | goodput in % | interruptions | outages |",
        "| --- | ---: | ---: | ---: |",
        "| rigid | 27.0 ± 0.0 (27, +0.0) | 11402.5 ± 1.2 | 0.0 ± 0.0 |",
        "| decoupled | 70.0 ± 0.0 (70, +0.0) | 11402.5 ± 1.2 | 0.0 ± 0.0 |",
    ]
    assert "| system | interruptions | outages |" in tables.markdown(it)
    assert svg(it, it.experiment.figure, footer="")


@pytest.mark.parametrize(
    ("bounds", "is_within"),
    [
        ("max_rms: 1.1\n    max_error: 2.1", True),
        ("max_rms: 0.9\n    max_error: 2.1", False),
        ("max_rms: 1.1\n    max_error: 1.9", False),
        ("max_error: 1.9", False),
    ],
)
def test_bounds_of_published_values_hold_or_are_told_to_be_missed(
    tmp_path: Path, bounds: str, is_within: bool
) -> None:
    it = grid(tmp_path, SMALL.replace("max_rms: 20\n    max_error: 30", bounds))
    published = it.experiment.published[0]
    errors = tables.errors_of(it, published)
    assert (errors.count, errors.rms) == (4, pytest.approx(1.0))
    assert (errors.largest, errors.largest_at) == (pytest.approx(2.0), "decoupled at 300k")
    assert tables.is_within(errors, published) is is_within
    assert ("**Not met.**" in tables.markdown(it)) is not is_within


def test_the_csv_has_a_line_for_each_cell(tmp_path: Path) -> None:
    lines = list(csv.DictReader(StringIO(tables.as_csv(grid(tmp_path)))))
    assert len(lines) == 8
    assert (lines[2]["system"], lines[2]["seeds"]) == ("decoupled", "3")
    assert float(lines[2]["goodput"]) == pytest.approx(0.9)
    assert (lines[2]["goodput_published"], lines[4]["goodput_published"]) == ("0.88", "")


SPACE = "{http://www.w3.org/2000/svg}"


class Picture:
    """What is drawn in the figure of a grid."""

    def __init__(self, it: Grid) -> None:
        self.root = Xml.fromstring(svg(it, it.experiment.figure, footer="made by <hand>"))
        self.texts = [one.text or "" for one in self.root.iter(f"{SPACE}text")]
        circles = self.root.findall(f"{SPACE}circle")
        is_hollow = [one.get("fill") == "none" for one in circles]
        levels = [float(one.get("cy", "0")) for one in circles]
        self.published = [y for y, hollow in zip(levels, is_hollow, strict=True) if hollow]
        self.simulated = [y for y, hollow in zip(levels, is_hollow, strict=True) if not hollow]


def test_a_figure_has_a_panel_for_each_fleet_and_a_line_for_each_system(tmp_path: Path) -> None:
    name = "a system with a long name, " * 6
    drawn = Picture(grid(tmp_path, SMALL.replace("decoupled:", f'"{name}":')))
    assert (len(drawn.published), len(drawn.simulated)) == (4, 8)
    assert {"failures one_per_year", "failures llama_3", "rigid", "1.2M", "made by <hand>"} < {
        *drawn.texts
    }
    assert min(*drawn.published, *drawn.simulated) > 0
    (legend,) = (one for one in drawn.root.iter(f"{SPACE}text") if one.text == name)
    assert float(legend.attrib["x"]) + 7 * len(name) < float(
        drawn.root.attrib["viewBox"].split()[2]
    )


def test_a_figure_has_panels_only_for_the_values_it_names(tmp_path: Path) -> None:
    lines = "along: chips, lines: system"
    text = SMALL.replace(lines, f"{lines}, where: {{failures: llama_3}}")
    texts = Picture(grid(tmp_path, text)).texts
    assert ("failures llama_3" in texts, "failures one_per_year" in texts) == (True, False)


def test_without_chance_and_in_other_units_there_are_no_intervals_and_logarithmic_axes(
    tmp_path: Path,
) -> None:
    values = [0.9540954763, 2.94705170, 0.1, math.inf]
    it = grid_of(tmp_path, THIN, [{"bandwidth": [value]} for value in values])
    text = tables.markdown(it)
    assert text.splitlines()[0] == "**bandwidth in Gbit/s**"
    assert "| data_parallel | 0.954 (0.9, +0) | 2.95 (2.4, +1) |" in text
    assert "| diloco | 0.1 | none |" in text
    assert page.block(it, command="…")
    drawn = Picture(it)
    assert {"0.01", "0.1", "1", "10", "100"} & {*drawn.texts} == {"0.1", "1", "10"}
    first, _, low, high = drawn.simulated
    share = (low - first) / (low - high)
    assert share == pytest.approx(math.log10(values[0] / 0.1) / 2, abs=0.01)


# ---------------------------------------------------------------- statistics


def test_the_interval_is_that_of_student() -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    mean = Mean.of(values)
    assert (mean.value, mean.reach) == (fmean(values), pytest.approx(3.182 * stdev(values) / 2))
    assert Mean.of([0.0, 1.0] * 50).reach == pytest.approx(1.96 * stdev([0.0, 1.0] * 50) / 10)
    assert Mean.of([0.5]) == Mean(value=0.5, reach=0.0)


def test_the_largest_error_keeps_its_sign() -> None:
    errors = Errors.of([("a", 1.0), ("b", -3.0)])
    assert (errors.equal, errors.largest, errors.largest_at) == (0, -3.0, "b")
    assert errors.rms == pytest.approx(5**0.5)


# ---------------------------------------------------------------- the page


def test_a_page_says_how_it_was_made_and_keeps_the_text_around_its_block(tmp_path: Path) -> None:
    it, folder = grid(tmp_path), tmp_path / "small"
    written = page.write(it, folder, command="chaoslab research experiment small.yaml")
    assert sorted(written) == ["README.md", "figure.svg", "results.csv"]
    readme = written["README.md"]
    text = readme.read_text("utf-8")
    again = "chaoslab research experiment small.yaml"
    told = ("# small", again, "(figure.svg)", "| slice_chips | 64 |")
    assert [wanted for wanted in told if wanted not in text] == []
    readme.write_text(text.replace("# small", "# Small, told by hand"), encoding="utf-8")
    page.write(it, folder, command="chaoslab research experiment small.yaml --set seeds=3")
    again = readme.read_text("utf-8")
    assert again.startswith("# Small, told by hand")
    assert again.count("(figure.svg)") == text.count("(figure.svg)")
    assert "--set seeds=3" in again
    readme.write_text("mine")
    with pytest.raises(PlanError, match=r"README\.md"):
        page.write(it, folder, command="…")
    assert readme.read_text() == "mine"
