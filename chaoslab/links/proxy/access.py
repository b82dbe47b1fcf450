"""Access to the proxy's API: local programs, or holders of its token; no browsers.

    headers ─► Guard.require ─► 403 a browser, or a host name that another DNS leads here
                             ├► 401 no token, or another
                             └► 415 a body of a type that a web page can send without permission

A web page open in a user's browser can send requests to loopback. Browsers mark these by headers
that a page cannot change and that programs do not send, and ask for permission before they send a
JSON body.
"""

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from chaoslab.links.proxy.toxics import Refused

TOKEN = "CHAOSLAB_PROXY_TOKEN"
"""Environment variable with the token; unlike a command line it is hidden from other users."""
_OF_BROWSERS = ("origin", "referer")
_FETCH = "sec-fetch-"
_BROWSER = "mozilla/"
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Conditions that a request must meet."""

    token: str = field(default="", repr=False)
    """Sent as `Authorization: Bearer TOKEN`, or as the password of `http://any:TOKEN@host:port`."""
    is_loopback: bool = True
    """The API listens on loopback only, so the Host header must be a loopback name."""

    def require(self, headers: Mapping[str, str], *, has_body: bool) -> None:
        """Raise Refused unless the request is allowed. Names of `headers` are lower case."""
        is_browser = headers.get("user-agent", "").lower().startswith(_BROWSER)
        if is_browser or any(key in _OF_BROWSERS or key.startswith(_FETCH) for key in headers):
            raise Refused("requests from browsers are not allowed", status=403)
        if self.is_loopback and not _is_loopback(headers.get("host", "")):
            raise Refused(
                f"Host: must be localhost or 127.0.0.1, got {headers.get('host')!r}",
                status=403,
            )
        if self.token and not _is_same(self.token, _token(headers.get("authorization", ""))):
            raise Refused(
                "token required: `Authorization: Bearer TOKEN`, or the password in "
                "http://any:TOKEN@host:port",
                status=401,
            )
        if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise Refused(f"Content-Type: must be {_JSON}", status=415)


def _is_same(wanted: str, got: str) -> bool:
    return hmac.compare_digest(wanted.encode(), got.encode())


def _token(authorization: str) -> str:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def is_loopback(host: str) -> bool:
    """Whether this address or name is of this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_loopback(host_header: str) -> bool:
    host, colon, port = host_header.rpartition(":")
    return is_loopback(host if colon and port.isdecimal() else host_header)
