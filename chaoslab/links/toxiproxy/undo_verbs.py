"""Undo of a proxy on a Toxiproxy server that others use, too; and where a server comes from."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from chaoslab.links.proxied.http_api import Endpoint, NoSuchName, Unreachable, call
from chaoslab.links.proxied.undo_verbs import ProxyFacts, shown
from chaoslab.links.toxiproxy import server_binary
from chaoslab.undo.facts import require
from chaoslab.undo.verbs import Examined, Healed, Maintenance, Verb, missing, ok

DELETE_PROXY = "delete_proxy"
_TOXIPROXY = "toxiproxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProxyFacts(ProxyFacts):
    """A proxy of ours on a server that others use, too."""

    def __post_init__(self) -> None:
        ProxyFacts.__post_init__(self)
        require(self.proxy.startswith("chaoslab-"), f"the proxy {self.proxy!r} is not chaoslab's")


def delete(api: Endpoint, proxy: str) -> None:
    """Delete a proxy, if it is there; FleetError if the server refuses or is silent."""
    with suppress(NoSuchName, Unreachable):
        call(api, "DELETE", f"/proxies/{proxy}")


def _delete(facts: OwnProxyFacts) -> Healed:
    what = _left(facts)
    delete(facts.endpoint, facts.proxy)
    return Healed(actions=tuple(f"{one}, deleted" for one in what))


def _left(facts: OwnProxyFacts) -> tuple[str, ...]:
    return (f"the proxy {facts.proxy} at {facts.api}",) if shown(facts) else ()


def _diagnose() -> Iterator[Examined]:
    server = server_binary.find()
    if server is not None:
        yield ok(_TOXIPROXY, str(server))
    else:
        remedy = "chaoslab doctor --fix installs it; links: embedded needs none"
        yield missing(_TOXIPROXY, "no toxiproxy-server on PATH or in the cache", remedy)


def _install() -> str:
    return f"installed {server_binary.install()} (version {server_binary.VERSION})"


MAINTENANCE = Maintenance(
    verbs={DELETE_PROXY: Verb(facts=OwnProxyFacts, undo=_delete, left=_left)},
    diagnose=_diagnose,
    repairs={_TOXIPROXY: _install},
)
