"""`chaoslab judge`: the verdict again, from the record alone, with the checks of today."""

from pathlib import Path

import click

from chaoslab.checks.gate import Gate
from chaoslab.cli import completing
from chaoslab.cli.commands.gate_options import gate_options, gated
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    out_option,
    print_result,
    shown_path,
    typed,
)
from chaoslab.prepare.plans import Asked, decode
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.page import verdict_page
from chaoslab.run.judged_run import expected, judge_record, judged_by, recorded_checks


@click.command(
    name="judge",
    epilog=examples(
        "chaoslab judge latest",
        "chaoslab judge 3f9a1c --expect-from stricter.yaml",
        "chaoslab judge latest --fail-on weak --min-margin 20%",
        "chaoslab judge latest --json | jq .outcome",
    ),
)
@click.argument("run", default="latest", shell_complete=completing.runs)
@click.option(
    "--expect-from",
    metavar="PLAN",
    shell_complete=completing.plans,
    help="Take `expect` from this plan instead of the record, and write nothing.",
)
@gate_options
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    *,
    run: str,
    expect_from: str | None,
    gate: Gate,
    out: Path,
    as_json: bool,
) -> None:
    """Judge a run again from its record.

    RUN is a path, `latest` (the default), the name of a plan, or the beginning of an id. Writes
    verdict.json, junit.xml, report.md and report.html to the run directory, in place of those of
    before; with --expect-from, nothing: the verdict is only printed. The exit code is that of the
    verdict, unless --fail-on or --expect ask for another.
    """
    directory = RunDirectory.open(run, root=out)
    if expect_from is None:
        checks = recorded_checks(directory)
    else:
        plan, _ = decode(Asked(plan=expect_from))
        checks = expected(plan)
    gate.refuse_unknown([check.name for check in checks])
    if expect_from is None:
        judged = judge_record(directory, checks)
    else:
        judged = judged_by(checks, directory)
    path = shown_path(directory.path)
    print_result(
        judged.verdict.to_json(),
        verdict_page(judged.verdict, judged.history, path),
        as_json=as_json,
        then=(f"chaoslab show {typed(directory, out)}", "the timeline of this run"),
    )
    context.exit(gated(gate, judged.verdict))
