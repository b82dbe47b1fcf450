"""Who may call the proxy's API: programs on this machine, or whoever holds its token; no browser.

    headers ─► Guard.require ─► 403 a browser, or a name that leads here by somebody's DNS
                             ├► 401 no token, or another
                             └► 415 a body that a page could send without asking

A page that a user of this machine has open can send requests to loopback. Browsers say so in
headers that a page cannot change and programs do not send, and send a body of JSON only after
asking.
"""

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from chaoslab.links.proxy.toxics import Refused

TOKEN = "CHAOSLAB_PROXY_TOKEN"
"""The environment variable with the token: other users cannot read it, as they can a command."""
_OF_BROWSERS = ("origin", "referer")
_FETCH = "sec-fetch-"
_BROWSER = "mozilla/"
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What a request must bring."""

    token: str = field(default="", repr=False)
    """As `Authorization: StressDriver TOKEN`, or as the password of `http://any:TOKEN@host:port`."""
    is_loopback: bool = True
    """The API listens on loopback alone, so it must be called by a name of loopback."""

    def require(self, headers: Mapping[str, str], *, has_body: bool) -> None:
        """Refused unless the request may be carried out. Names of `headers` are lower case."""
        is_browser = headers.get("user-agent", "").lower().startswith(_BROWSER)
        if is_browser or any(key in _OF_BROWSERS or key.startswith(_FETCH) for key in headers):
            raise Refused("this API is not for browsers", status=403)
        if self.is_loopback and not _is_loopback(headers.get("host", "")):
            raise Refused(
                f"this API is called localhost or 127.0.0.1, not {headers.get('host')!r}",
                status=403,
            )
        if self.token and not _is_same(self.token, _token(headers.get("authorization", ""))):
            raise Refused(
                "this API needs its token: `Authorization: StressDriver TOKEN`, or the password in "
                "http://any:TOKEN@host:port",
                status=401,
            )
        if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise Refused(f"send a body as `Content-Type: {_JSON}`", status=415)


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
    """Whether this address or name means this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_loopback(host_header: str) -> bool:
    host, colon, port = host_header.rpartition(":")
    return is_loopback(host if colon and port.isdecimal() else host_header)
