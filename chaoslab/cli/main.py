"""The command line: parse, call, exit code.

    chaoslab run kill_half ─► `commands/run.py` ─► plan ─► run ─► verdict ─► exit code

A command's module is imported when the command is called, so `--help` needs click alone. Whatever
goes wrong leaves as one message on stderr and one exit code (`errors.ExitCode`); a crash keeps its
traceback in the run's directory.
"""

import errno
import importlib
import traceback
from contextlib import suppress
from typing import NoReturn

import click

from chaoslab import __version__
from chaoslab.cli.invocation import Invocation
from chaoslab.core.errors import ChaoslabError, ExitCode, FleetError
from chaoslab.core.private_files import replace_file

CRASH_TXT = "crash.txt"

SUMMARIES = {
    "run": "Run a fault plan and judge the result.",
    "plan": "Validate and preview a fault plan; start nothing.",
    "schema": "Print the JSON Schema of fault plans or of verdict.json.",
    "faults": "List the faults, their settings and their evidence.",
    "list": "List the recorded runs.",
    "show": "Show the verdict and the timeline of a run.",
    "judge": "Judge a run again from its record.",
    "halt": "Stop and heal every run on this machine.",
    "heal": "Undo what a killed harness left behind.",
    "selftest": "Check that chaoslab detects deliberate defects.",
    "doctor": "Show what this machine supports and what earlier runs left.",
    "images": "Build and list the container images of the Docker fleet.",
}
"""Every command in the order of `--help`, with the first line of its own help."""


class Commands(click.Group):
    """Finds commands by name and turns every error into a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """All names, without importing anything."""
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of one command."""
        if cmd_name not in SUMMARIES:
            return None
        found = importlib.import_module(f"chaoslab.cli.commands.{cmd_name}").command
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list in `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Nothing is swallowed: each error ends in its own exit code."""
        try:
            return super().invoke(ctx)
        except ChaoslabError as error:
            click.echo(f"chaoslab: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("chaoslab: interrupted", err=True)
            ctx.exit(ExitCode.INTERRUPTED)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:  # a crash must not leave with 1, which means FAIL
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            _report_crash(ctx, error)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    "  chaoslab plan kill_half     preview: which learners are hit, and when\n"
    "  chaoslab run kill_half      kill half of the learners, restart them, judge the run\n"
    "  chaoslab show               verdict and timeline of the latest run",
)
@click.version_option(__version__, prog_name="chaoslab")
@click.pass_context
def main(context: click.Context) -> None:
    """Inject faults into a multi-learner training run, and judge whether it recovers."""
    context.obj = Invocation()


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
    click.echo(f"chaoslab: broke with {type(error).__name__}: {said}{where}", err=True)
    context.exit(ExitCode.BROKEN)
