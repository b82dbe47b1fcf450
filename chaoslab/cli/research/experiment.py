"""`chaoslab research experiment`: a matrix of settings beside published values."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from chaoslab.cli.commands.output import examples, json_option, print_json, progress
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Json
from chaoslab.core.terminal import shown_path
from chaoslab.experiments import page, tables
from chaoslab.experiments.execution import carry_out, values_of
from chaoslab.experiments.file import load
from chaoslab.experiments.kinds import KINDS
from chaoslab.experiments.model import Labels
from chaoslab.experiments.results import ResultsFile
from chaoslab.experiments.tables import Grid
from chaoslab.record.provenance import cores

RESULTS_JSONL = "results.jsonl"
QUICK = "quick"
"""Folder beside the records for page and records with `--quick`."""


@click.command(
    name="experiment",
    epilog=examples(
        "chaoslab research experiment experiments/goodput.yaml",
        "chaoslab research experiment experiments/goodput.yaml --set seeds=5",
        "chaoslab research experiment experiments/goodput.yaml --jobs 1 --json",
        "chaoslab research experiment my_real_runs.yaml --quick",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE",
              help="Override a key of the file; repeatable.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), metavar="N",
              help="Worker processes of simulations. Default: one for each core.")  # fmt: skip
@click.option("--quick", is_flag=True, help="One seed, with the settings of `quick` in the file; "
              "page and records are kept apart, beside those of the whole.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Simulate everything again; by default existing "
              "records are kept, so that an interrupted experiment resumes.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Folder of page, table and figure, such as that of a page under version "
              "control. Default: below --records.")  # fmt: skip
@click.option("--records", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              default=Path("runs/experiments"), show_default=True,
              help="Folder of the records: one line for each cell and seed.")  # fmt: skip
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each option
    context: click.Context, *, file: Path, overrides: tuple[str, ...], jobs: int | None,
    quick: bool, fresh: bool, out: Path | None, records: Path, as_json: bool,
) -> None:  # fmt: skip
    """Simulate or run a matrix of settings with seeds; write tables and a figure.

    What the records have is kept; what is missing is simulated.

    Real runs (`run: plan` in the file) come one after the other, on the plan's own fleet.

    FILE has a base, a matrix of settings, seeds, tables and published values; see
    docs/simulation.md. Written are README.md (of one that is there the block `results`),
    results.csv and figure.svg.

    Exit codes: 0; 1 if the published values are missed by more than the file allows; 2 for a
    mistake in the file, 130 interrupted (the same command goes on).
    """
    experiment, cells = load(file, overrides=overrides, quick_seeds=1 if quick else None)
    folder = records / experiment.name / (QUICK if quick else "")
    results = ResultsFile.open(folder / RESULTS_JSONL, is_fresh=fresh)
    noun = "run" if KINDS[experiment.kind].is_real else "simulation"
    on_progress = progress(experiment.name, noun)
    carry_out(experiment, cells, results, jobs=jobs or cores(), on_progress=on_progress)
    grid = Grid(
        experiment=experiment,
        cells=[cell.labels for cell in cells],
        values=values_of(experiment, cells, results),
    )
    settings = [word for setting in overrides for word in ("--set", setting)]
    again = shlex.join(["chaoslab", "research", "experiment", str(shown_path(file)), *settings,
                        *(["--quick"] if quick else [])])  # fmt: skip
    written = page.write(grid, out or folder, command=again)
    if as_json:
        print_json(_json(grid, written))
    else:
        click.echo(f"{tables.legend(grid)}\n\n{tables.markdown(grid)}")
        for path in written.values():
            click.echo(f"wrote {shown_path(path)}", err=True)
    context.exit(_exit_code(grid))


def _exit_code(grid: Grid) -> ExitCode:
    near = (tables.is_within(tables.errors_of(grid, one), one) for one in grid.experiment.published)
    return ExitCode.PASS if all(near) else ExitCode.FAIL


# ---------------------------------------------------------------- JSON


def _json(grid: Grid, written: Mapping[str, Path]) -> Mapping[str, Json]:
    experiment = grid.experiment
    return {
        "experiment": experiment.name,
        "seeds": experiment.seeds,
        "cells": [_cell_json(grid, labels) for labels in grid.cells],
        "published": _published_json(grid),
        "files": {name: str(path) for name, path in written.items()},
        "exit_code": int(_exit_code(grid)),
    }


def _cell_json(grid: Grid, labels: Labels) -> Mapping[str, Json]:
    means = {name: grid.mean(labels, name) for name in grid.values[0]}
    return {
        "labels": dict(labels),
        "measures": {
            name: {
                "mean": mean.value if math.isfinite(mean.value) else None,
                "reach95": mean.reach,
                "unit": grid.unit(name).symbol,
                "published": grid.published(labels, name),
            }
            for name, mean in means.items()
        },
    }


def _published_json(grid: Grid) -> Sequence[Json]:
    found: list[Json] = []
    for one in grid.experiment.published:
        errors = tables.errors_of(grid, one)
        found.append({
            "source": one.source,
            "measure": one.measure,
            "cells": errors.count,
            "error_unit": grid.unit(one.measure).error,
            "rms_error": errors.rms,
            "largest_error": errors.largest,
            "largest_at": errors.largest_at,
            "is_within": tables.is_within(errors, one),
        })  # fmt: skip
    return found
