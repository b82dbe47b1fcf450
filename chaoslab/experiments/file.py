"""Reading of an experiment's file: YAML to `Experiment`, and the settings of each cell.

    file ─► plan.file.document (places) ─► plan.file.decoding (keys, units) ─► Experiment ─► Cell …

All mistakes are PlanErrors that name file, line and key, as those of a plan.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ValidationError

from chaoslab.core.errors import PlanError
from chaoslab.experiments.kinds import KINDS
from chaoslab.experiments.model import Dimension, Experiment, Labels, Settings
from chaoslab.plan.file.decoding import adapter, decoded, merged, mistakes
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
from chaoslab.plan.file.entries import Name, form

_literal: Any = Literal  # its values are known only at run time


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

    `quick_seeds`: as it is with `--quick`, which is with this many seeds at most.
    """
    document = read(path, noun="experiment", begins="name: …` and `question: …")
    for setting in overrides:
        override(document, Override(setting=setting, label=f"--set {setting}"))
    document.refuse(())
    experiment = _decoded(document)
    document.refuse(_mistaken_measures(experiment))
    if quick_seeds is not None:
        experiment = experiment.reduced(quick_seeds)
    bases = ("base",) if quick_seeds is None else ("base", "quick")
    return experiment, tuple(_cells(document, experiment, bases))


@dataclass(frozen=True, kw_only=True)
class _File:
    version: Literal[1]
    """Version of the format."""


def _decoded(document: Document) -> Experiment:
    simulated = [name for name, kind in KINDS.items() if not kind.is_real]
    real = [name.removeprefix("run ") for name, kind in KINDS.items() if kind.is_real]
    own = {
        "name": Name,
        "base": form(_settings),
        "quick": form(_settings),
        "matrix": form(_matrix),
        "simulate": _literal[tuple(simulated)],
        "run": _literal[tuple(real)],
    }
    made = merged("Experiment", _File, Experiment, own=own)
    build = AfterValidator(partial(_experiment, is_seeded="seeds" in document.tree))
    found: Experiment = decoded(document, (), Annotated[made, build], document.tree)
    document.refuse(())
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


def _experiment(entry: Any, *, is_seeded: bool) -> Experiment:
    found = {one.name: getattr(entry, one.name) for one in fields(Experiment)}
    if entry.simulate and not KINDS[entry.simulate].is_random:
        if is_seeded and entry.seeds != 1:
            raise PlanError(f"nothing in `simulate: {entry.simulate}` is random, so that other "
                            "seeds give the same: leave it out", key="seeds")  # fmt: skip
        found["seeds"] = 1
    elif entry.seeds == 1:
        raise PlanError("must be 2 to 10,000, got 1", key="seeds")
    return Experiment(**found)


def _cells(document: Document, experiment: Experiment, bases: Sequence[str]) -> Sequence[Cell]:
    """Each cell with its settings decoded; a mistake is placed where its setting was written.

    `bases`: keys of the settings of all cells, the one that counts last.
    """
    kind = KINDS[experiment.kind]
    hint = form(kind.read) if kind.read else kind.settings
    cells = []
    for labels, settings in experiment.cells():
        try:
            found = adapter(hint).validate_json(json.dumps(settings))
            cells.append(Cell(labels=labels, settings=found))
        except ValidationError as error:
            for wrong in mistakes(hint, dict(settings), error):
                key = str(wrong.branch[0]) if wrong.branch else ""
                where = _where(document, labels, key, bases)
                inside = ", ".join(f"{name} {label}" for name, label in labels.items())
                document.add_problem(where, f"{wrong.text} (in the cell {inside})")
            raise document.error() from error
    return cells


def _where(document: Document, labels: Labels, key: str, bases: Sequence[str]) -> Branch:
    """Place of a cell's setting: the last in the matrix, else in the last base."""
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
