"""Links through chaoslab's own proxy: nothing to install, more abilities than Toxiproxy.

    EmbeddedLinks ── HTTP API ──► `python -m chaoslab.links.proxy`, one process for all
                                   learner ─► link ─► syncer

The proxy ends with the harness, however that ends. Its API has a token, which is written only to
the undo log. One seed determines the random delays of all links.
"""

import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.links.base import Counters
from chaoslab.links.effects import Direction, Effect, LinkAbility
from chaoslab.links.netem.packet_rules import PACKET_ABILITIES
from chaoslab.links.ports import ReservedPort
from chaoslab.links.proxied.client import ProxyClient, Toxic
from chaoslab.links.proxied.host import ProxyHost
from chaoslab.links.proxied.http_api import CALL_S, Endpoint, an_object, call
from chaoslab.links.proxied.links import ProxiedLinks
from chaoslab.links.proxied.process import Server
from chaoslab.links.proxied.toxics import STREAMS, translate
from chaoslab.links.proxy.access import TOKEN
from chaoslab.undo.base import NoUndoLog, UndoLog


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
        """The proxy's log goes to `directory`; how to end it is written to the undo log.

        In a `proxy_host` it is that one's to log and to end.
        """
        log = undo_log or NoUndoLog()
        super().__init__(directory, log, proxy_host or local_server(directory, log))
        self._seed = seed

    def _client_of(self, api: Endpoint) -> ProxyClient:
        return EmbeddedProxyClient(api, self._seed)


def local_server(directory: Path, undo_log: UndoLog) -> Server:
    """The proxy as a process of this machine, its log below `directory`; not started yet."""

    def command(port: ReservedPort) -> Sequence[str]:
        return sys.executable, "-m", "chaoslab.links.proxy", "--port", str(port.number)

    token = secrets.token_urlsafe()
    environment = {TOKEN: token}
    return Server(
        "embedded-proxy", command, directory, undo_log, environment=environment, token=token
    )


class EmbeddedProxyClient(ProxyClient):
    """The embedded proxy: one toxic for both directions, a reset of its own, and live counters."""

    look_s = 2.0

    def __init__(self, api: Endpoint, seed: int) -> None:
        super().__init__(api)
        self._seed = seed

    def ask(self, method: str, path: str, body: Json = None, *, within_s: float = CALL_S) -> Json:
        """Make one call, with the proxy's token."""
        return call(self.api, method, path, body, within_s=within_s)

    def toxics(self, name: str, direction: Direction, effect: Effect) -> Sequence[Toxic]:
        """One toxic, also for both directions."""
        kind, attributes = translate(effect, seed=self._seed)
        stream = STREAMS[direction]
        return (Toxic(name=name, kind=kind, stream=stream, attributes=attributes),)

    def reset(self, proxy: str) -> None:
        """A RST to both ends of every open connection."""
        self.ask("POST", f"/proxies/{proxy}/reset")

    def count(self, proxy: str, port: int) -> Counters:  # noqa: ARG002 - the base's signature
        found = an_object(self.ask("GET", f"/proxies/{proxy}/counters"))
        return Counters(
            up_bytes=_whole(found, "upstream_bytes"),
            down_bytes=_whole(found, "downstream_bytes"),
            connections=_whole(found, "connections"),
            opened=_whole(found, "opened"),
        )


def _whole(found: Mapping[str, Json], key: str) -> int:
    value = found.get(key)
    if not isinstance(value, int):
        raise FleetError(f"the proxy counts {dict(found)}: {key} is missing")
    return value
