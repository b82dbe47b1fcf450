"""Page of an experiment: what it answers, its constants, tables and figure, and how it was made.

README.md     text around the block `results` stays as it is; a new page has only its head
results.csv   figure.svg: a panel for each fleet, say, with a line for each system

100 ┤●──●──●        ● simulated, with its interval
    │ ○  ○  ○       ○ published
  0 ┴──────────
    150k 300k 600k
"""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from math import ceil, floor, isfinite, log10
from pathlib import Path
from typing import Final, Self

from chaoslab import __version__
from chaoslab.core.errors import FleetError, PlanError
from chaoslab.experiments import tables
from chaoslab.experiments.kinds import KINDS
from chaoslab.experiments.model import Experiment, Figure, Labels
from chaoslab.experiments.results import simulator_digest
from chaoslab.experiments.tables import Grid
from chaoslab.plan.file.writing import one_line

README_MD: Final = "README.md"
RESULTS_CSV: Final = "results.csv"
FIGURE_SVG: Final = "figure.svg"
_BEGIN, _END = "<!-- generated: results -->\n", "<!-- end: results -->"


def write(grid: Grid, folder: Path, *, command: str) -> Mapping[str, Path]:
    """Write the page with table and figure; `command` makes them again. The files by name."""
    experiment = grid.experiment
    texts = {RESULTS_CSV: tables.as_csv(grid)}
    if experiment.figure is not None:
        texts[FIGURE_SVG] = svg(
            grid, experiment.figure, footer=f"{command} ({_versions(experiment)})"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        readme = folder / README_MD
        old = readme.read_text("utf-8") if readme.exists() else _head(experiment)
        texts[README_MD] = _rewritten(old, block(grid, command=command), readme)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FleetError(f"{folder}: {error}") from error
    return {name: folder / name for name in texts}


def block(grid: Grid, *, command: str) -> str:
    """Generated block: command and versions, constants, figure, tables."""
    experiment = grid.experiment
    made = f"{tables.legend(grid)} Made with {_versions(experiment)}."
    parts = [f"```sh\n{command}\n```", made]
    if experiment.constants:
        parts.append(_constants(experiment))
    if experiment.figure is not None:
        parts.append(f"![{experiment.question}]({FIGURE_SVG})")
    return "\n\n".join([*parts, tables.markdown(grid)])


def _versions(experiment: Experiment) -> str:
    code = f"{experiment.kind} {simulator_digest(experiment.kind)}"
    what = "training" if KINDS[experiment.kind].is_real else "simulator"
    return f"chaoslab {__version__}, Python {platform.python_version()}, {what} {code}"


def _constants(experiment: Experiment) -> str:
    lines = ["| constant | value | where it comes from |", "| --- | --- | --- |"]
    for name, source in experiment.constants.items():
        lines.append(f"| {name} | {one_line(experiment.base[name])} | {source} |")
    return "\n".join(lines)


def _head(experiment: Experiment) -> str:
    return f"# {experiment.name}\n\n{experiment.question}\n\n{_BEGIN}{_END}\n"


def _rewritten(text: str, new: str, readme: Path) -> str:
    head, is_there, rest = text.partition(_BEGIN)
    _, is_closed, tail = rest.partition(_END)
    if not is_there or not is_closed:
        raise PlanError(f"needs the lines {_BEGIN.strip()} and {_END}", where=str(readme))
    return f"{head}{_BEGIN}\n{new}\n\n{_END}{tail}"


_WIDTH, _HEIGHT, _MARGIN, _LEGEND = 420, 260, 50, 24
_COLOURS: Final = ("#b3452f", "#c9932b", "#7a9a3a", "#2f8f83", "#2f6db3", "#6a4fa3", "#8a8a8a")
_PANELS_IN_A_ROW: Final = 2
_FONT: Final = 'font-family="sans-serif" font-size="13"'


def svg(grid: Grid, figure: Figure, *, footer: str) -> str:
    """The figure; `footer` says how it was made."""
    experiment = grid.experiment
    places = list(_places(grid, figure))
    across = min(len(places), _PANELS_IN_A_ROW)
    down = -(-len(places) // across)
    labels = list(experiment.dimension(figure.lines).values)
    width = max(
        across * (_WIDTH + _MARGIN) + _MARGIN, ceil(_MARGIN + sum(map(_entry_width, labels)))
    )
    top = 40 + _LEGEND
    height = top + down * (_HEIGHT + 2 * _MARGIN) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
        f"<title>{escape(experiment.name)}: {escape(experiment.question)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(_MARGIN, 24, _title(grid, figure), "start"),
        *_legend(labels),
    ]
    axis = Axis.of(grid, figure.measure)
    for number, place in enumerate(places):
        x = _MARGIN + number % across * (_WIDTH + _MARGIN)
        y = top + number // across * (_HEIGHT + 2 * _MARGIN) + 20
        parts += _panel(grid, figure, axis, place, (x, y))
    parts += [_text(_MARGIN, height - 10, footer, "start", colour="#666666"), "</svg>"]
    return "\n".join(parts) + "\n"


def _places(grid: Grid, figure: Figure) -> Iterator[Labels]:
    """Panels: values of all dimensions that are no axis and no line."""
    matrix = grid.experiment.matrix
    others = [one for one in matrix if one.name not in {figure.along, figure.lines}]
    for labels in product(*(one.values for one in others)):
        place = dict(zip((one.name for one in others), labels, strict=True))
        if figure.where.items() <= place.items():
            yield place


def _title(grid: Grid, figure: Figure) -> str:
    said = "; filled: simulated, hollow: published" if grid.experiment.published else ""
    return f"{grid.unit(figure.measure).named(figure.measure)}{said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The vertical axis, from 0 to 100 or logarithmic over whole powers of ten."""

    least: float
    most: float
    marks: Sequence[float]
    is_logarithmic: bool

    @classmethod
    def of(cls, grid: Grid, measure: str) -> Self:
        """Range of all values of a measure."""
        unit = grid.unit(measure)
        if not unit.is_logarithmic:
            marks = tuple(float(percent) for percent in range(0, 101, 20))
            return cls(least=0.0, most=100.0, marks=marks, is_logarithmic=False)
        values = [unit.scale * value for one in grid.values for value in one[measure]]
        finite = [log10(value) for value in values if value > 0 and isfinite(value)] or [0.0]
        low, high = floor(min(finite)), max(ceil(max(finite)), floor(min(finite)) + 1)
        marks = tuple(10.0**power for power in range(low, high + 1))
        return cls(least=low, most=high, marks=marks, is_logarithmic=True)

    def height(self, value: float) -> float:
        """Position of a value between the lower and the upper end, 0 to 1."""
        if self.is_logarithmic:
            value = log10(value) if value > 0 else self.least
        return min(1.0, max(0.0, (value - self.least) / (self.most - self.least)))


def _legend(labels: Sequence[str]) -> Iterator[str]:
    x = float(_MARGIN)
    for number, label in enumerate(labels):
        yield f'<rect x="{x:.0f}" y="38" width="14" height="4" fill="{_colour(number)}"/>'
        yield _text(x + 20, 45, label, "start")
        x += _entry_width(label)


def _entry_width(label: str) -> float:
    return 40 + 7.5 * len(label)


def _panel(
    grid: Grid, figure: Figure, axis: Axis, place: Labels, corner: tuple[float, float]
) -> Iterator[str]:
    x, y = corner
    along = list(grid.experiment.dimension(figure.along).values)
    lines = list(grid.experiment.dimension(figure.lines).values)
    yield _text(x, y - 8, ", ".join(f"{key} {label}" for key, label in place.items()), "start")
    for mark in axis.marks:
        level = _y(y, axis, mark)
        yield f'<path d="M {x} {level:.1f} h {_WIDTH}" stroke="#dddddd"/>'
        yield _text(x - 6, level + 4, f"{mark:g}", "end")
    for number, label in enumerate(along):
        yield _text(_x(x, number, len(along)), y + _HEIGHT + 18, label)
    yield _text(x + _WIDTH / 2, y + _HEIGHT + 36, figure.along)
    for number, line in enumerate(lines):
        line_place = {**place, figure.lines: line}
        yield from _line(grid, figure, axis, line_place, corner, _colour(number))


def _line(
    grid: Grid, figure: Figure, axis: Axis, place: Labels, corner: tuple[float, float], colour: str
) -> Iterator[str]:
    along = list(grid.experiment.dimension(figure.along).values)
    x, y = corner
    scale = grid.unit(figure.measure).scale
    points, marks = [], []
    for number, label in enumerate(along):
        labels = {**place, figure.along: label}
        mean = grid.mean(labels, figure.measure)
        at, level = _x(x, number, len(along)), _y(y, axis, scale * mean.value)
        points.append(f"{at:.1f} {level:.1f}")
        if grid.kind.is_random:
            upper = _y(y, axis, scale * (mean.value + mean.reach))
            lower = _y(y, axis, scale * (mean.value - mean.reach))
            marks.append(f'<path d="M {at:.1f} {upper:.1f} v {lower - upper:.1f}" '
                         f'stroke="{colour}"/>')  # fmt: skip
        marks.append(f'<circle cx="{at:.1f}" cy="{level:.1f}" r="3" fill="{colour}"/>')
        published = grid.published(labels, figure.measure)
        if published is not None:
            level = _y(y, axis, published)
            marks.append(f'<circle cx="{at:.1f}" cy="{level:.1f}" r="5" fill="none" '
                         f'stroke="{colour}"/>')  # fmt: skip
    yield f'<path d="M {" L ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    yield from marks


def _x(left: float, number: int, count: int) -> float:
    return left + _WIDTH * (number + 0.5) / count


def _y(top: float, axis: Axis, value: float) -> float:
    return top + _HEIGHT * (1 - axis.height(value))


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _text(x: float, y: float, text: str, anchor: str = "middle", *, colour: str = "#222222") -> str:
    return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">'
            f"{escape(text)}</text>")  # fmt: skip
