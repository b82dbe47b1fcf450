"""Receivers of telemetry and messages.

Their addresses are shown without passwords, and whatever is posted goes to them alone.
"""

import urllib.request
from email.message import Message
from typing import IO

TIMEOUT_S = 10.0
"""How long a receiver may take for one request."""


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
