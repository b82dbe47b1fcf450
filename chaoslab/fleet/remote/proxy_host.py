"""Proxy on a host, by its host agent: where the links of the nodes there are carried.

    AgentProxyHost ── open_proxy, proxy_port, proxy_ended, close_proxy ──► agent ─► embedded proxy
                   ── a port of this machine ── ssh ──► the proxy's API, on the host's loopback

The proxy ends with the agent that started it; another agent on the same host knows nothing of it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from chaoslab.core.event_loop import EventLoop, ResultT
from chaoslab.fleet.remote.contact import AgentLost, OutOfReach
from chaoslab.fleet.remote.host import Host
from chaoslab.links.proxied.host import PlacePort, WithoutRules
from chaoslab.links.proxied.http_api import Endpoint

_CALL_S: Final = 60.0
NO_RULES: Final = (
    "rules on packets are not written on hosts: use an effect on the stream, such as latency"
)


class AgentProxyHost(WithoutRules):
    """A host whose agent runs a proxy; see `links.proxied.host.ProxyHost`."""

    keeps_rules = False
    no_rules = NO_RULES
    interface = "lo"

    def __init__(self, host: Host, loop: EventLoop) -> None:
        self.host, self._loop = host, loop
        self._session = host.session

    @property
    def is_gone(self) -> bool:
        """Whether the agent that started the proxy is lost, and the proxy with it."""
        return not self.host.is_up or self.host.session != self._session

    def open(self, kind: str) -> Endpoint:  # noqa: ARG002 - the protocol's
        """Start it; its API, by way of a port of this machine. FleetError if it does not run."""
        opened: Any = self._set_up("open_proxy")
        port = int(str(opened["api"]).rpartition(":")[2])
        here = self._loop.run(self.host.reach.forward(port), within_s=_CALL_S)
        return Endpoint(address=f"127.0.0.1:{here}", token=str(opened["token"]))

    def ended(self) -> str:
        """By the agent's word; the proxy of a host that is lost has ended with it."""
        return f"{self.host.name} is lost" if self.is_gone else str(self._ask("proxy_ended"))

    def port(self, number: int = 0) -> PlacePort:
        """That port, or one that is free there, which the agent holds. FleetError."""
        host, _, found = str(self._set_up("proxy_port", number=number)).rpartition(":")
        return PlacePort(host=host, number=int(found))

    def established(self, number: int) -> int | None:
        """Unknown here; the embedded proxy counts by itself."""

    def close(self) -> None:
        """End it, unless it ended with its agent, or will."""
        if not self.is_gone:
            with suppress(AgentLost, OutOfReach):
                self._ask("close_proxy")

    def within_reach(self, work: Callable[[], ResultT]) -> ResultT:
        """What comes of a call of the proxy's API. OutOfReach if its host is silent meanwhile."""
        return self._loop.run(self.host.within_reach(work), within_s=_CALL_S)

    def _ask(self, verb: str) -> Any:
        return self._loop.run(self.host.call(verb), within_s=_CALL_S)

    def _set_up(self, verb: str, **settings: int) -> Any:
        return self._loop.run(self.host.set_up(verb, **settings), within_s=_CALL_S)
