"""`chaoslab research crash-points`: a script, killed before each file operation of a save."""

import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.cli import completing
from chaoslab.cli.commands.options import set_option
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    print_result,
    progress,
    table,
)
from chaoslab.core.errors import ExitCode, HarnessBug
from chaoslab.core.events import encode
from chaoslab.core.private_files import replace_file, require_folder
from chaoslab.core.terminal import shown_path
from chaoslab.core.units import plural
from chaoslab.plan.file import Mistake
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.launch import Launch
from chaoslab.prepare.plans import Asked, decode
from chaoslab.trainers.crash_points import (
    MOST_POINTS,
    Outcome,
    Point,
    Program,
    Sweep,
    kind,
    sweep,
)

_STYLES = {Outcome.OK: "green", Outcome.NOT_REACHED: "yellow"}
_UNSEEN = (
    "not seen: a power loss (what the kernel holds in memory survives a kill), writes to mapped "
    "files, io_uring, processes that the command did not start"
)


@click.command(
    name="crash-points",
    epilog=examples(
        "chaoslab research crash-points my_script.yaml",
        "chaoslab research crash-points my_script.yaml --points 20 --save 4 --json",
    ),
)
@click.argument("plan", shell_complete=completing.plans)
@set_option
@click.option("--points", type=click.IntRange(1), default=MOST_POINTS, show_default=True,
              metavar="N", help="Points that are tried at most, spread evenly.")  # fmt: skip
@click.option("--save", type=click.IntRange(1), default=2, show_default=True, metavar="N",
              help="Which save of the training; where old checkpoints are removed, one that "
              "removes some.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              default=Path("runs/crash-points"), show_default=True,
              help="Folder of what is kept of points that are not ok.")  # fmt: skip
@json_option
@click.pass_context
def command(
    context: click.Context, *, plan: str, settings: tuple[str, ...], points: int, save: int,
    out: Path, as_json: bool,
) -> None:  # fmt: skip
    """Kill a script before each file operation of a save, and start it again.

    The plan has `training.script` with one worker; its faults and checks do not count. One run is
    traced, to find the operations on files below {folder} during one save. For each of them, and
    after the last, the command is started in a fresh folder, killed there, and started again, until
    it is beyond that save. It must go on from the newest checkpoint that was complete.

    Exit codes: 0 all points are ok, 1 one is lost or stuck, 3 one was not reached.
    """
    given, document = decode(Asked(plan=plan, settings=settings))
    document.refuse(_mistakes(given))
    require_folder(out)
    record = Path(tempfile.mkdtemp(prefix=f"{given.name}-", dir=out.absolute()))
    say = progress("crash-points", "point")
    try:
        found = sweep(partial(_program, given), record, save=save, points=points, on_progress=say)
        outcomes = {point.outcome for point in found.points}
        is_ok = outcomes == {Outcome.OK}
        value = {**asdict(found), "record": None if is_ok else str(record)}
        if not is_ok:
            replace_file(record / "crash-points.json", encode(value))
    finally:
        if not any(record.iterdir()):
            record.rmdir()
    print_result(value, _page(found, record), as_json=as_json)
    is_bad = bool(outcomes & {Outcome.LOST, Outcome.STUCK})
    context.exit(ExitCode.PASS if is_ok else ExitCode.FAIL if is_bad else ExitCode.UNKNOWN)


def _mistakes(plan: FaultPlan) -> Iterator[Mistake]:
    script = plan.training.script
    if script is None:
        yield ("training",), "has no script: crash points are those of `training.script`"
    elif script.workers != 1:
        text = f"one worker is killed and started again, got {script.workers}: write 1, also for a "
        yield ("training", "script", "workers"), f"{text}launcher that starts others"
    elif script.reads_files:
        text = "must be output: lines in it show where among the operations a save is"
        yield ("training", "script", "from"), text
    elif not {"step", "steps_per_epoch"} & script.patterns.progress.groupindex.keys():
        text = "needs a group `step`: from which step it goes on is what is judged"
        yield ("training", "script", "progress"), text


def _program(plan: FaultPlan, folder: Path) -> Program:
    script = plan.training.script
    if script is None:
        raise HarnessBug("a plan without a script was not refused")
    launch = Launch(plan=plan, snapshots=folder, tokens=folder, folder=folder)
    (worker,) = launch.workers(script)
    return Program(
        command=worker.command, environment=worker.environment, patterns=script.patterns,
        max_pause_s=script.max_pause_s, checkpoints=script.checkpoints_of(0),
    )  # fmt: skip


# ---------------------------------------------------------------- the page


def _page(found: Sweep, record: Path) -> RenderableType:
    rows = table("killed before", "file", "outcome", "points", "then", wraps=("file", "then"),
                 right=("points",))  # fmt: skip
    for key in dict.fromkeys(map(kind, found.points)):
        alike = [point for point in found.points if kind(point) == key]
        call, file, outcome = key
        style = _STYLES.get(outcome, "bold red")
        said = Text(_then(alike[0]))
        rows.add_row(call, file, Text(outcome.value, style=style), str(len(alike)), said)
    ok = sum(point.outcome is Outcome.OK for point in found.points)
    operations = plural(found.operations, "file operation")
    killed = f"killed at {plural(len(found.points), 'point')}, {ok} ok"
    lines = [f"save {found.save}, of step {found.step:,}, has {operations}: {killed}"]
    if others := sum(not point.is_repeated for point in found.points):
        lines.append(f"at {plural(others, 'point')} the operations were not those of the traced "
                     "run: another sweep may kill elsewhere")  # fmt: skip
    if found.is_implied:
        lines.append("no line says that a checkpoint is complete (training.script.saved): it is "
                     "taken to be one report after files were created or replaced")  # fmt: skip
    lines += [f"the training changes {way}: those changes are no points" for way in found.blind]
    if ok < len(found.points):
        lines.append(f"record: {shown_path(record)}")
    return Group(rows, *map(Text, (*lines, _UNSEEN)))


def _then(point: Point) -> str:
    complete = "" if point.complete is None else f", complete was {point.complete:,}"
    where = "" if point.resumed is None else f"went on from step {point.resumed:,}{complete}"
    return "; ".join(filter(None, (where, point.words)))
