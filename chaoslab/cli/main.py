"""The command line: parse, call, exit code.

    chaoslab run kill_half ─► `commands/run.py` ─► plan ─► run ─► verdict ─► exit code

A command's module is imported when the command is called, so `--help` needs click alone. Whatever
goes wrong leaves as one message on stderr and one exit code (`errors.ExitCode`); a crash keeps its
traceback in the run's directory.
"""

import platform
import shlex
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import click

from chaoslab.cli.invocation import Invocation
from chaoslab.cli.lazy import LazyGroup
from chaoslab.cli.streams import prepare_streams
from chaoslab.core.errors import ChaoslabError, ExitCode, FleetError
from chaoslab.core.garbage import collect_seldom
from chaoslab.core.private_files import replace_file
from chaoslab.core.terminal import harmless

CRASH_TXT = "crash.txt"

SUMMARIES = {
    "init": "Write a first gate: a plan, a CI workflow and a test.",
    "run": "Run a fault plan and judge the result.",
    "plan": "Validate and preview a fault plan; start nothing.",
    "list": "List the recorded runs, or the last verdict of each plan.",
    "show": "Show a run: verdict and timeline; judge it again, or export it.",
    "compare": "Compare two runs, or show the margins of a plan over its runs.",
    "replay": "Run the schedule of a record again, or find the least that fails.",
    "attach": "Run a fault plan on a training that runs already, and leave it running.",
    "gameday": "Run a fault plan with people who watch, decide and predict.",
    "halt": "Stop and heal every run on this machine.",
    "heal": "Undo what a killed harness left behind.",
    "doctor": "Show what this machine supports and what earlier runs left; set it up.",
    "catalog": "List plans, faults, checks and systems; print the JSON Schemas.",
    "research": "Simulation studies: matrices, limits, advice, fuzzing; and the selftest.",
}
"""Every command in the order of `--help`, with the first line of its own help."""

MOVED = {
    "plans": "catalog plans",
    "faults": "catalog faults",
    "checks": "catalog checks",
    "schema": "catalog schema",
    "systems": "catalog systems, chaoslab doctor systems install NAME",
    "images": "doctor images",
    "fleet": "doctor slices, chaoslab doctor rights",
    "gc": "doctor gc",
    "status": "list --status",
    "judge": "show RUN --judge",
    "report": "show RUN --html FILE",
    "trend": "compare PLAN",
    "bisect": "run PLAN --bisect GOOD BAD",
    "completion": "--help (its part `Completion`)",
    "experiment": "research experiment FILE",
    **dict.fromkeys(("advise", "calibrate", "envelope", "fuzz", "selftest"), "research {}"),
}
"""Former commands, and the command that replaces each."""

_EPILOG = """\b
Exit codes:
  0    pass
  1    fail
  2    refused, nothing was started: wrong usage, plan, or a missing ability
  3    unknown: the record does not decide it
  4    the harness failed, or left something behind (`chaoslab heal`)
  130  interrupted, after healing

\b
Environment:
  CHAOSLAB_CACHE           compiled steps and tools; default ~/.cache/chaoslab
  CHAOSLAB_WEBHOOK_SECRET  signs what --notify sends
  DOCKER_HOST              engine of --fleet docker; default: this machine's
  KUBECONFIG               clusters of --fleet kubernetes; else ~/.kube/config
  COLUMNS                  width of pages that are piped

\b
Completion at Tab, in ~/.bashrc (for others: zsh_source, fish_source):
  eval "$(_CHAOSLAB_COMPLETE=bash_source chaoslab)"

\b
Files:
  runs/PLAN/ID/            record of a run, with verdict.json and report.html
  runs/latest              link to the newest record

\b
Examples:
  chaoslab init            begin: a plan, a CI workflow and a test
  chaoslab plan kill_half  preview: which learners are hit, and when
  chaoslab run kill_half   kill half of the learners, restart them, judge
  chaoslab show            verdict and timeline of the latest run"""


class Commands(LazyGroup):
    """Finds commands by name and turns every error into a message and an exit code."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, once stdout and stderr can take an error."""
        prepare_streams()
        return super().parse_args(ctx, args)

    def instead_of(self, given: str, ctx: click.Context) -> str:
        """A command's new name, the command that was meant, or how to run a plan."""
        if given in MOVED:
            return f"It is now: chaoslab {MOVED[given].format(given)}"
        if (said := super().instead_of(given, ctx)).startswith("Did"):
            return said
        from chaoslab.prepare.plans import bundled_plans  # noqa: PLC0415  # `--help` needs click alone

        if given in bundled_plans() or given.endswith((".yaml", ".yml")):
            return f"To carry out a plan: `chaoslab run {shlex.quote(given)}`."
        return said

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Nothing is swallowed: each error ends in its own exit code."""
        try:
            with _ended_as_by_ctrl_c():
                return super().invoke(ctx)
        except ChaoslabError as error:
            click.echo(f"chaoslab: {harmless(str(error))}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("chaoslab: interrupted", err=True)
            ctx.exit(ExitCode.INTERRUPTED)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:  # noqa: BLE001  # a crash must not leave with 1, which means FAIL
            _report_crash(ctx, error)


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP interrupt, so that a command removes its temporary files. Signals that are
    ignored (SIGHUP under nohup) or handled already stay so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in ours:
            signal.signal(number, interrupt)
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _print_versions(
    context: click.Context, _option: click.Parameter, is_asked: bool
) -> None:  # click's signature
    if not is_asked:
        return
    from chaoslab.record.provenance import versions  # noqa: PLC0415  # `--help` needs click alone

    known = dict(versions())
    click.echo(f"chaoslab {known.pop('chaoslab')}")
    for name, version in known.items():
        click.echo(f"{name} {version or 'not installed'}")
    click.echo(f"platform {platform.platform()}")
    context.exit()


@click.group(
    name="chaoslab",
    cls=Commands,
    package="chaoslab.cli.commands",
    summaries=SUMMARIES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the versions that matter for a run.",
)
@click.pass_context
def main(context: click.Context) -> None:
    """Inject faults into a multi-learner training run, and judge whether it recovers."""
    context.obj = Invocation()
    collect_seldom()


def _report_crash(context: click.Context, error: Exception) -> NoReturn:
    invocation = context.find_object(Invocation) or Invocation()
    trace = invocation.secrets.text("".join(traceback.format_exception(error)))
    where = ""
    if invocation.run_directory is not None:
        path = invocation.run_directory / CRASH_TXT
        with suppress(FleetError):  # the disk refuses it
            replace_file(path, trace)
            where = f"; the traceback is in {path}"
    if not where:
        click.echo(trace, err=True, nl=False)
    said = invocation.secrets.text(str(error))
    click.echo(f"chaoslab: broke with {type(error).__name__}: {harmless(said)}{where}", err=True)
    context.exit(ExitCode.BROKEN)
