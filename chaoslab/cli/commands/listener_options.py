"""Listeners of a run: --notify URL, --metrics ADDRESS and, once it is over, --otlp URL.

    Listeners.observers ─► the run        made, judged ◄─ the command        closed when it ends

None of them can change, delay or fail a run. What is wrong with the options is refused before
anything starts.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from chaoslab.checks.verdict import Verdict
from chaoslab.cli.commands.options import bundled
from chaoslab.cli.commands.output import warn
from chaoslab.core.clock import WallClock
from chaoslab.record.history import History
from chaoslab.record.journal import Observer
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run.judged_run import JudgedRun

if TYPE_CHECKING:
    from chaoslab.report.metrics import Metrics
    from chaoslab.report.webhook import Webhook

_LAST_DELIVERY_S = 10.0
"""Longest wait of the command for the receiver, once the run is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Options of the command line about listeners."""

    notify: str | None = None
    metrics: str | None = None
    otlp: str | None = None

    @contextmanager
    def begin(self) -> Iterator["Listeners"]:
        """Open what was asked for; PlanError or AbilityError if it cannot be."""
        with ExitStack() as stack:
            yield Listeners(
                webhook=stack.enter_context(_notifying(self.notify)) if self.notify else None,
                metrics=stack.enter_context(_serving(self.metrics)) if self.metrics else None,
                otlp=self.otlp,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """The open listeners."""

    webhook: "Webhook | None" = None
    metrics: "Metrics | None" = None
    otlp: str | None = None

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Observers of a run."""
        return tuple(one for one in (self.webhook, self.metrics) if one is not None)

    def made(self, run_directory: Path) -> None:
        """A run begins."""
        if self.webhook is not None:
            self.webhook.made(run_directory.name)

    def judged(self, judged: JudgedRun) -> None:
        """Its verdict was reached."""
        if self.webhook is not None:
            self.webhook.judged(judged.verdict, WallClock().wall())
        if self.metrics is not None:
            self.metrics.judged(judged.verdict)
        send_otlp(self.otlp, judged.directory, judged.history, judged.verdict)


NOBODY: Final = Listeners()


def _address(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """PlanError before the command begins."""
    if value is None:
        return None
    from chaoslab.report.otlp import checked  # noqa: PLC0415  # its HTTP client is slow to import

    return checked(value)


def send_otlp(
    url: str | None, directory: RunDirectory, history: History, verdict: Verdict | None
) -> None:
    """Send a finished run, if that was asked; warn if it was not taken."""
    if url is None:
        return
    from chaoslab.report.otlp import send  # noqa: PLC0415  # its HTTP client is slow to import

    if complaint := send(url, directory.id, history, verdict):
        warn(complaint)


otlp_option = click.option(
    "--otlp",
    metavar="URL",
    callback=_address,
    help="Send the finished run as OpenTelemetry spans to this receiver, such as "
    "http://localhost:4318.",
)
listener_options = bundled(
    "listening",
    Listening,
    click.option(
        "--notify",
        metavar="URL",
        help="POST start and verdict to this URL, signed with $CHAOSLAB_WEBHOOK_SECRET.",
    ),
    click.option(
        "--metrics",
        metavar="[HOST]:PORT",
        help="Serve Prometheus metrics while it runs; without HOST on this machine alone.",
    ),
    otlp_option,
)


@contextmanager
def _notifying(url: str) -> Iterator["Webhook"]:
    from chaoslab.report.webhook import (  # noqa: PLC0415  # its HTTP client is slow to import
        SECRET,
        Receiver,
        Webhook,
    )

    webhook = Webhook(Receiver.of(url, os.environ.get(SECRET, "")))
    try:
        yield webhook
    finally:
        for problem in webhook.close(_LAST_DELIVERY_S):
            warn(f"--notify: {problem}")


@contextmanager
def _serving(address: str) -> Iterator["Metrics"]:
    from chaoslab.report.metrics import Metrics, served  # noqa: PLC0415  # an extra

    metrics = Metrics()
    with served(metrics, address) as url:
        click.echo(f"metrics: {url}", err=True)
        yield metrics
