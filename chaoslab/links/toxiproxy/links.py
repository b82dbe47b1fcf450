"""Links through a real Toxiproxy server, called by `toxiproxy-python`.

    ToxiproxyLinks ── toxiproxy-python, every call with a deadline ──► Toxiproxy
        its own server from a binary that is found, or a given one that may serve others, too

The server ignores a misspelt attribute and crashes at a negative rate. So everything is checked
before it is sent, the answer is compared with it, and only proxies of this run are changed: no
/reset, no toxicity, no populate.

A limit of Toxiproxy: while a receiver does not read what waits for it, the server cannot change the
toxics of that link. The link is then made anew, which ends its streams, and that is recorded (see
`client`). `links: embedded` does not have this limit.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.links.base import Remade
from chaoslab.links.effects import (
    Bandwidth,
    Effect,
    Freeze,
    Latency,
    LinkAbility,
    Per,
    Reset,
    Slice,
)
from chaoslab.links.ports import ReservedPort
from chaoslab.links.proxied.client import ProxyClient
from chaoslab.links.proxied.host import RestartableHost
from chaoslab.links.proxied.http_api import Endpoint, Unreachable, call
from chaoslab.links.proxied.links import ProxiedLinks
from chaoslab.links.proxied.process import LocalServer, Server
from chaoslab.links.proxied.toxics import whole_numbers
from chaoslab.links.toxiproxy import server_binary
from chaoslab.links.toxiproxy.client import ToxiproxyClient
from chaoslab.links.toxiproxy.undo_verbs import DELETE_PROXY, delete
from chaoslab.undo.base import NoUndoLog, UndoLog

_ASK_S = 2.0
"""Time limit of a given server to report its version."""
_ADVICE = "start one there, or leave `fleet.toxiproxy` out, and one is started for the run"
_VERSION: Final = re.compile(r"[\w.+-]{1,60}")
"""A number, or a word such as `git` where it was built without one."""


class ToxiproxyLinks(ProxiedLinks):
    """All links of a run through one Toxiproxy server; see `base.Links`."""

    kind = "toxiproxy"
    stream_abilities = frozenset(
        {
            LinkAbility.LATENCY, LinkAbility.BANDWIDTH, LinkAbility.BLACKHOLE, LinkAbility.REFUSE,
            LinkAbility.FREEZE, LinkAbility.RESET, LinkAbility.SLICE, LinkAbility.LIMIT_DATA,
        }
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        *,
        undo_log: UndoLog | None = None,
        address: str | None = None,
        proxy_host: RestartableHost | None = None,
    ) -> None:
        """Uses the server whose API is at `address` on this machine, or starts one that it finds.

        With a `proxy_host` it is started there. AbilityError says how to get what is missing.
        """
        log = undo_log or NoUndoLog()
        self._place = proxy_host or _server(address, directory, log)
        super().__init__(directory, log, self._place)
        self._address, self._run = address, secrets.token_hex(3)
        self._entries: dict[str, int] = {}

    def _client_of(self, api: Endpoint) -> ProxyClient:
        return ToxiproxyClient(api, self._place)

    def remade(self) -> Sequence[Remade]:
        """See `base.Remakes`."""
        if not isinstance(self._client, ToxiproxyClient):
            return ()
        told, self._client.remade = self._client.remade, []
        names = {link.proxy: name for name, link in self._links.items()}
        return [replace(one, link=names[one.link]) for one in told]

    def _end(self) -> None:
        """Stop, and delete our proxies from a server that others use."""
        super()._end()
        for proxy, entry in self._entries.items():
            delete(Endpoint(address=str(self._address)), proxy)
            self.undo_log.close(entry)
        self._entries.clear()

    def _proxy_name(self, link: str) -> str:
        """Unique on a server that others use; its undo entry is written before it is created."""
        name = f"chaoslab-{self._run}-{link}"
        if self._address is not None:
            self._entries[name] = self.undo_log.open(DELETE_PROXY, api=self._address, proxy=name)
        return name

    # ---------------------------------------------------------------- limits of Toxiproxy

    def caveats(self, effect: Effect) -> Sequence[str]:
        """See `base.Links.caveats`. AbilityError for what Toxiproxy's whole numbers cannot say."""
        match effect:
            case Reset():
                return ("Toxiproxy ends open connections with a FIN instead of a RST",)
            case Latency() | Bandwidth() | Slice():
                whole_numbers(effect)
        match effect:
            case Bandwidth(per=Per.LINK):
                return ("Toxiproxy limits each connection of a link, not all of them together",)
            case Latency(jitter_s=jitter_s) if jitter_s:
                return ("Toxiproxy's jitter is not seeded: a second run has other delays",)
            case Freeze():
                return ("Toxiproxy lets bytes through when another effect on the link changes",)
            case _:
                return ()


def _server(address: str | None, directory: Path, undo_log: UndoLog) -> LocalServer:
    if address is not None:
        if address.rpartition(":")[0] not in ("127.0.0.1", "localhost"):
            raise AbilityError(f"the Toxiproxy server at {address} is not on this machine")
        api = Endpoint(address=address)
        _require_toxiproxy(api)
        return LocalServer(api)
    binary = server_binary.find()
    if binary is None:
        raise AbilityError(
            "links: toxiproxy needs a Toxiproxy server, and there is none on PATH or in the "
            "cache: run `chaoslab doctor --fix` to install one, or use links: embedded, which "
            "needs nothing"
        )

    def command(port: ReservedPort) -> Sequence[str]:
        return str(binary), "-host", port.host, "-port", str(port.number)

    environment = {"LOG_LEVEL": "warn"}
    return Server("toxiproxy-server", command, directory, undo_log, environment=environment)


def _require_toxiproxy(api: Endpoint) -> None:
    """AbilityError unless a Toxiproxy server answers there: a version, and its proxies by name."""
    try:
        version = call(api, "GET", "/version", within_s=_ASK_S)
        proxies = call(api, "GET", "/proxies", within_s=_ASK_S)
    except Unreachable as error:
        raise AbilityError(f"no Toxiproxy server listens at {api}: {_ADVICE}") from error
    except FleetError as error:
        said = " ".join(str(error).split())[:200]
        raise AbilityError(f"no Toxiproxy answers at {api} ({said}): {_ADVICE}") from error
    if isinstance(version, Mapping):  # after 2.5 it is an object
        version = version.get("version")
    is_named = isinstance(version, str) and _VERSION.fullmatch(version.strip())
    lists = isinstance(proxies, Mapping) and all(map(_is_proxy, proxies.values()))
    if not is_named or not lists:
        lacks = "lists no proxies" if is_named else "names no version"
        raise AbilityError(f"what answers at {api} is no Toxiproxy, it {lacks}: {_ADVICE}")


def _is_proxy(value: Json) -> bool:
    return isinstance(value, Mapping) and {"listen", "upstream"} <= value.keys()
