"""Reading of an experiment's file: YAML to `Experiment`, and the settings of each cell.

    file ─► plan.file.document (places) ─► plan.file.shape (keys, units) ─► Experiment ─► Cell …

All mistakes are PlanErrors that name file, line and key, as those of a plan.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from chaoslab.core.errors import PlanError
from chaoslab.experiments.kinds import KINDS
from chaoslab.experiments.model import Dimension, Experiment, Labels, Settings
from chaoslab.plan.file.document import (
    Branch,
    Document,
    Mistake,
    Override,
    Tree,
    nearest,
    override,
    read,
)
from chaoslab.plan.file.shape import UNKNOWN_KEY, entry, keys_of, mapping, record
from chaoslab.plan.file.values import choice, plain, text
from chaoslab.plan.file.whole import NAME, NAMED

_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of the matrix, ready to be simulated or run."""

    labels: Labels
    settings: object
    """A dataclass of the kind of the experiment."""


def load(
    path: Path, *, overrides: Sequence[str] = (), quick_seeds: int | None = None
) -> tuple[Experiment, Sequence[Cell]]:
    """The experiment in a file, and its cells; PlanError names the mistakes.

    `quick_seeds`: as it is with `--quick`, which is with so many seeds at most.
    """
    document = read(path, noun="experiment", begins="name: …` and `question: …")
    for setting in overrides:
        override(document, Override(setting=setting, label=f"--set {setting}"))
    document.refuse(())
    experiment = _decoded(document)
    document.refuse(_mistaken_measures(experiment))
    if quick_seeds is not None:
        experiment = experiment.quickly(quick_seeds)
    bases = ("base",) if quick_seeds is None else ("base", "quick")
    return experiment, tuple(_cells(document, experiment, bases))


def _decoded(document: Document) -> Experiment:
    simulated = [name for name, kind in KINDS.items() if not kind.is_real]
    real = [name.removeprefix("run ") for name, kind in KINDS.items() if kind.is_real]
    special = {
        Settings: plain(_settings, {"type": "object"}),
        tuple[Dimension, ...]: plain(_matrix, {"type": "object"}),
    }
    keys = {
        "version": entry(
            plain(_version, {"const": _VERSION}),
            "Version of the format.",
            example=f"{_VERSION}",
            is_required=True,
        ),
        **keys_of(Experiment, special),
        "name": entry(
            text(NAME, NAMED),
            "Names the study and the folder of its records.",
            example="goodput",
            is_required=True,
        ),
        "simulate": entry(choice(str, simulated, noun="simulation"), None),
        "run": entry(choice(str, real, noun="kind of run"), None),
    }
    shape = mapping("Experiment", keys, _experiment)
    try:
        found: Experiment = TypeAdapter(shape).validate_python(document.tree)
    except ValidationError as error:
        for mistake in error.errors(include_url=False):
            branch = _branch(document.tree, mistake["loc"])
            document.blame(branch, mistake["msg"], is_key=mistake["type"] == UNKNOWN_KEY)
        raise document.error() from error
    return found


def _mistaken_measures(experiment: Experiment) -> Iterator[Mistake]:
    known = KINDS[experiment.kind].measures
    asked: list[tuple[Branch, str]] = [
        (("tables", number, "measures" if table.measures else "measure"), name)
        for number, table in enumerate(experiment.tables)
        for name in table.shown
    ]
    asked += [
        (("published", number, "measure"), one.measure)
        for number, one in enumerate(experiment.published)
    ]
    if experiment.figure is not None:
        asked.append((("figure", "measure"), experiment.figure.measure))
    for dimension in experiment.matrix:
        if dimension.name in known:
            yield ("matrix", dimension.name), "is the name of a measure: choose another"
    for branch, measure in asked:
        if measure not in known:
            yield branch, nearest(measure, known, noun="measure", lists_all=True)


