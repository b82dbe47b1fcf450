"""`chaoslab show`: the record of one run as a page, answers first, the timeline last."""

from pathlib import Path

import click

from chaoslab.cli import completing
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    named,
    out_option,
    print_result,
    shown_path,
)
from chaoslab.core.events import Json
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.excerpt import told
from chaoslab.report.files import read_verdict
from chaoslab.report.hints import Record
from chaoslab.report.page import run_page
from chaoslab.run.records import history_of, run_json


@click.command(
    name="show",
    epilog=examples(
        "chaoslab show", "chaoslab show kill_half --all", "chaoslab show 3f9a1c --json"
    ),
)
@click.argument("run", default="latest", shell_complete=completing.runs)
@click.option("--all", "whole", is_flag=True, help="The whole timeline, not only what is near "
              "the findings.")  # fmt: skip
@out_option
@json_option
def command(*, run: str, whole: bool, out: Path, as_json: bool) -> None:
    """Show the verdict and the timeline of a run.

    RUN is a path, `latest` (the default), the name of a plan, or the beginning of an id. After a
    FAIL or UNKNOWN it shows two seconds around the lines that the findings rest on, these lines of
    the journal, the standard error of the nodes concerned, and what to try.
    """
    directory = RunDirectory.open(run, root=out)
    verdict, history = read_verdict(directory.path), history_of(directory)
    path, name = shown_path(directory.path), named(directory, out)
    lines: list[Json] = [
        {
            "time_s": one.sentence.time_s,
            "text": one.sentence.text,
            "seq": one.seq,
            "is_marked": one.is_marked,
        }
        for one in told(history, verdict)
    ]
    found = verdict.to_json() if verdict else None
    record = Record.of(directory, run=name, path=path)
    print_result(
        {"run": run_json(directory), "verdict": found, "timeline": lines},
        run_page(verdict, history, path, record=record, whole=whole),
        as_json=as_json,
        then=(f"chaoslab judge {record.run}", "judge it again from this record"),
    )
