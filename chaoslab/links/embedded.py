"""Links through chaoslab's own proxy: nothing to install, and more than Toxiproxy can do.

    EmbeddedLinks ── HTTP API ──► `python -m chaoslab.links.embedded_proxy`, one process for all
                                   learner ─► link ─► syncer

The proxy ends with the harness, whatever happens to it, and obeys nobody else: its API has a token,
which is written to `obligations` alone, for whoever must undo what stands on a link. One seed
settles the chance of all links.
"""

import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.links.base import Counters
from chaoslab.links.effects import Direction, Effect, LinkAbility
from chaoslab.links.http_api import Endpoint, an_object, call
from chaoslab.links.packet_rules import PACKET_ABILITIES
from chaoslab.links.ports import HeldPort
from chaoslab.links.proxied_links import ProxiedLinks
from chaoslab.links.proxy.access import TOKEN
from chaoslab.links.proxy_client import ProxyClient, ProxyState, Toxic
from chaoslab.links.proxy_host import ProxyHost
from chaoslab.links.proxy_process import Server
from chaoslab.links.toxics import STREAMS, proxy_state, require_same, translate
from chaoslab.undo.base import NoUndoLog, UndoLog

_LOOK_S = 2.0


class EmbeddedLinks(ProxiedLinks):
    """All links of a run through one embedded proxy; see `base.Links`."""

    kind = "embedded"
    stream_abilities = frozenset(LinkAbility) - PACKET_ABILITIES

    def __init__(
        self,
        directory: Path,
        *,
        undo_log: UndoLog | None = None,
        seed: int = 0,
        proxy_host: ProxyHost | None = None,
    ) -> None:
        """The proxy's log goes to `directory`; how to end it is written to `obligations`.

        In a `house` it is that one's to log and to end.
        """
        super().__init__(directory, undo_log or NoUndoLog(), proxy_host)
        self._directory, self._seed = directory, seed
        self._server: Server | None = None
        self._api = Endpoint(address="")

    def _begin(self) -> ProxyClient:
        if self._proxy_host is not None:
            self._api = self._proxy_host.open(self.kind)
            return EmbeddedProxyClient(self._api, self._seed)

        def command(port: HeldPort) -> Sequence[str]:
            module = "chaoslab.links.embedded_proxy"
            return sys.executable, "-m", module, "--port", str(port.number)

        token = secrets.token_urlsafe()
        self._server = Server(
            "embedded-proxy",
            command,
            self._directory,
            self.undo_log,
            environment={TOKEN: token},
            token=token,
        )
        self._api = self._server.api
        return EmbeddedProxyClient(self._api, self._seed)

    def _end(self) -> None:
        if self._server is not None:
            self._server.stop()
        if self._proxy_host is not None:
            self._proxy_host.close()

    def _ended(self) -> str:
        if self._proxy_host is not None:
            return self._proxy_host.ended()
        return self._server.ended() if self._server is not None else "it was never started"

    def _proxy_name(self, link: str) -> str:
        return link

    @property
    def api(self) -> Endpoint:
        """See `ProxiedLinks.api`."""
        return self._api

    @property
    def pid(self) -> int | None:
        """Of the proxy's process."""
        return self._server.pid if self._server is not None else None


class EmbeddedProxyClient:
    """The embedded proxy, asked by its API; see `carrier.Carrier`."""

    def __init__(self, api: Endpoint, seed: int) -> None:
        self._api, self._seed = api, seed

    def create(self, proxy: str, listen: str, upstream: str) -> None:
        """Make it and listen."""
        self._ask("POST", "/proxies", {"name": proxy, "listen": listen, "upstream": upstream})

    def delete(self, proxy: str) -> None:
        """End it."""
        self._ask("DELETE", f"/proxies/{proxy}")

    def look(self) -> Mapping[str, ProxyState]:
        """All proxies as they are."""
        found = an_object(call(self._api, "GET", "/proxies", within_s=_LOOK_S))
        return {name: proxy_state(an_object(one)) for name, one in found.items()}

    def toxics(self, name: str, direction: Direction, effect: Effect) -> Sequence[Toxic]:
        """One toxic, also for both directions."""
        kind, attributes = translate(effect, seed=self._seed)
        stream = STREAMS[direction]
        return (Toxic(name=name, kind=kind, stream=stream, attributes=attributes),)

    def add(self, proxy: str, toxic: Toxic) -> None:
        """Its answer is what it read."""
        body: dict[str, Json] = {
            "name": toxic.name,
            "type": toxic.kind,
            "stream": toxic.stream,
            "attributes": toxic.attributes,
        }
        require_same(toxic, self._ask("POST", f"/proxies/{proxy}/toxics", body))

    def change(self, proxy: str, toxic: Toxic) -> None:
        """Likewise."""
        path = f"/proxies/{proxy}/toxics/{toxic.name}"
        require_same(toxic, self._ask("POST", path, {"attributes": toxic.attributes}))

    def release(self, proxy: str, toxic: Toxic) -> None:
        """Nothing: it goes on as soon as the toxic is removed."""

    def remove(self, proxy: str, toxic: Toxic) -> None:
        """Take it away."""
        self._ask("DELETE", f"/proxies/{proxy}/toxics/{toxic.name}")

    def switch(self, proxy: str, *, is_on: bool) -> None:
        """Listen or refuse."""
        self._ask("POST", f"/proxies/{proxy}", {"enabled": is_on})

    def reset(self, proxy: str) -> None:
        """A RST to both ends of every open connection."""
        self._ask("POST", f"/proxies/{proxy}/reset")

    def count(self, proxy: str, port: int) -> Counters:  # noqa: ARG002 - the protocol's signature
        """Live."""
        found = an_object(self._ask("GET", f"/proxies/{proxy}/counters"))
        return Counters(
            up_bytes=_whole(found, "upstream_bytes"),
            down_bytes=_whole(found, "downstream_bytes"),
            connections=_whole(found, "connections"),
            opened=_whole(found, "opened"),
        )

    def _ask(self, method: str, path: str, body: Json = None) -> Json:
        return call(self._api, method, path, body)


def _whole(found: Mapping[str, Json], key: str) -> int:
    value = found.get(key)
    if not isinstance(value, int):
        raise FleetError(f"the proxy counts {dict(found)}: {key} is missing")
    return value
