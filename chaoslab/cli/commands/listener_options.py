"""Who else hears of a run while it goes on: --notify URL and --metrics ADDRESS.

    Listeners.observers ─► the run        made, judged ◄─ the command        closed when it ends

Both are observers: they cannot change, delay or fail a run. What is wrong with the options is
refused before anything starts.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaoslab.cli.commands.output import warn
from chaoslab.core.clock import WallClock
from chaoslab.record.journal import Observer
from chaoslab.run.judged_run import Judged

if TYPE_CHECKING:
    from chaoslab.report.metrics import Metrics
    from chaoslab.report.webhook import Webhook

_LAST_DELIVERY_S = 10.0
"""How long the end of the command waits for the receiver; the run is over then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """What was asked for on the command line."""

    notify: str | None = None
    metrics: str | None = None

    @contextmanager
    def begin(self) -> Iterator["Listeners"]:
        """Open what was asked for; PlanError or AbilityError if it cannot be."""
        with ExitStack() as stack:
            yield Listeners(
                webhook=stack.enter_context(_notifying(self.notify)) if self.notify else None,
                metrics=stack.enter_context(_serving(self.metrics)) if self.metrics else None,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Those that are open."""

    webhook: "Webhook | None" = None
    metrics: "Metrics | None" = None

    @property
    def observers(self) -> tuple[Observer, ...]:
        """What a run is given."""
        return tuple(one for one in (self.webhook, self.metrics) if one is not None)

    def made(self, run_directory: Path) -> None:
        """A run begins."""
        if self.webhook is not None:
            self.webhook.made(run_directory.name)

    def judged(self, judged: Judged) -> None:
        """Its verdict was reached."""
        if self.webhook is not None:
            self.webhook.judged(judged.verdict, WallClock().wall())
        if self.metrics is not None:
            self.metrics.judged(judged.verdict)


def listener_options(function: Callable[..., None]) -> Callable[..., None]:
    """--notify and --metrics, given to the command as one `listening`."""

    @click.option(
        "--notify",
        metavar="URL",
        help="POST start and verdict to this URL, signed with $CHAOSLAB_WEBHOOK_SECRET.",
    )
    @click.option(
        "--metrics",
        metavar="[HOST]:PORT",
        help="Serve Prometheus metrics while it runs; without HOST on this machine alone.",
    )
    @wraps(function)
    def with_listening(
        *context: click.Context, notify: str | None, metrics: str | None, **others: object
    ) -> None:
        function(*context, listening=Listening(notify=notify, metrics=metrics), **others)

    return with_listening


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
