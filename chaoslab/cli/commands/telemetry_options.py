"""--otlp, --grafana and --upload: where a finished run is sent, given as one `telemetry`.

addresses, token ─► checked before anything starts ─► Telemetry.send ─► warnings on stderr
"""

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

import click

from chaoslab.checks.verdict import Verdict
from chaoslab.cli.commands.output import warn
from chaoslab.core.errors import FleetError
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.record.journal import History
from chaoslab.record.run_directory import RunDirectory

if TYPE_CHECKING:
    from chaoslab.report.telemetry.object_store import ObjectStore
    from chaoslab.report.telemetry.sending import Receivers


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Where runs are sent; None for what was not asked for."""

    receivers: "Receivers | None" = None
    store: "ObjectStore | None" = None

    def send(self, directory: RunDirectory, history: History, verdict: Verdict | None) -> None:
        """Send a run, if that was asked; warn once of each receiver that did not take it."""
        if self.receivers is not None:
            for complaint in self.receivers.send(directory.id, history, verdict):
                warn(complaint)
        if self.store is not None:
            try:
                click.echo(f"record: {self.store.keep(directory)}", err=True)
            except FleetError as error:
                warn(f"--upload: {error}")


def telemetry_options(function: Callable[..., None]) -> Callable[..., None]:
    """The three options. PlanError or AbilityError before the command begins."""

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
    @click.option(
        "--upload",
        metavar="URL",
        default="",
        help="Copy the record of the finished run to URL/PLAN/ID, such as s3://bucket/gates "
        "(needs chaoslab[upload] and the protocol's package, such as s3fs).",
    )
    @wraps(function)
    def with_telemetry(
        *context: click.Context,
        otlp: str | None,
        grafana: str | None,
        upload: str,
        **others: object,
    ) -> None:
        receivers = store = None
        if otlp is not None or grafana is not None:
            from chaoslab.report.telemetry.sending import Receivers  # noqa: PLC0415  # when asked

            receivers = Receivers.asked(otlp, grafana, os.environ)
        if upload:
            from chaoslab.report.telemetry.object_store import (  # noqa: PLC0415  # when asked
                ObjectStore,
            )

            store = ObjectStore.asked(upload)
        function(*context, telemetry=Telemetry(receivers=receivers, store=store), **others)

    return with_telemetry
