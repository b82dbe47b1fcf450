"""Groups of commands that are imported when they are called: their help needs click alone."""

import difflib
import importlib
from collections.abc import Mapping

import click

from chaoslab.core.garbage import without_collection


class LazyGroup(click.Group):
    """Commands of a package: `NAME` is `command` of its module NAME."""

    def __init__(self, *, package: str, summaries: Mapping[str, str], **settings: object) -> None:
        """`summaries`: every command in the order of `--help`, with the first line of its help."""
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own
        self.package, self.summaries = package, summaries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """All names, without importing anything."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of one command."""
        if cmd_name not in self.summaries:
            return None
        with without_collection(freeze=True):
            found = importlib.import_module(f"{self.package}.{cmd_name.replace('-', '_')}").command
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; the error for an unknown command names the nearest one."""
        given = args[0] if args else ""
        if given not in self.summaries and not given.startswith("-"):
            raise click.UsageError(f"No such command {given!r}. {self.instead_of(given, ctx)}", ctx)
        return super().resolve_command(ctx, args)

    def instead_of(self, given: str, ctx: click.Context) -> str:
        """Suggestion in place of an unknown command."""
        if meant := difflib.get_close_matches(given, self.summaries, n=1):
            return f"Did you mean `{ctx.command_path} {meant[0]}`?"
        return f"There are {', '.join(self.summaries)}."

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list in `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))
