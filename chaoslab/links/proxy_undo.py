"""What a fault left standing on a link, taken away by the proxy's API alone, without the harness.

    obligation ─► clear: the toxics whose names begin with the injection's ─► GET, DELETE
               └► enable: a link that refuses ─► POST enabled

It speaks the part of Toxiproxy's API that the embedded proxy has, too, and holds no book: a proxy
or a server that is gone has taken its effects with it.
"""

import time
from collections.abc import Mapping
from contextlib import suppress

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.links.http_api import Endpoint, NobodyThere, NotThere, an_object, call
from chaoslab.links.toxics import HELD_BACK_MS

CLEAR_EFFECTS = "clear_effects"
"""The undo verb for `clear`: api, token (if the server has one), proxy, injection."""
ENABLE_PROXY = "enable_proxy"
"""The undo verb for `enable`: api, token (likewise), proxy."""
DELETE_PROXY = "delete_proxy"
"""The undo verb for `delete`: api, proxy."""
_FLUSH_S = 0.1
"""For what a freeze held back to get through before the freeze is taken away."""


def look(api: Endpoint, proxy: str, injection: str) -> tuple[str, ...]:
    """The names of the toxics that this injection has on the proxy now."""
    toxics = _proxy(api, proxy).get("toxics")
    found = map(an_object, toxics if isinstance(toxics, list) else [])
    names = (str(toxic.get("name")) for toxic in found)
    return tuple(name for name in names if _is_of(injection, name))


def clear(api: Endpoint, proxy: str, injection: str) -> tuple[str, ...]:
    """Take them away; their names. FleetError if the server refuses or is silent."""
    names = look(api, proxy, injection)
    for name in reversed(names):  # what bytes meet last holds up what they meet first
        path = f"/proxies/{proxy}/toxics/{name}"
        try:
            _release(api, path)
            call(api, "DELETE", path)
        except (NotThere, NobodyThere):
            continue
    return names


def is_off(api: Endpoint, proxy: str) -> bool:
    """Whether the proxy is there and refuses connections."""
    return _proxy(api, proxy).get("enabled") is False


def enable(api: Endpoint, proxy: str) -> bool:
    """Let it take connections; whether it did not. FleetError if the server refuses."""
    was_off = is_off(api, proxy)
    if was_off:
        call(api, "POST", f"/proxies/{proxy}", {"enabled": True})
    return was_off


def delete(api: Endpoint, proxy: str) -> None:
    """Delete a proxy that a dead harness left on somebody's server."""
    with suppress(NotThere, NobodyThere):
        call(api, "DELETE", f"/proxies/{proxy}")


def _is_of(injection: str, name: str) -> bool:
    """Whether a toxic is called as an injection's are: `injection-3.latency.up`."""
    whose, *what = name.split(".")
    return whose == injection and len(what) >= 2


def _proxy(api: Endpoint, proxy: str) -> Mapping[str, Json]:
    """As the server shows it; empty when the proxy or the server is gone."""
    try:
        return an_object(call(api, "GET", f"/proxies/{proxy}"))
    except (NotThere, NobodyThere):
        return {}


def _release(api: Endpoint, path: str) -> None:
    """A freeze of Toxiproxy's is a latency without end: see `ToxiproxyClient.release`."""
    toxic = an_object(call(api, "GET", path))
    if an_object(toxic.get("attributes")).get("latency") != HELD_BACK_MS:
        return
    try:
        call(api, "POST", path, {"attributes": {"latency": 0}})
    except FleetError:
        return  # the removal that follows is tried all the same, and says why it fails
    time.sleep(_FLUSH_S)
