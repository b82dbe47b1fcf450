"""Experiments for tests: a small one, whose eight cells take milliseconds, and cells of studies."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaoslab.experiments.execution import carry_out, values_of
from chaoslab.experiments.file import Cell, load
from chaoslab.experiments.model import Experiment
from chaoslab.experiments.results import ResultsFile
from chaoslab.experiments.tables import Grid

SMALL = """
version: 1
name: small
question: How much of the time is useful?
simulate: renewal
base: {horizon: 2h, slice_chips: 64}
constants: {slice_chips: assumed}
matrix:
  failures: [one_per_year, llama_3]
  system:
    rigid: {policy: rigid}
    decoupled: {policy: decoupled, learners: 2}
  chips: [300k, 1.2M]
seeds: 3
published:
  - source: a table
    measure: goodput
    rows: system
    columns: chips
    where: {failures: one_per_year}
    values: {rigid: [57, 27], decoupled: [88, 70]}
    max_rms: 20
    max_error: 30
tables:
  - {measure: goodput, rows: system, columns: chips}
  - {measure: uptime, rows: failures, columns: system, where: {chips: 300k}, title: Uptime}
figure: {measure: goodput, along: chips, lines: system}
"""

THIN = """
version: 1
name: thin
question: Which link is wide enough?
simulate: bandwidth
base: {parameters: 100M, layers: 4, step: 1s}
matrix:
  method: [data_parallel, diloco]
  utilisation: [50%, 90%]
published:
  - source: a table
    measure: bandwidth
    rows: method
    columns: utilisation
    values: {data_parallel: [0.9, 2.4]}
    max_error: 1
tables: [{measure: bandwidth, rows: method, columns: utilisation}]
figure: {measure: bandwidth, along: utilisation, lines: method}
"""
"""Without chance, and not in percent."""


SIMULATED = """
version: 1
name: small
question: What does a quorum of all cost?
simulate: plan
base:
  plan: kill_one
  training.step_time: 50ms
  training.stop.rounds: 90
  faults: []
  expect: [{check: versions}]
matrix:
  way: {one: {training.quorum: 1}, all: {training.quorum: 4}}
  chips: {alike: {}}
seeds: 2
tables:
  - {rows: way, measures: [goodput, uptime]}
"""
"""Cells that are plans."""

REAL = """
version: 1
name: small
question: What does compression save?
run: plan
base:
  plan: kill_one
  lost_periods: 100%          # however busy this machine is
  training.learners: 2
  training.step_time: 30ms
  training.stop: {rounds: 600}
  baseline: {warmup: 6 rounds, window: 6 rounds, max_variation: 200%}
  faults: []
  expect: [{check: versions}]
quick: {training.stop: {rounds: 20}}
matrix:
  wire: {f32: {training.compression: f32}, int4: {training.compression: int4}}
seeds: 2
tables:
  - {rows: wire, measures: [passes, goodput, rejoin]}
"""
"""Cells that are real runs."""


def stated(study: str) -> list[dict[str, str]]:
    """The results on the page of a study of experiments/."""
    results = Path(__file__).parents[2] / "experiments" / study / "results.csv"
    return list(csv.DictReader(results.read_text("utf-8").splitlines()))


def written(folder: Path, text: str = SMALL) -> Path:
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def grid_of(
    folder: Path, text: str = SMALL, values: Sequence[Mapping[str, Sequence[float]]] | None = None
) -> Grid:
    """The experiment's results, simulated or as given."""
    experiment, cells = load(written(folder, text))
    if values is None:
        return _simulated(folder, experiment, cells)
    return Grid(experiment=experiment, cells=[cell.labels for cell in cells], values=values)


def grid_with(study: Path, folder: Path, *overrides: str, only: Mapping[str, str]) -> Grid:
    """The simulated results of those cells of a study that have these labels."""
    experiment, cells = load(study, overrides=overrides)
    chosen = [cell for cell in cells if only.items() <= cell.labels.items()]
    assert chosen
    return _simulated(folder, experiment, chosen)


def _simulated(folder: Path, experiment: Experiment, cells: Sequence[Cell]) -> Grid:
    results = ResultsFile.open(folder / "results.jsonl")
    carry_out(experiment, cells, results, jobs=1)
    values = values_of(experiment, cells, results)
    return Grid(experiment=experiment, cells=[cell.labels for cell in cells], values=values)
