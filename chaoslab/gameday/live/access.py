"""Access to the live page: links, cookies, same-origin checks and rate limits.

    link /enter#TOKEN ── POST ──► Access.enter ─► cookie ─► Access.visit ─► Visit: role, name
                                    │ 403 spent or unknown     401 no cookie, or an old one
                                    └ 429 too many wrong ones
    every request ─► Address.require ─► 403 another host or origin · 400 a body that is not JSON

Of tokens and cookies only SHA-256 digests are kept and compared: how long a comparison takes says
nothing about a secret.
"""

import hashlib
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from chaoslab.core.clock import Clock, WallClock
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json

_TOKEN_BYTES: Final = 32
_NAME_MOST: Final = 40
"""Characters of a name."""
_VISITS_MOST: Final = 1000
"""Cookies of viewers; a new one takes the place of the oldest."""
_JSON: Final = "application/json"
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_PORT_OF: Final[Mapping[bool, int]] = {False: 80, True: 443}
"""The port that browsers leave out, by whether there is TLS."""


class Denied(Exception):
    """A request is not answered as asked; `status` is that of HTTP, the message says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Role(StrEnum):
    """Rights of a visitor."""

    OPERATOR = "operator"
    """Ask for everything."""
    VIEWER = "viewer"
    """Look; with a name predict and note, too."""


@dataclass(slots=True, kw_only=True, eq=False)
class Visit:
    """One browser that was let in."""

    role: Role
    name: str = ""
    """Who it is; of a viewer what they say, empty if nothing."""
    predicted: dict[str, Mapping[str, Json]] = field(default_factory=dict)
    """Last predictions of this visit by fault, as they were sent."""

    def require_name(self) -> str:
        """Under which its orders go into the record; Denied without one."""
        if not self.name:
            raise Denied(403, "open the link again and give a name: the record says who said what")
        return self.name

    def require_operator(self) -> str:
        """The same of an operator; Denied for a viewer."""
        if self.role is not Role.OPERATOR:
            raise Denied(403, "only operators may do this; viewers may predict and note")
        return self.name


# ---------------------------------------------------------------- where requests come from


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Address of the page in browsers."""

    host: str
    """A name or an address of this machine, without brackets."""
    port: int
    has_tls: bool = False

    @property
    def url(self) -> str:
        """Address without a slash at its end."""
        return f"{self._scheme}://{_bracketed(self.host)}:{self.port}"

    @property
    def cookie(self) -> str:
        """Name of the cookie: browsers do not tell ports of a machine apart."""
        return f"{'__Host-' if self.has_tls else ''}chaoslab-live-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the Host header under which it answers."""
        names = _LOOPBACK if self.host in _LOOPBACK else {self.host}
        named = {_bracketed(name).lower() for name in names}
        bare = named if self.port == _PORT_OF[self.has_tls] else set()
        return frozenset({*bare, *(f"{name}:{self.port}" for name in named)})

    @property
    def _scheme(self) -> str:
        return "https" if self.has_tls else "http"

    def require(self, method: str, headers: Mapping[str, str]) -> None:
        """Denied unless a request is for this address and, of a POST, comes from its own page.

        Names of `headers` are lower case. A name of another's DNS that leads here is refused,
        too.
        """
        if headers.get("host", "").lower() not in self.hosts:
            raise Denied(403, f"this page answers at {self.url} only")
        if method != "POST":
            return
        origin = headers.get("origin", "").lower()
        if origin not in {f"{self._scheme}://{host}" for host in self.hosts}:
            raise Denied(403, "requests from other pages, or without an Origin, are not allowed")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise Denied(400, f"Content-Type: must be {_JSON}")


