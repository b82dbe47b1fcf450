"""`chaoslab show`: the record of one run as a page, answers first, the timeline last."""

from pathlib import Path

import click

from chaoslab.cli.commands.output import examples, json_option, out_option, print_result, shown_path
from chaoslab.core.events import Json
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.files import read_verdict
from chaoslab.report.page import run_page, timeline
from chaoslab.run.records import history_of, run_json


@click.command(
    name="show",
    epilog=examples("chaoslab show", "chaoslab show kill_half", "chaoslab show 3f9a1c --json"),
)
@click.argument("run", default="latest")
@out_option
@json_option
def command(*, run: str, out: Path, as_json: bool) -> None:
    """Show the verdict and the timeline of a run.

    RUN is a path, `latest` (the default), the name of a plan, or the beginning of an id.
    """
    directory = RunDirectory.open(run, root=out)
    verdict, history = read_verdict(directory.path), history_of(directory)
    path = shown_path(directory.path)
    told: list[Json] = [{"time_s": one.time_s, "text": one.text} for one in timeline(history)]
    found = verdict.to_json() if verdict else None
    print_result(
        {"run": run_json(directory), "verdict": found, "timeline": told},
        run_page(verdict, history, path),
        as_json=as_json,
        then=(f"chaoslab judge {path}", "judge it again from this record"),
    )
