"""Undo of what a fault left on a link, by the proxy's API alone, without the harness.

    clear_effects ─► the toxics whose names begin with the injection's ─► GET, DELETE
    enable_proxy ──► a link that refuses connections ─► POST enabled

Only the part of Toxiproxy's API that the embedded proxy also has. A proxy or a server that is gone
has taken its effects with it. A server elsewhere, such as in a pod, has verbs of its own, which do
the same by another way to its API (`AskedProxy`).
"""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.links.proxied.http_api import (
    Endpoint,
    NoSuchName,
    Unreachable,
    address_of,
    an_object,
    call,
)
from chaoslab.links.proxied.toxics import HELD_BACK_MS
from chaoslab.undo.facts import Facts, is_loopback, require, require_match
from chaoslab.undo.verbs import Healed, Maintenance, Verb

CLEAR_EFFECTS, ENABLE_PROXY = "clear_effects", "enable_proxy"
_INJECTION = re.compile(r"injection-\d+|initial")
_PROXY = re.compile(r"[\w-][\w.-]{0,120}")
_FLUSH_S = 0.1
"""Time in which held bytes pass before a freeze is removed."""


class AskedProxy(Protocol):
    """A proxy that an undo entry names, and a way to its server."""

    @property
    def proxy(self) -> str:
        """Name of the proxy on the server."""
        ...

    @property
    def injection(self) -> str:
        """Injection whose effects are removed; empty for the whole proxy."""
        ...

    def ask(self, method: str, path: str, body: Json = None) -> Json:
        """Make one call to its server, as `http_api.call`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFacts(Facts):
    """A proxy, on a server of this machine or of the machine where the engine is."""

    api: str
    """host:port."""
    proxy: str
    injection: str = ""
    token: str = field(default="", repr=False)
    """Empty if the server asks for none."""

    def __post_init__(self) -> None:
        host, _, port = self.api.rpartition(":")
        require(port.isdecimal() and 0 < int(port) < 2**16, f"{self.api!r} is no host:port")
        require(
            is_loopback(host) or host == _engine_host(),
            f"{self.api} is not on this machine, nor on that of DOCKER_HOST: nothing is sent there",
        )
        require_proxy(self.proxy)

    @property
    def endpoint(self) -> Endpoint:
        """The API of its server."""
        return Endpoint(address=self.api, token=self.token)

    def ask(self, method: str, path: str, body: Json = None) -> Json:
        """Make one call to its server."""
        return call(self.endpoint, method, path, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFacts(ProxyFacts):
    """Effects of one injection on a proxy."""

    def __post_init__(self) -> None:
        ProxyFacts.__post_init__(self)
        require_injection(self.injection)


def require_proxy(name: str) -> None:
    """FleetError unless this can be the name of a proxy."""
    require_match(_PROXY, name, "proxy")


def require_injection(name: str) -> None:
    """FleetError unless effects can belong to it."""
    require_match(_INJECTION, name, "injection")


def shown(proxy: AskedProxy) -> Mapping[str, Json]:
    """The proxy as its server shows it; empty if the proxy or the server is gone."""
    try:
        return an_object(proxy.ask("GET", _path(proxy)))
    except (NoSuchName, Unreachable):
        return {}


def toxics_of(proxy: AskedProxy) -> tuple[str, ...]:
    """Names of the toxics of its injection, which are like `injection-3.latency.up`."""
    toxics = shown(proxy).get("toxics")
    found = map(an_object, toxics if isinstance(toxics, list) else [])
    names = (str(toxic.get("name")) for toxic in found)
    return tuple(name for name in names if _is_of(proxy.injection, name))


def _path(proxy: AskedProxy) -> str:
    return f"/proxies/{proxy.proxy}"


def _is_of(injection: str, name: str) -> bool:
    whose, *what = name.split(".")
    return whose == injection and len(what) >= 2


def clear(proxy: AskedProxy) -> Healed:
    """Remove the effects of one injection from a link; FleetError if the proxy refuses."""
    names = toxics_of(proxy)
    for name in reversed(names):  # what bytes meet last holds up what they meet first
        path = f"{_path(proxy)}/toxics/{name}"
        try:
            _release(proxy, path)
            proxy.ask("DELETE", path)
        except (NoSuchName, Unreachable):
            continue
    return Healed(actions=tuple(f"{name} on {proxy.proxy}, taken away" for name in names))


def _release(proxy: AskedProxy, path: str) -> None:
    """A freeze of Toxiproxy's is a latency without end: see `ToxiproxyClient.release`."""
    toxic = an_object(proxy.ask("GET", path))
    if an_object(toxic.get("attributes")).get("latency") != HELD_BACK_MS:
        return
    try:
        proxy.ask("POST", path, {"attributes": {"latency": 0}})
    except FleetError:
        return  # the removal that follows is tried all the same, and says why it fails
    time.sleep(_FLUSH_S)


def effects(proxy: AskedProxy) -> tuple[str, ...]:
    """Remaining effects of an injection on a link, a few words each."""
    return tuple(f"{name} on the link {proxy.proxy}" for name in toxics_of(proxy))


def enable(proxy: AskedProxy) -> Healed:
    """Let a link that refuses take connections again; FleetError if the proxy refuses."""
    if not refusing(proxy):
        return Healed()
    proxy.ask("POST", _path(proxy), {"enabled": True})
    return Healed(actions=(f"{proxy.proxy} was off, and is on again",))


def refusing(proxy: AskedProxy) -> tuple[str, ...]:
    """The link, in a few words, if it refuses connections."""
    is_off = shown(proxy).get("enabled") is False
    return (f"the link {proxy.proxy} that refuses",) if is_off else ()


def _engine_host() -> str | None:
    """Address of the machine of DOCKER_HOST, if it is another one."""
    host = urlsplit(os.environ.get("DOCKER_HOST", "")).hostname
    try:
        return address_of(host) if host else None
    except OSError:
        return None


MAINTENANCE = Maintenance(
    verbs={
        CLEAR_EFFECTS: Verb(facts=EffectFacts, undo=clear, left=effects, is_safe_during_run=True),
        ENABLE_PROXY: Verb(facts=ProxyFacts, undo=enable, left=refusing, is_safe_during_run=True),
    }
)
