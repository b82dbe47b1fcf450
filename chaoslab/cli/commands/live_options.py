"""The live page of a game-day: --serve, --tls-cert, --tls-key and --operator.

    Serving.begin(inbox, plan) ─► observers ─► the run         links ─► stderr

An observer: it cannot change, delay or fail a run. What is wrong with the options is refused before
anything starts.
"""

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaoslab.cli.commands.options import bundled
from chaoslab.core.errors import PlanError
from chaoslab.core.terminal import harmless
from chaoslab.plan.model import FaultPlan
from chaoslab.record.journal import Observer
from chaoslab.run.operators import Inbox

if TYPE_CHECKING:
    from chaoslab.gameday.live.server import LivePage

_LOOPBACK = "127.0.0.1"
_NOBODY = "operator"
"""Name of a user without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Options of the command line about the live page."""

    serve: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, is_given in (
            ("--tls-cert", self.tls_cert is not None),
            ("--tls-key", self.tls_key is not None),
            ("--operator", bool(self.operators)),
        ):
            if is_given and self.serve is None:
                raise PlanError(f"{option} is for the live page: add --serve [HOST:]PORT")

    @contextmanager
    def begin(self, inbox: Inbox, plan: FaultPlan) -> Iterator[tuple[Observer, ...]]:
        """Serve the page, if asked to, and print its links to stderr; gives the run's observers.

        PlanError if the address, the certificate or a name cannot be used; AbilityError without the
        extra `chaoslab[gameday]`.
        """
        if self.serve is None:
            yield ()
            return
        from chaoslab.gameday.live.server import Listen, serving  # noqa: PLC0415  # an extra

        host, port = parsed(self.serve)
        listen = Listen(host=host, port=port, certificate=self.tls_cert, key=self.tls_key)
        operators = self.operators or (plan.charter.facilitator or login(),)
        with serving(plan, inbox, listen, operators=operators) as page:
            for line in lines(page):
                click.echo(line, err=True)
            yield (page,)


live_options = bundled(
    "serving",
    Serving,
    click.option(
        "--serve",
        metavar="[HOST:]PORT",
        is_flag=False,
        flag_value="0",
        help="Serve a live page to look at and act on; without HOST on this machine alone, with "
        "port 0 or none at any free one.",
    ),
    click.option(
        "--tls-cert",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Certificate of the page in PEM; needed with a HOST that others can reach.",
    ),
    click.option(
        "--tls-key",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Key of the certificate in PEM, without a password.",
    ),
    click.option(
        "--operator",
        "operators",
        metavar="NAME",
        multiple=True,
        help="Print a link for this operator, which can be used once; repeat it for others. "
        "Default: the facilitator of the plan, or the login name.",
    ),
)


def parsed(address: str) -> tuple[str, int]:
    """Host and port of `[HOST:]PORT`; PlanError if it has another form."""
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise PlanError(f"--serve {address}: write PORT or HOST:PORT, such as 8080; 0 takes any")
    return host.removeprefix("[").removesuffix("]") or _LOOPBACK, int(port)


def lines(page: "LivePage") -> Sequence[str]:
    """Address of the page, and a link for each expected participant."""
    found = [f"live page: {page.address.url}/"]
    for link in page.links:
        person = f"operator {link.name}, once" if link.name else "viewers, as many as like"
        found.append(f"  {harmless(person)}: {link.url}")
    return found


def login() -> str:
    """Name of this user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return _NOBODY