def _experiment(found: dict[str, Any]) -> Experiment:
    if found.get("simulate") and not KINDS[found["simulate"]].is_random:
        if found.get("seeds", 1) != 1:
            raise PlanError(f"nothing in `simulate: {found['simulate']}` is random, so that other "
                            "seeds give the same: leave it out", key="seeds")  # fmt: skip
        found = {**found, "seeds": 1}
    elif found.get("seeds") == 1:
        raise PlanError("must be 2 to 10,000, got 1", key="seeds")
    return Experiment(**{key: value for key, value in found.items() if key != "version"})


def _cells(document: Document, experiment: Experiment, bases: Sequence[str]) -> Sequence[Cell]:
    """Each cell with its settings decoded; a mistake is placed where its setting was written.

    `bases`: keys of the settings of all cells, the one that counts last.
    """
    kind = KINDS[experiment.kind]
    shape = plain(kind.read) if kind.read else record(kind.settings)
    adapter: TypeAdapter[object] = TypeAdapter(shape)
    cells = []
    for labels, settings in experiment.cells():
        try:
            cells.append(Cell(labels=labels, settings=adapter.validate_python(dict(settings))))
        except ValidationError as error:
            for mistake in error.errors(include_url=False):
                key = str(mistake["loc"][0]) if mistake["loc"] else ""
                where = _where(document, labels, key, bases)
                inside = ", ".join(f"{name} {label}" for name, label in labels.items())
                document.blame(where, f"{mistake['msg']} (in the cell {inside})")
            raise document.error() from error
    return cells


def _where(document: Document, labels: Labels, key: str, bases: Sequence[str]) -> Branch:
    """Where the setting of a cell was written: last in the matrix, else in the last base."""
    matrix = document.tree["matrix"]
    ways: list[Branch] = [(base, key) for base in bases]
    for name, label in labels.items():
        values = matrix.get(name) if isinstance(matrix, dict) else None
        if isinstance(values, list) and name == key:
            ways.append(("matrix", name, [str(one) for one in values].index(label)))
        elif isinstance(values, dict):
            ways.append(("matrix", name, label, key))
    return next((way for way in reversed(ways) if way in document.values), ())


# ---------------------------------------------------------------- parts with forms of their own


def _version(value: object) -> int:
    if value != _VERSION or isinstance(value, bool):
        raise PlanError(f"must be {_VERSION}, got {value!r}")
    return _VERSION


def _settings(value: object) -> Settings:
    if not isinstance(value, dict):
        raise PlanError(f"{value!r} is not a mapping of settings: write {{chips: 150k}}")
    return Settings(value)


def _matrix(value: object) -> tuple[Dimension, ...]:
    if not isinstance(value, dict) or not value:
        raise PlanError(f"{value!r} is not a mapping of dimensions: write {{chips: [150k, 300k]}}")
    return tuple(_dimension(name, values) for name, values in value.items())


def _dimension(name: str, values: Tree) -> Dimension:
    if isinstance(values, list) and values:
        return Dimension(name=name, values={str(one): Settings({name: one}) for one in values})
    if isinstance(values, Mapping) and values and all(isinstance(v, dict) for v in values.values()):
        return Dimension(name=name, values={k: _settings(v) for k, v in values.items()})
    raise PlanError(
        "is neither a list of values nor names with their settings: write [150k, 300k] or "
        "{rigid: {policy: rigid}}",
        key=name,
    )


def _branch(tree: Tree, way: tuple[str | int, ...]) -> Branch:
    """As much of the way of a mistake as is in the file."""
    branch: Branch = ()
    for part in way:
        if isinstance(tree, dict) and str(part) in tree:
            tree, branch = tree[str(part)], (*branch, str(part))
        elif isinstance(tree, list) and str(part).isdecimal() and int(part) < len(tree):
            tree, branch = tree[int(part)], (*branch, int(part))
        elif isinstance(tree, dict):
            return (*branch, part)
    return branch
