"""Tables of an experiment: Markdown for its page, CSV for other programs.

values of all cells ─► Grid ─► Markdown tables, each cell beside its published value
                            └► CSV, one line for each cell
                            └► errors against the published values, and whether bounds are met

A cell's value is the mean over its seeds, with an interval.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import product
from statistics import fmean, stdev
from typing import Final, Self

from chaoslab.core.units import plural
from chaoslab.experiments.kinds import KINDS, Kind
from chaoslab.experiments.model import Experiment, Labels, Published, Table
from chaoslab.experiments.units import Unit

_T_95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t for 1, 2, … degrees of freedom."""
_NORMAL_95: Final = 1.960


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean and the half width of its 95 % interval by Student's t."""

    value: float
    reach: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The mean of some values; one alone has no interval, and one that is infinite is it."""
        freedom = len(values) - 1
        if math.inf in values:
            return cls(value=math.inf, reach=0.0)
        if not freedom:
            return cls(value=values[0], reach=0.0)
        quantile = _T_95[freedom - 1] if freedom <= len(_T_95) else _NORMAL_95
        reach = quantile * stdev(values) / math.sqrt(len(values))
        return cls(value=fmean(values), reach=reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Differences from published values, in the unit that belongs to their measure."""

    count: int
    equal: int
    """Number of errors that are 0."""
    rms: float
    largest: float
    """The one that is farthest from 0, with its sign."""
    largest_at: str

    @classmethod
    def of(cls, errors: Sequence[tuple[str, float]]) -> Self:
        """Errors with the names of their cells; at least one."""
        at, largest = max(errors, key=lambda one: abs(one[1]))
        rms = math.sqrt(fmean(error * error for _, error in errors))
        equal = sum(not error for _, error in errors)
        return cls(count=len(errors), equal=equal, rms=rms, largest=largest, largest_at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The results of all cells, found by their labels."""

    experiment: Experiment
    cells: Sequence[Labels]
    values: Sequence[Mapping[str, Sequence[float]]]
    """Measures of each cell, each with a value for every seed."""

    @property
    def kind(self) -> Kind:
        """Kind of its cells."""
        return KINDS[self.experiment.kind]

    def unit(self, measure: str) -> Unit:
        """Unit of a measure."""
        return self.kind.unit(measure)

    def mean(self, labels: Labels, measure: str) -> Mean:
        """A measure of one cell, not scaled to its unit."""
        return Mean.of(self.values[self.cells.index(dict(labels))][measure])

    def published(self, labels: Labels, measure: str) -> float | None:
        """The published value of a cell in its unit; None if there is none."""
        for one in self.experiment.published:
            if one.measure == measure and one.where.items() <= labels.items():
                columns = list(self.experiment.dimension(one.columns).values)
                row = one.values.get(labels[one.rows])
                if row is not None:
                    return float(row[columns.index(labels[one.columns])])
        return None


def markdown(grid: Grid) -> str:
    """All tables of the experiment, and the errors against what was published."""
    parts = [
        _table(grid, table, fixed)
        for table in grid.experiment.tables
        for fixed in _places(grid.experiment, table)
    ]
    return "\n\n".join([*parts, *(verdict(grid, one) for one in grid.experiment.published)])


def legend(grid: Grid) -> str:
    """Number of cells, and content of one."""
    experiment = grid.experiment
    parts = [f"{plural(len(grid.cells), 'cell')}, without chance"]
    if grid.kind.is_random:
        parts = [
            f"{plural(len(grid.cells), 'cell')}, {plural(experiment.seeds, 'seed')} each",
            "± is the half width of the 95 % interval over seeds",
        ]
    if experiment.published:
        parts.append("in brackets the published value and the difference")
    return f"{'; '.join(parts)}."


def errors_of(grid: Grid, published: Published) -> Errors:
    """Differences of all cells with a published value."""
    errors = []
    columns = grid.experiment.dimension(published.columns).values
    unit = grid.unit(published.measure)
    for row, values in published.values.items():
        for column, value in zip(columns, values, strict=True):
            labels = {**published.where, published.rows: row, published.columns: column}
            ours = grid.mean(labels, published.measure).value
            errors.append((f"{row} at {column}", unit.difference(ours, value)))
    return Errors.of(errors)


def is_within(errors: Errors, published: Published) -> bool:
    """Whether the bounds of the file are met; True without any."""
    is_near = not published.max_rms or errors.rms < published.max_rms
    return is_near and (not published.max_error or abs(errors.largest) <= published.max_error)


def verdict(grid: Grid, published: Published) -> str:
    """A sentence on the errors, with their bounds."""
    errors = errors_of(grid, published)
    bounds = [f"an RMS below {published.max_rms:g}"] if published.max_rms else []
    bounds += [f"no cell off by more than {published.max_error:g}"] if published.max_error else []
    asked = f" Asked: {', '.join(bounds)}." if bounds else ""
    unmet = "" if is_within(errors, published) else " **Not met.**"
    unit = grid.unit(published.measure)
    largest = format(errors.largest, unit.error_digits)
    return (
        f"{errors.count} cells of {published.measure} against {published.source}: RMS "
        f"{errors.rms:.2f} {unit.error}, largest error {largest} ({errors.largest_at})"
        f"{f', {errors.equal} equal' if unit.has_steps else ''}.{asked}{unmet}"
    )


def as_csv(grid: Grid) -> str:
    """One line for each cell: labels, then each measure with its interval and published value."""
    names = [one.name for one in grid.experiment.matrix]
    measures = list(grid.values[0])
    head = [part for name in measures for part in (name, f"{name}_reach95", f"{name}_published")]
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*names, "seeds", *head])
    for labels in grid.cells:
        line: list[str] = []
        for name in measures:
            mean, published = grid.mean(labels, name), grid.published(labels, name)
            shown = "" if published is None else f"{published / grid.unit(name).scale:.6g}"
            line += [f"{mean.value:.6g}", f"{mean.reach:.3g}", shown]
        lines.writerow([*labels.values(), grid.experiment.seeds, *line])
    return text.getvalue()


# ---------------------------------------------------------------- one table


def _places(experiment: Experiment, table: Table) -> Iterator[Labels]:
    """The values of the dimensions that a table does not show, one combination after the other."""
    shown = {*table.dimensions.values()}
    others = [one for one in experiment.matrix if one.name not in shown]
    choices = [[table.where[d.name]] if d.name in table.where else list(d.values) for d in others]
    for labels in product(*choices):
        yield dict(zip((one.name for one in others), labels, strict=True))


def _table(grid: Grid, table: Table, fixed: Labels) -> str:
    rows = list(grid.experiment.dimension(table.rows).values)
    place = ", ".join(f"{name} {label}" for name, label in fixed.items())
    heads = table.measures or list(grid.experiment.dimension(table.columns).values)
    title, shown = _named(grid, table, heads)
    lines = [f"**{title}{f' ({place})' if place else ''}**", ""]
    lines += [f"| {table.rows} | {' | '.join(shown)} |"]
    lines += [f"| --- |{' ---: |' * len(heads)}"]
    for row in rows:
        at = {**fixed, table.rows: row}
        cells = (
            _cell(grid, at, head)
            if table.measures
            else _cell(grid, {**at, table.columns: head}, table.measure)
            for head in heads
        )
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _named(grid: Grid, table: Table, heads: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Title and heads of the columns. Units stand in a title of one's own, else in that of the
    table if all measures have the same, else in the heads.
    """
    first, *others = (grid.unit(one) for one in table.shown)
    if table.title or all(one.symbol == first.symbol for one in others):
        return table.title or first.named(table.measure or "measures"), heads
    return "measures", [grid.unit(one).named(one) for one in heads]


def _cell(grid: Grid, labels: Labels, measure: str) -> str:
    """`72.9 ± 0.1`, and beside it the published value and the difference: `(72, +0.9)`."""
    mean, published = grid.mean(labels, measure), grid.published(labels, measure)
    unit = grid.unit(measure)
    text = unit.show(mean.value)
    if grid.kind.is_random and grid.experiment.seeds > 1 and math.isfinite(mean.value):
        text += f" ± {unit.show(mean.reach)}"
    if published is None:
        return text
    return f"{text} ({published:g}, {unit.show_difference(mean.value, published)})"
