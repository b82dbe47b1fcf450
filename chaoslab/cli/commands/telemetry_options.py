"""--otlp and --grafana: where a finished run is sent, given to the command as `telemetry`.

addresses, token ─► checked before anything starts ─► Telemetry.send ─► warnings on stderr
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING

import click

from chaoslab.checks.verdict import Verdict
from chaoslab.cli.commands.output import warn
from chaoslab.record.journal import History

if TYPE_CHECKING:
    from chaoslab.report.telemetry.sending import Receivers


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The receivers; None without any."""

    receivers: "Receivers | None"

    def send(self, run: str, history: History, verdict: Verdict | None) -> None:
        """Send a run, if that was asked; warn once of each receiver that did not take it."""
        if self.receivers is not None:
            for complaint in self.receivers.send(run, history, verdict):
                warn(complaint)


def telemetry_options(function: Callable[..., None]) -> Callable[..., None]:
    """Both options. PlanError or AbilityError before the command begins."""

    @click.option(
        "--otlp",
        metavar="URL",
        help="Send the finished run as OpenTelemetry spans and metrics to this receiver, such as "
        "http://localhost:4318 (needs chaoslab[otlp]).",
    )
    @click.option(
        "--grafana",
        metavar="URL",
        help="Send fault windows as annotations to this Grafana; the environment variable "
        "GRAFANA_TOKEN has the token.",
    )
    @wraps(function)
    def with_telemetry(
        *context: click.Context, otlp: str | None, grafana: str | None, **others: object
    ) -> None:
        receivers = None
        if otlp is not None or grafana is not None:
            from chaoslab.report.telemetry.sending import Receivers  # noqa: PLC0415  # when asked

            receivers = Receivers.asked(otlp, grafana, os.environ)
        function(*context, telemetry=Telemetry(receivers=receivers), **others)

    return with_telemetry
