"""`chaoslab show`: the record of one run as a page, judged again, or exported to files.

RUN ─┬───────────► verdict on record ─┬─► page: answers first, the timeline last
     └─ --judge ─► verdict of today ──┴─► --html, --trace, --otlp
"""

from pathlib import Path

import click

from chaoslab.checks.gate import Gate
from chaoslab.checks.verdict import Verdict
from chaoslab.cli import completing
from chaoslab.cli.commands.listener_options import otlp_option, send_otlp
from chaoslab.cli.commands.options import gate_options, gated
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    named,
    out_option,
    print_json,
    print_result,
    typed,
)
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.terminal import shown_path
from chaoslab.prepare.plans import Asked, decode
from chaoslab.record.history import History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.excerpt import timeline_lines
from chaoslab.report.files import read_verdict
from chaoslab.report.hints import Record
from chaoslab.report.page import run_page, verdict_page
from chaoslab.report.web.page import write_page
from chaoslab.run.judged_run import (
    JudgedRun,
    expected,
    judge_and_report,
    read_and_judge,
    recorded_checks,
)
from chaoslab.run.records import history_of, run_json


@click.command(
    name="show",
    epilog=examples(
        "chaoslab show",
        "chaoslab show kill_half --all",
        "chaoslab show 3f9a1c --json",
        "chaoslab show latest --judge --fail-on low-margin --min-margin 20%",
        "chaoslab show 3f9a1c --expect-from stricter.yaml",
        "chaoslab show 3f9a1c --html page.html --trace",
    ),
)
@click.argument("run", default="latest", shell_complete=completing.runs)
@click.option("--all", "is_whole", is_flag=True, help="The whole timeline, not an excerpt.")
@click.option("--judge", "is_judging", is_flag=True, help="Judge the run again from its record, "
              "and write verdict.json and the reports anew.")  # fmt: skip
@click.option("--expect-from", metavar="PLAN", shell_complete=completing.plans, help="Judge by "
              "`expect` of this plan instead of the record's, and write nothing.")  # fmt: skip
@gate_options
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the run as a web page to this file.")  # fmt: skip
@click.option("--trace", "has_trace", is_flag=True, help="Write trace.pftrace into the run "
              "directory, for https://ui.perfetto.dev.")  # fmt: skip
@otlp_option
@out_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each option
    context: click.Context, *, run: str, is_whole: bool, is_judging: bool, expect_from: str | None,
    gate: Gate, html: Path | None, has_trace: bool, otlp: str | None, out: Path, as_json: bool,
) -> None:  # fmt: skip
    """Show a run: verdict and timeline; judge it again, or export it.

    RUN is a path, `latest` (the default), the name of a plan, or the beginning of an id. Of the
    timeline it shows what faults did, and who came back. After a FAIL or UNKNOWN it shows two
    seconds around the lines that the findings rest on, these lines of the journal, the standard
    error of the nodes concerned, and what to try.

    With --judge or --expect-from the run is judged by the checks of this version, and the exit code
    is that of the verdict, unless --fail-on or --expect ask for another; otherwise it is 0.

    With --html, --trace or --otlp the run is exported, and the path of each file is printed. The
    page is one file that loads nothing from elsewhere; a run that goes on or was not judged has
    one without a verdict.
    """
    is_judging = is_judging or expect_from is not None
    if gate != Gate() and not is_judging:
        raise PlanError("--fail-on and --expect are about a new verdict: also write --judge")
    directory = RunDirectory.open(run, root=out)
    judged = _judged(directory, expect_from, gate) if is_judging else None
    verdict = judged.verdict if judged else read_verdict(directory.path)
    history = judged.history if judged else history_of(directory)
    if html or has_trace or otlp:
        _export(directory, verdict, history, html, has_trace=has_trace, as_json=as_json)
        send_otlp(otlp, directory, history, verdict)
    elif judged:
        print_result(
            judged.verdict.to_json(),
            verdict_page(judged.verdict, history, shown_path(directory.path)),
            as_json=as_json,
            then=(f"chaoslab show {typed(directory, out)}", "the timeline of this run"),
        )
    else:
        _show(directory, verdict, history, out, is_whole=is_whole, as_json=as_json)
    if judged:
        context.exit(gated(gate, judged.verdict))


def _judged(directory: RunDirectory, expect_from: str | None, gate: Gate) -> JudgedRun:
    """By the checks of its own plan, which is written; or by another's, which is not."""
    if expect_from is None:
        checks = recorded_checks(directory)
    else:
        checks = expected(decode(Asked(plan=expect_from))[0])
    gate.refuse_unknown([check.name for check in checks])
    return (
        judge_and_report(directory, checks)
        if expect_from is None
        else read_and_judge(directory, checks)
    )


def _export(
    directory: RunDirectory, verdict: Verdict | None, history: History, html: Path | None,
    *, has_trace: bool, as_json: bool,
) -> None:  # fmt: skip
    files: dict[str, Path] = {}
    if html is not None:
        files["html"] = write_page(directory.path, verdict, history, to=html)
    if has_trace:
        from chaoslab.report.trace.file import write_trace  # noqa: PLC0415  # perfetto, when asked

        files["trace"] = write_trace(directory.path, history)
    if as_json:
        print_json({name: str(path) for name, path in files.items()})
        return
    for path in files.values():
        click.echo(shown_path(path.absolute()))


def _show(
    directory: RunDirectory, verdict: Verdict | None, history: History, out: Path,
    *, is_whole: bool, as_json: bool,
) -> None:  # fmt: skip
    path = shown_path(directory.path)
    record = Record.of(directory, run=named(directory, out), path=path)
    timeline: list[Json] = [
        {
            "time_s": one.sentence.time_s,
            "text": one.sentence.text,
            "seq": one.seq,
            "is_marked": one.is_marked,
        }
        for one in timeline_lines(history, verdict)
    ]
    found = verdict.to_json() if verdict else None
    print_result(
        {"run": run_json(directory), "verdict": found, "timeline": timeline},
        run_page(verdict, history, path, record=record, whole=is_whole),
        as_json=as_json,
        then=_next(verdict, record.run, is_whole=is_whole),
    )


def _next(verdict: Verdict | None, run: str, *, is_whole: bool) -> tuple[str, str]:
    """Next command for this outcome; none that starts a training."""
    if verdict is None:
        return f"chaoslab show {run} --judge", "judge it from its record"
    if verdict.residue:
        return f"chaoslab heal {run}", "undo what was left behind"
    if is_whole:
        return f"chaoslab show {run} --trace", "the run at a time scale, for ui.perfetto.dev"
    return f"chaoslab show {run} --all", "the whole timeline"
