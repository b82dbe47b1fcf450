"""POST of JSON to a receiver, and addresses of receivers: whatever is posted goes to them alone."""

import base64
import ssl
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

from chaoslab import __version__


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without its body, and take its token elsewhere."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        """Leave it as the error that it is."""


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    trusts: ssl.SSLContext | None = None,
) -> None:
    """Post once. OSError or HTTPException if it is not accepted; redirects are errors."""
    about = {"Content-Type": "application/json", "User-Agent": f"chaoslab/{__version__}"}
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if at:
        url = urlunsplit(parts._replace(netloc=place))
        about["Authorization"] = f"Basic {base64.b64encode(unquote(user).encode()).decode()}"
    request = urllib.request.Request(url, body, {**about, **headers}, method="POST")  # noqa: S310  # http, https
    handlers = [_NoRedirect(), urllib.request.HTTPSHandler(context=trusts)]
    with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
        answer.read(1)


def is_address(url: str) -> bool:
    """Whether it can be posted to."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # no host, or a port that is no number
        return False


def shown(url: str) -> str:
    """An address without its password, as messages may show it."""
    before, at, place = url.rpartition("@")
    return f"{before.partition('://')[0]}://{place}" if at else url
