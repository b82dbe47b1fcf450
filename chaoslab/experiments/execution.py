"""Execution of an experiment: what is missing is simulated in worker processes, one for each core.
Real runs come one after the other.

    cells by seeds ─ minus results.jsonl ─► worker processes ─► results.jsonl, progress

The order in which results arrive does not matter: they are read by cell and seed. An interrupt
loses what is under way alone.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import closing
from typing import TypeAlias

from chaoslab.core.workers import workers
from chaoslab.experiments.file import Cell
from chaoslab.experiments.kinds import KINDS
from chaoslab.experiments.model import Experiment
from chaoslab.experiments.results import ResultsFile, Values, key_of

_Missing: TypeAlias = tuple[Cell, str, int]
"""Cell, key and seed of a missing simulation."""


def carry_out(
    experiment: Experiment,
    cells: Sequence[Cell],
    results: ResultsFile,
    *,
    jobs: int,
    on_progress: Callable[[int, int], object] = lambda _done, _all: None,
) -> None:
    """Simulate what `results` lacks. `on_progress` gets what is done and what there is to do."""
    keys = [key_of(experiment.kind, cell) for cell in cells]
    missing = [
        (cell, key, seed)
        for cell, key in zip(cells, keys, strict=True)
        for seed in range(experiment.seeds)
        if (key, seed) not in results.found
    ]
    on_progress(0, len(missing))
    is_alone = jobs == 1 or KINDS[experiment.kind].is_real
    simulated = _here if is_alone else _in_processes
    with closing(simulated(experiment.kind, missing, jobs)) as done:
        for number, (key, seed, values) in enumerate(done, start=1):
            results.add(key, seed, values)
            on_progress(number, len(missing))


def measured(kind: str, settings: object, seed: int) -> Values:
    """Measures of one cell with one seed."""
    return KINDS[kind].measure(settings, seed)


def values_of(
    experiment: Experiment, cells: Sequence[Cell], results: ResultsFile
) -> Sequence[Mapping[str, Sequence[float]]]:
    """Measures of each cell, each with a value for every seed in their order."""
    found = []
    for cell in cells:
        key = key_of(experiment.kind, cell)
        by_seed = [results.found[key, seed] for seed in range(experiment.seeds)]
        found.append({name: [one[name] for one in by_seed] for name in by_seed[0]})
    return found


def _here(
    kind: str, missing: Sequence[_Missing], _jobs: int
) -> Generator[tuple[str, int, Values], None, None]:
    for cell, key, seed in missing:
        yield key, seed, measured(kind, cell.settings, seed)


def _in_processes(
    kind: str, missing: Sequence[_Missing], jobs: int
) -> Generator[tuple[str, int, Values], None, None]:
    """Results as they come; the last cells are begun first, because they tend to be the largest."""
    with workers(min(jobs, max(len(missing), 1))) as pool:
        asked: dict[Future[Values], tuple[str, int]] = {
            pool.submit(measured, kind, cell.settings, seed): (key, seed)
            for cell, key, seed in reversed(missing)
        }
        for future in as_completed(asked):
            yield *asked[future], future.result()