def is_loopback(host: str) -> bool:
    """Whether a host that is to be served is this machine alone."""
    return host in _LOOPBACK


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# ---------------------------------------------------------------- how often


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """Limit per key, such as an address: `at_once` requests, then `per_s` each second."""

    at_once: int
    per_s: float
    clock: Clock
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Remaining requests by key, and the time of that count."""

    def take(self, key: str) -> None:
        """Count one; Denied if there were too many."""
        now_s = self.clock.now_s()
        known, at_s = self._left.get(key, (float(self.at_once), now_s))
        left = min(float(self.at_once), known + self.per_s * (now_s - at_s))
        if left < 1:
            raise Denied(429, f"too many at once: wait {max(1.0, (1 - left) / self.per_s):.0f} s")
        self._left[key] = (left - 1, now_s)


# ---------------------------------------------------------------- who


_Digest: TypeAlias = bytes


class Access:
    """Tokens that were given out, and the visits that came of them; for one thread at a time.

    They last as long as this object.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        clock = clock or WallClock()
        self._tokens: dict[_Digest, tuple[Role, str]] = {}
        self._visits: dict[_Digest, Visit] = {}
        self._wrong = RateLimit(at_once=10, per_s=0.5, clock=clock)
        self._orders = RateLimit(at_once=5, per_s=2.0, clock=clock)
        self._aborts = RateLimit(at_once=5, per_s=2.0, clock=clock)
        self._entries = RateLimit(at_once=100, per_s=2.0, clock=clock)
        self._said = RateLimit(at_once=30, per_s=10.0, clock=clock)
        """Limit of all viewers together: the run writes a line for each message."""
        self._operators: set[str] = set()

    def invite(self, role: Role, name: str = "") -> str:
        """A new token; an operator's has a name and can be used once.

        PlanError if the name cannot be one.
        """
        if role is Role.OPERATOR:
            try:
                name = checked_name(name)
            except Denied as denied:
                raise PlanError(f"--operator: {denied}") from denied
            if not name:
                raise PlanError("--operator: write a name")
            self._operators.add(_alike(name))
        token = f"{role[0]}-{secrets.token_urlsafe(_TOKEN_BYTES)}"
        self._tokens[_digest(token)] = (role, name)
        return token

    def enter(self, token: str, name: str, *, address: str, cookie: str = "") -> str:
        """A new cookie for a token; `name` counts for viewers alone.

        `cookie`: what the browser had before, which the new one replaces. Denied for a wrong or
        spent token, and for a name that is taken. Wrong tokens are counted by
        `address`; the right one is let in however many came from there: by ssh all come from one.
        """
        role, operator = self.invited(token, address=address)
        before = self._visits.get(_digest(cookie))
        if role is Role.OPERATOR:
            del self._tokens[_digest(token)]
        else:
            self._entries.take(address)
        visit = Visit(role=role, name=operator or self._free_name(name, before))
        if before is not None:
            del self._visits[_digest(cookie)]
        made = secrets.token_urlsafe(_TOKEN_BYTES)
        self._visits[_digest(made)] = visit
        self._forget_old_viewers()
        return made

    def invited(self, token: str, *, address: str) -> tuple[Role, str]:
        """Who a token lets in, which it still does afterwards: the role, and of an operator the
        name. Denied for a wrong or spent one.
        """
        found = self._tokens.get(_digest(token))
        if found is None:
            self._wrong.take(address)
            raise Denied(403, "this link is unknown or was used before: ask for another one")
        return found

    def visit(self, cookie: str) -> Visit:
        """Visit of a cookie; Denied if it is unknown."""
        found = self._visits.get(_digest(cookie))
        if found is None:
            raise Denied(401, "open the link that you were given")
        return found

    def take_turn(self, cookie: str, *, is_abort: bool = False) -> None:
        """Count an order of this cookie; Denied if there were too many.

        Aborts are counted apart: other orders never stand in their way. Nor do viewers in that of
        operators, however many cookies they get.
        """
        (self._aborts if is_abort else self._orders).take(_digest(cookie).hex())
        if self.visit(cookie).role is Role.VIEWER:
            self._said.take(Role.VIEWER)

    def _free_name(self, name: str, before: Visit | None) -> str:
        name = checked_name(name)
        taken = {_alike(visit.name) for visit in self._visits.values() if visit is not before}
        if name and _alike(name) in taken | self._operators:
            raise Denied(409, f"{name} is the name of another participant: add something to it")
        return name

    def _forget_old_viewers(self) -> None:
        viewers = [key for key, visit in self._visits.items() if visit.role is Role.VIEWER]
        for key in viewers[: max(0, len(viewers) - _VISITS_MOST)]:
            del self._visits[key]


def checked_name(name: str) -> str:
    """The name without needless blanks; Denied if it is too long or not printable."""
    name = " ".join(unicodedata.normalize("NFC", name).split())
    if len(name) > _NAME_MOST or not name.isprintable():
        raise Denied(400, f"a name has at most {_NAME_MOST} characters, all of them printable")
    return name


def _alike(name: str) -> str:
    """Equal for names that differ in case or in the width of their letters alone."""
    return unicodedata.normalize("NFKC", name).casefold()


def _digest(secret: str) -> _Digest:
    return hashlib.sha256(secret.encode(errors="replace")).digest()
