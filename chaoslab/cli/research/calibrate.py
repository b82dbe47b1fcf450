"""`chaoslab research calibrate`: the costs of a simulation, read from the journals of real runs."""

from pathlib import Path

import click

from chaoslab.calibration.costs_file import measured, missing, to_toml
from chaoslab.calibration.samples import Samples, samples_of
from chaoslab.cli import completing
from chaoslab.cli.commands.output import (
    advise,
    examples,
    json_option,
    out_option,
    print_json,
)
from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import RunStarted
from chaoslab.record.history import History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run.records import history_of

_SIMULATED = "sim"


@click.command(
    name="calibrate",
    epilog=examples(
        "chaoslab research calibrate latest > costs.toml",
        "chaoslab research calibrate 3f9a1c 77b0e2 --json",
        "chaoslab run kill_half --fleet sim --costs costs.toml",
    ),
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=completing.runs)
@out_option
@json_option
def command(*, runs: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Read what work took in real runs, for a simulation (`--costs FILE`).

    RUN is a path, `latest`, the name of a plan, or the beginning of an id. Each cost is the median
    of all samples; steps, pushes, merges and links are measured until the first fault of a run, and
    its twin is measured, too. What no run shows keeps its default.
    """
    directories = [RunDirectory.open(run, root=out) for run in runs]
    samples = [one for directory in directories for one in _samples(directory)]
    found = measured(samples)
    names = [f"{directory.plan_name}/{directory.id}" for directory in directories]
    if as_json:
        costs = [one.to_json() for one in found]
        print_json({"runs": names, "costs": costs, "missing": list(missing(found))})
        return
    click.echo(to_toml(found, names), nl=False)
    advise("chaoslab run kill_half --fleet sim --costs FILE", "with these costs, from a file")


def _samples(directory: RunDirectory) -> list[Samples]:
    """Samples of a run and of its twin; PlanError for a simulated run."""
    history = history_of(directory)
    started = history.last(RunStarted)
    if started is not None and started.payload.fleet == _SIMULATED:
        raise PlanError(
            f"{directory.plan_name}/{directory.id} was simulated, so it shows the costs that it "
            "was given: name a run of another fleet"
        )
    histories: list[History] = [history] if history.twin is None else [history, history.twin]
    return [samples_of(one) for one in histories]
