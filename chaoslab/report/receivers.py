"""Receivers of telemetry and messages.

Their addresses are checked before a run begins and shown without passwords, and whatever is posted
goes to them alone.
"""

import urllib.request
from email.message import Message
from typing import IO
from urllib.parse import urlsplit

from chaoslab.core.errors import PlanError

TIMEOUT_S = 10.0
"""How long a receiver may take for one request."""


def receiver(option: str, url: str) -> str:
    """A base address without its last slash; PlanError if it is none."""
    parts = urlsplit(url)
    try:
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise PlanError(
            f"{option}: must be the address of a receiver, such as http://localhost:4318, "
            f"got {shown(url)!r}"
        )
    return url.rstrip("/")


def shown(url: str) -> str:
    """An address as messages may show it."""
    before, at, place = url.rpartition("@")
    return f"{before.partition('://')[0]}://{place}" if at else url


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without its body, and take its token elsewhere."""

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002  # urllib's signature
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: Message,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        """Leave it as the error that it is."""
        return


OPENER = urllib.request.build_opener(_NoRedirect)
"""Opens what is posted; a redirect is an error."""
