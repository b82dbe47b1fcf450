"""`chaoslab research fuzz`: random plans, simulated, against the rules of every training."""

from pathlib import Path

import click

from chaoslab.cli.commands.output import (
    advise,
    examples,
    json_option,
    print_json,
    progress,
    typed_path,
)
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Json
from chaoslab.core.private_files import replace_file, require_folder
from chaoslab.core.units import plural
from chaoslab.fuzz.search import Shrunk, Trial, shrink, try_seeds
from chaoslab.plan.file import resolved_yaml
from chaoslab.plan.model import FaultPlan
from chaoslab.record.provenance import cores
from chaoslab.replay.minimise import Ending


@click.command(
    name="fuzz",
    epilog=examples(
        "chaoslab research fuzz --seeds 2000",
        "chaoslab research fuzz --seeds 1 --from 17",
        "chaoslab research fuzz --seeds 1000000 --keep-going --jobs 16",
    ),
)
@click.option("--seeds", type=click.IntRange(1), default=100, show_default=True, metavar="N",
              help="Number of random plans.")  # fmt: skip
@click.option("--from", "first", type=click.IntRange(0), default=0, show_default=True, metavar="S",
              help="The first seed.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), metavar="N",
              help="Worker processes. Default: one for each core.")  # fmt: skip
@click.option("--keep-going", is_flag=True, help="Go on after a failing seed.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              default=Path("runs/fuzz"), show_default=True,
              help="Folder of the plans of failing seeds.")  # fmt: skip
@json_option
@click.pass_context
def command(
    context: click.Context, *, seeds: int, first: int, jobs: int | None, keep_going: bool,
    out: Path, as_json: bool,
) -> None:  # fmt: skip
    """Simulate random plans of overlapping faults; judge them by invariants.

    Each seed gives a training and up to five faults on learners, links and the syncer. Whatever
    they do: versions increase by one, nothing counts twice, the ledger balances, a round comes
    whenever a quorum is well, and all agree after settling. The plan of a seed that violates one of
    them is shrunk, and written as a plan that can be run.

    Exit codes: 0 no seed failed, 1 one did.
    """
    failing: list[Json] = []
    tried = injected = proved = 0
    asked, processes = range(first, first + seeds), jobs or min(cores(), seeds)
    on_progress = progress("fuzz")
    on_progress(0, seeds)
    for tried, (seed, trial) in enumerate(try_seeds(asked, jobs=processes), 1):
        injected += len(trial.injections)
        proved += trial.proved
        if trial.is_failing:
            failing.append(_failed(seed, trial, out))
            if not keep_going:
                break
        on_progress(tried, seeds)
    if as_json:
        counts: dict[str, Json] = {"seeds": tried, "injections": injected, "proved": proved}
        print_json({**counts, "failing": failing})
    else:
        effect = f"{plural(injected, 'injection')}, {proved} proved"
        click.echo(f"{plural(tried, 'seed')} tried ({effect}), {len(failing)} failing")
    context.exit(ExitCode.FAIL if failing else ExitCode.PASS)


def _failed(seed: int, trial: Trial, out: Path) -> Json:
    """Say what a seed violates, shrink it, and write both plans."""
    click.echo(f"seed {seed} fails: {'; '.join(trial.reasons)}", err=True)
    again = f"chaoslab research fuzz --from {seed} --seeds 1"
    advise(again, "the same simulation again")
    whole = _written(trial.plan, out / f"{seed}.yaml")
    report: dict[str, Json] = {
        "seed": seed,
        "violations": sorted(f"{check}: {code}" for check, code in trial.violations),
        "reasons": list(trial.reasons),
        "again": again,
        "plan": str(whole),
    }
    if not trial.injections:
        return report
    least = shrink(trial)
    path = _written(least.plan, out / f"{seed}.least.yaml")
    advise(f"chaoslab run {typed_path(path)}", _described(least, trial))
    if least.ending is Ending.INTERRUPTED:
        raise KeyboardInterrupt  # what was found so far is kept
    return {**report, "least": str(path), "least_injections": len(least.plan.faults)}


def _described(least: Shrunk, trial: Trial) -> str:
    """The shrunk plan in words."""
    of = f"{len(least.plan.faults)} of {plural(len(trial.injections), 'injection')}"
    return f"{of} are enough ({least.ending}, {plural(least.runs, 'simulation')})"


def _written(plan: FaultPlan, path: Path) -> Path:
    require_folder(path.parent)
    replace_file(path, resolved_yaml(plan))
    return path
