"""The command line: parse, call, exit code.

    chaoslab run kill_half ─► commands.running ─► plan ─► run ─► verdict ─► exit code

Nothing heavy is imported here or at the head of `commands/`: `--help` needs click alone. What went
wrong leaves as one message on stderr and one exit code (`errors.ExitCode`); a crash keeps its
traceback in the run's directory.
"""

import errno
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click

from chaoslab import __version__
from chaoslab.commands import catalogues, records, running, upkeep
from chaoslab.commands.output import Invocation
from chaoslab.errors import ChaoslabError, ExitCode


class Commands(click.Group):
    """The group of all commands; turns every error into a message and an exit code."""

    def invoke(self, context: click.Context) -> object:
        """Run the command. Nothing is swallowed: each error ends in its own exit code."""
        try:
            return super().invoke(context)
        except ChaoslabError as error:
            click.echo(f"chaoslab: {error}", err=True)
            context.exit(error.exit_code)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:  # noqa: BLE001 - a crash must not leave as 1, which means FAIL
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            _report_crash(context, error)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="chaoslab")
@click.pass_context
def main(context: click.Context) -> None:
    """Break a real multi-learner training run on purpose and prove that it went on.

    \b
    Begin with:
      chaoslab run kill_half        half of the learners die at once and come back
      chaoslab plan kill_half       what that would do, without doing it
      chaoslab faults               what can be broken, and how it is proved
    """
    context.obj = Invocation()


def _report_crash(context: click.Context, error: Exception) -> NoReturn:
    trace = "".join(traceback.format_exception(error))
    directory = context.find_object(Invocation)
    kept = _keep(trace, directory.run_directory if directory else None)
    if kept is None:
        click.echo(trace, err=True, nl=False)
    where = f"; the traceback is in {kept}" if kept else ""
    click.echo(f"chaoslab: broke with {type(error).__name__}: {error}{where}", err=True)
    context.exit(ExitCode.BROKEN)


for command in (*running.COMMANDS, *catalogues.COMMANDS, *records.COMMANDS, *upkeep.COMMANDS):
    main.add_command(command)
