"""--otlp: where a finished run is sent.

address ─► checked before anything starts ─► send_otlp ─► a warning on stderr if it is not taken
"""

from typing import Final

import click

from chaoslab.checks.verdict import Verdict
from chaoslab.cli.commands.output import warn
from chaoslab.record.journal import History
from chaoslab.record.run_directory import RunDirectory


def _address(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """PlanError before the command begins."""
    if value is None:
        return None
    from chaoslab.report.otlp import checked  # noqa: PLC0415  # its HTTP client is slow to import

    return checked(value)


otlp_option: Final = click.option(
    "--otlp",
    metavar="URL",
    callback=_address,
    help="Send the finished run as OpenTelemetry spans to this receiver, such as "
    "http://localhost:4318.",
)


def send_otlp(
    url: str | None, directory: RunDirectory, history: History, verdict: Verdict | None
) -> None:
    """Send a run, if that was asked; warn if it was not taken."""
    if url is None:
        return
    from chaoslab.report.otlp import send  # noqa: PLC0415  # its HTTP client is slow to import

    if complaint := send(url, directory.id, history, verdict):
        warn(complaint)
