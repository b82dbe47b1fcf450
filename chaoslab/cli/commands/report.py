"""`chaoslab report`: a run as one web page, and as a Perfetto trace, from its record alone."""

from pathlib import Path

import click

from chaoslab.cli import completing
from chaoslab.cli.commands.output import examples, json_option, out_option, print_json, shown_path
from chaoslab.cli.commands.telemetry_options import otlp_option, send_otlp
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.files import REPORT_HTML, read_verdict
from chaoslab.report.web.page import write_page
from chaoslab.run.records import history_of


@click.command(
    name="report",
    epilog=examples(
        "chaoslab report",
        "chaoslab report kill_half",
        "chaoslab report 3f9a1c --to page.html",
        "chaoslab report latest --trace",
        "chaoslab report latest --otlp http://localhost:4318",
    ),
)
@click.argument("run", default="latest", shell_complete=completing.runs)
@click.option(
    "--to",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Write the page to this file, not to {REPORT_HTML} in the run directory.",
)
@click.option(
    "--trace",
    "has_trace",
    is_flag=True,
    help="Also write trace.pftrace into the run directory, for https://ui.perfetto.dev.",
)
@otlp_option
@out_option
@json_option
def command(
    *,
    run: str,
    to: Path | None,
    has_trace: bool,
    otlp: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Write the report of a run as a web page.

    RUN is a path, `latest` (the default), the name of a plan, or the beginning of an id. The page
    is one file that loads nothing from elsewhere; it shows the verdict on record, and a run that
    goes on or was not judged without one. Prints the path of each file that it wrote.
    """
    directory = RunDirectory.open(run, root=out)
    verdict, history = read_verdict(directory.path), history_of(directory)
    written = {"report": write_page(directory.path, verdict, history, to=to)}
    if has_trace:
        from chaoslab.report.trace.file import write_trace  # noqa: PLC0415  # perfetto, when asked

        written["trace"] = write_trace(directory.path, history)
    send_otlp(otlp, directory, history, verdict)
    if as_json:
        sizes = {"bytes" if name == "report" else f"{name}_bytes": path.stat().st_size
                 for name, path in written.items()}  # fmt: skip
        print_json({**{name: str(path) for name, path in written.items()}, **sizes})
        return
    for path in written.values():
        click.echo(shown_path(path.absolute()))
