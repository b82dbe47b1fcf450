"""Experiment as frozen data: base, matrix, seeds, what to show, and the published values beside it.

matrix: {system: {rigid: {policy: rigid}, …}, chips: [150k, 300k]}
    a dimension is a list of values of the setting with its name, or names with their settings
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

from chaoslab.core.errors import PlanError
from chaoslab.plan.file.document import Tree, nearest

Labels: TypeAlias = Mapping[str, str]
"""Labels of a cell: the name of its value in each dimension."""


class Settings(dict[str, Tree]):
    """Settings as they were written, before they are decoded for a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One dimension of the matrix."""

    name: str
    values: Mapping[str, Settings]
    """Settings by label, in the order of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of one measure by two dimensions, or of several by one.

    Dimensions that it does not name give a table for each value.
    """

    rows: str = field(metadata={"example": "system"})
    """Dimension of the rows."""
    measure: str = field(default="", metadata={"example": "goodput"})
    """Measure in the cells."""
    columns: str = field(default="", metadata={"example": "chips"})
    """Dimension of the columns."""
    measures: tuple[str, ...] = field(default=(), metadata={"example": "[goodput, uptime]"})
    """Instead of `measure` and `columns`: a column for each of these measures."""
    where: Mapping[str, str] = field(
        default_factory=dict, metadata={"example": "{failures: one_per_year}"}
    )
    """Values of other dimensions: only these are shown."""
    title: str = ""
    """Title of the table; default: the measure and its place in the matrix."""

    def __post_init__(self) -> None:
        if bool(self.measures) == bool(self.measure or self.columns):
            raise PlanError("needs either `measure` and `columns`, or `measures`", key="measures")
        if not self.measures and not (self.measure and self.columns):
            missing = "columns" if self.measure else "measure"
            raise PlanError("`measure` and `columns` belong together", key=missing)
        _refuse_one_twice(rows=self.rows, columns=self.columns)

    @property
    def dimensions(self) -> Mapping[str, str]:
        """Dimensions of the rows and of the columns, by key."""
        shown = {"rows": self.rows, "columns": self.columns}
        return {key: name for key, name in shown.items() if name}

    @property
    def shown(self) -> tuple[str, ...]:
        """All measures in it."""
        return self.measures or (self.measure,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Published values of cells, and how near the simulated ones must be."""

    source: str = field(metadata={"example": "arXiv 2604.21428, table 1"})
    """Source of the published values."""
    measure: str = field(metadata={"example": "goodput"})
    """The measure."""
    rows: str = field(metadata={"example": "system"})
    """Dimension whose labels are the keys of `values`."""
    columns: str = field(metadata={"example": "chips"})
    """Dimension along which each list of `values` goes."""
    values: Mapping[str, tuple[float, ...]] = field(metadata={"example": "{rigid: [72, 57]}"})
    """Published values, in the unit in which the measure is shown."""
    where: Mapping[str, str] = field(
        default_factory=dict, metadata={"example": "{failures: one_per_year}"}
    )
    """Values of all other dimensions."""
    max_rms: float = 0.0
    """Largest root mean square of the errors, in the unit of these; 0: no bound."""
    max_error: float = 0.0
    """Largest allowed error of a cell, in the same unit; 0: no bound."""

    def __post_init__(self) -> None:
        _refuse_one_twice(rows=self.rows, columns=self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing: a panel for each value of the dimensions that are no axis and no line."""

    measure: str = field(metadata={"example": "goodput"})
    """Vertical axis: logarithmic unless it is in percent."""
    along: str = field(metadata={"example": "chips"})
    """Dimension of the horizontal axis."""
    lines: str = field(metadata={"example": "system"})
    """Dimension with a line for each value."""
    where: Mapping[str, str] = field(default_factory=dict, metadata={"example": "{chips: 150k}"})
    """Values of other dimensions: only these have a panel."""

    def __post_init__(self) -> None:
        _refuse_one_twice(along=self.along, lines=self.lines)


def _refuse_one_twice(**dimensions: str) -> None:
    """PlanError at the second key if both name one dimension."""
    (first, one), (second, other) = dimensions.items()
    if one == other:
        raise PlanError(f"is the dimension of `{first}`: name another", key=second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A study that one file describes."""

    name: str = field(metadata={"example": "goodput"})
    """Names the study and the folder of its records."""
    question: str = field(metadata={"example": "How much time is useful?"})
    """Question that it answers."""
    base: Settings = field(metadata={"example": "{horizon: 10d}"})
    """Settings of all cells."""
    matrix: tuple[Dimension, ...] = field(metadata={"example": "{chips: [150k, 300k]}"})
    """Settings that differ from cell to cell."""
    simulate: str = field(default="", metadata={"example": "renewal"})
    """Kind of simulation of a cell."""
    run: str = field(default="", metadata={"example": "plan"})
    """Instead of `simulate`: what a cell runs for real, one after the other."""
    seeds: int = 20
    """Seeds of each cell: 0, 1, …; not where nothing is random."""
    tables: tuple[Table, ...] = ()
    """Tables of the results."""
    published: tuple[Published, ...] = ()
    """Published values to compare with."""
    constants: Mapping[str, str] = field(
        default_factory=dict, metadata={"example": "{change: fitted}"}
    )
    """Settings of `base` that are constants of the study: fitted, assumed, or their source."""
    figure: Figure | None = None
    """A drawing of the results."""
    quick: Settings | None = field(
        default=None, metadata={"example": "{training.stop: {rounds: 60}}"}
    )
    """Settings of all cells with `--quick`, in place of those of `base`."""

    def __post_init__(self) -> None:
        if self.simulate and self.run:
            raise PlanError("stands beside `run`: write one of them", key="simulate")
        if not self.simulate and not self.run:
            text = "is missing: write `simulate: renewal`, or `run: plan` for real runs"
            raise PlanError(text, key="simulate")
        if not 1 <= self.seeds <= 10_000:
            raise PlanError(f"must be 2 to 10,000, got {self.seeds}", key="seeds")
        for number, table in enumerate(self.tables):
            self._require_dimensions(f"tables.{number}", **table.dimensions)
            self._require_labels(f"tables.{number}.where", table.where)
        for number, one in enumerate(self.published):
            self._require_published(f"published.{number}", one)
        if self.figure is not None:
            self._require_dimensions("figure", along=self.figure.along, lines=self.figure.lines)
            self._require_labels("figure.where", self.figure.where)
        for name in self.constants:
            if name not in self.base:
                raise PlanError(nearest(name, self.base, noun="setting of `base`"),
                                key=f"constants.{name}")  # fmt: skip

    @property
    def kind(self) -> str:
        """Kind of its cells, as `kinds.KINDS` names it."""
        return f"run {self.run}" if self.run else self.simulate

    def reduced(self, seeds: int) -> "Experiment":
        """The same with the settings of `quick` and fewer seeds: to see that all of it works."""
        base = Settings({**self.base, **(self.quick or {})})
        return replace(self, base=base, seeds=min(self.seeds, seeds))

    def dimension(self, name: str) -> Dimension:
        """A dimension by its name."""
        return next(one for one in self.matrix if one.name == name)

    def cells(self) -> Iterator[tuple[Labels, Settings]]:
        """Every combination of the matrix with its settings, the last dimension fastest."""
        names = [one.name for one in self.matrix]
        for values in product(*(one.values.items() for one in self.matrix)):
            settings = Settings(self.base)
            for _, own in values:
                settings.update(own)
            yield dict(zip(names, (label for label, _ in values), strict=True)), settings

    def _require_published(self, key: str, one: Published) -> None:
        self._require_dimensions(key, rows=one.rows, columns=one.columns)
        self._require_labels(f"{key}.where", one.where)
        self._require_labels(f"{key}.values", dict.fromkeys(one.values, ""), of=one.rows)
        others = {d.name for d in self.matrix} - {one.rows, one.columns}
        if missing := sorted(others - one.where.keys()):
            raise PlanError(f"needs a value of {missing[0]}", key=f"{key}.where")
        width = len(self.dimension(one.columns).values)
        for label, values in one.values.items():
            if len(values) != width:
                raise PlanError(
                    f"has {len(values)} values, but {one.columns} has {width}",
                    key=f"{key}.values.{label}",
                )

    def _require_dimensions(self, key: str, **dimensions: str) -> None:
        known = [one.name for one in self.matrix]
        for part, name in dimensions.items():
            if name not in known:
                raise PlanError(nearest(name, known, noun="dimension", lists_all=True),
                                key=f"{key}.{part}")  # fmt: skip

    def _require_labels(self, key: str, labels: Labels, *, of: str = "") -> None:
        for name, label in labels.items():
            dimension, wanted = (of, name) if of else (name, label)
            if not of:
                self._require_dimensions(key, **{name: name})
            known = self.dimension(dimension).values
            if wanted not in known:
                raise PlanError(nearest(wanted, known, noun=dimension, lists_all=True),
                                key=f"{key}.{name}")  # fmt: skip
