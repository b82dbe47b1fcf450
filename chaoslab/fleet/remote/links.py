"""Links of nodes on hosts: an embedded proxy on the host of each learner, by its host agent.

    learner ── dials the proxy on its own host ──► proxy ──► syncer, on another host
    restart ─► follow: the node is elsewhere, or its agent is another one
                 └─► a link there on the same port, with the effects that it had

Each agent has links of the usual kind (`EmbeddedLinks`) through a proxy that runs there. While a
host cannot be reached, the state of its links is not known, and none of them counts as lost.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.event_loop import EventLoop, ResultT
from chaoslab.core.events import Json
from chaoslab.fleet.remote.contact import AgentLost, OutOfReach
from chaoslab.fleet.remote.host import Host
from chaoslab.links.base import Counters, Links
from chaoslab.links.effects import Direction, Effect, LinkAbility, Reset
from chaoslab.links.proxied.embedded import EmbeddedLinks, EmbeddedProxyClient
from chaoslab.links.proxied.host import PlacePort, WithoutRules
from chaoslab.links.proxied.http_api import CALL_S, Endpoint
from chaoslab.links.proxied.links import ProxiedLink
from chaoslab.links.settings import LinksFactory
from chaoslab.undo.base import UndoLog

_CALL_S: Final = 60.0
NO_RULES: Final = (
    "rules on packets are not written on hosts: use an effect on the stream, such as latency"
)


class AgentProxyHost(WithoutRules):
    """Proxy on a host, by its host agent: where the links of the nodes there are carried.

        AgentProxyHost ── open_proxy, proxy_port, proxy_ended, close_proxy ──► agent ─► the proxy
                       ── a port of this machine ── ssh ──► the proxy's API, on the host's loopback

    The proxy ends with the agent that started it; another agent on the same host knows nothing of
    it.

    A host whose agent runs a proxy; see `links.proxied.host.ProxyHost`.
    """

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
        """How it ended, by the agent's report; the proxy of a lost host has ended with it."""
        return f"{self.host.name} is lost" if self.is_gone else str(self._ask("proxy_ended"))

    def port(self, number: int = 0) -> PlacePort:
        """That port, or one that is free there, which the agent reserves. FleetError."""
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
        """Result of a call of the proxy's API. OutOfReach if its host is silent meanwhile."""
        return self._loop.run(self.host.within_reach(work), within_s=_CALL_S)

    def _ask(self, verb: str) -> Any:
        return self._loop.run(self.host.call(verb), within_s=_CALL_S)

    def _set_up(self, verb: str, **settings: int) -> Any:
        return self._loop.run(self.host.set_up(verb, **settings), within_s=_CALL_S)


_LOOK_S: Final = 5.0
"""Interval of the looks at the proxies."""


class AgentProxyClient(EmbeddedProxyClient):
    """The proxy of one agent. Every method raises OutOfReach, too, as the agent's own verbs do."""

    def __init__(self, api: Endpoint, seed: int, at: AgentProxyHost) -> None:
        super().__init__(api, seed)
        self._at = at

    def ask(self, method: str, path: str, body: Json = None, *, within_s: float = CALL_S) -> Json:
        """Make one call, which is not waited for when its host falls silent."""
        return self._at.within_reach(partial(super().ask, method, path, body, within_s=within_s))


class AgentLinks(EmbeddedLinks):
    """Links through the proxy of one agent, which are gone with it."""

    def __init__(
        self, at: AgentProxyHost, directory: Path, *, undo_log: UndoLog, seed: int
    ) -> None:
        super().__init__(directory, undo_log=undo_log, seed=seed, proxy_host=at)
        self.at = at

    def _client_of(self, api: Endpoint) -> AgentProxyClient:
        return AgentProxyClient(api, self._seed, self.at)

    def create_on(self, number: int, name: str, upstream: str) -> ProxiedLink:
        """Create the link on this port, unless it exists already."""
        if name not in self._links:
            self._links[name] = self._made_on(self.at.port(number), name, upstream)
        return self._links[name]

    def confirmed_troubles(self) -> list[str]:
        """As `troubles`, looked for twice: a proxy whose host was silent at the first look answers
        the second one.
        """
        return self._seen_troubles() and self._seen_troubles()

    def _seen_troubles(self) -> list[str]:
        """Troubles; None unless its agent was reached by one connection throughout."""
        before = self.at.host.contact
        if self.at.is_gone or before is None or self.at.host.is_silent:
            return []
        try:
            told = self.troubles()
        except (AgentLost, OutOfReach):
            return []
        if self.at.host.contact != before or self.at.host.is_silent:
            return []
        return [f"{self.at.host.name}: {one}" for one in told]


class HostLink:
    """The link of one node, wherever that runs; see `links.base.Link`."""

    def __init__(self, carrier: AgentLinks, link: ProxiedLink, upstream: str) -> None:
        self.name, self.address = link.name, link.address
        self._carrier, self._link, self._upstream = carrier, link, upstream
        self._effects: dict[tuple[str, Direction, str], Effect] = {}
        """Effects that act wherever the link is, by injection, direction and kind."""
        self._before = self._last = Counters(connections=0)

    def is_on_current_agent(self, host: Host) -> bool:
        """Whether the agent that this host has now carries it."""
        return self._carrier.at.host is host and not self._carrier.at.is_gone

    def move(self, carrier: AgentLinks) -> None:
        """Go on there, by the same address and with the same effects. FleetError."""
        number = int(self.address.rpartition(":")[2])
        link = carrier.create_on(number, self.name, self._upstream)
        for (injection, direction, _kind), effect in self._effects.items():
            link.shape(injection, direction, effect)
        self._before, self._last = _sum(self._before, self._last), Counters(connections=0)
        self._carrier, self._link = carrier, link

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        """See `Link.shape`. FleetError, too, while its host is lost."""
        if self._carrier.at.is_gone:
            raise FleetError(f"the link of {self.name} is gone with {self._carrier.at.host.name}")
        self._link.shape(injection, direction, effect)
        if not isinstance(effect, Reset):  # an act, which leaves nothing that holds
            self._effects[injection, direction, effect.kind] = effect

    def clear(self, injection: str) -> None:
        """See `Link.clear`; effects on a lost host are gone with it."""
        if self._carrier.at.is_gone:
            self._link.pending_undos.close_all()
        else:
            self._link.clear(injection)
        self._effects = {key: one for key, one in self._effects.items() if key[0] != injection}

    def counters(self) -> Counters:
        """Since it was made, as far as it could be counted: a proxy that does not answer is told of
        by `troubles`, if its host can be reached.
        """
        if not self._carrier.at.is_gone and not self._carrier.at.host.is_silent:
            with suppress(FleetError):
                self._last = self._link.counters()
        return _sum(self._before, self._last)


def _sum(before: Counters, now: Counters) -> Counters:
    return replace(
        now,
        up_bytes=(before.up_bytes or 0) + (now.up_bytes or 0),
        down_bytes=(before.down_bytes or 0) + (now.down_bytes or 0),
        opened=(before.opened or 0) + (now.opened or 0),
    )


class HostLinks(Links):
    """The links of a run on hosts; see `base.Links`. The fleet says which node is where."""

    kind = "embedded"
    abilities = EmbeddedLinks.stream_abilities

    def __init__(self, directory: Path, undo_log: UndoLog, seed: int) -> None:
        self._directory, self._undo_log, self._seed = directory, undo_log, seed
        self._host_of: Callable[[str], Host] | None = None
        self._loop: EventLoop | None = None
        self._carriers: dict[str, AgentLinks] = {}
        """Links by host, through its latest agent that was asked for one."""
        self._links: dict[str, HostLink] = {}
        self._look_s = 0.0
        self._opening = threading.Lock()

    @classmethod
    def factory(cls, seed: int) -> LinksFactory:
        """Makes them; `seed` determines the random delays of all links."""
        return lambda directory, *, undo_log: cls(directory, undo_log, seed)

    def use(self, loop: EventLoop, host_of: Callable[[str], Host]) -> None:
        """Receive the places of nodes from the fleet, before it enters them."""
        self._loop, self._host_of = loop, host_of

    def __enter__(self) -> Self:
        """Nothing is started before the first link on a host."""
        return self

    def __exit__(self, *_: object) -> None:
        """End every proxy; the first error is raised once all were tried."""
        errors = []
        for carrier in self._carriers.values():
            try:
                carrier.__exit__(None, None, None)
            except FleetError as error:
                errors.append(error)
        self._carriers.clear()
        if errors:
            raise errors[0]

    def create(self, name: str, upstream: str) -> HostLink:
        """A link on the host of this node."""
        carrier = self._carrier(self._host(name))
        self._links[name] = HostLink(carrier, carrier.create(name, upstream), upstream)
        return self._links[name]

    def follow(self, name: str) -> None:
        """Bring a node's link, if it has one, to where the node is. FleetError if it cannot be."""
        link = self._links.get(name)
        if link is not None and not link.is_on_current_agent(host := self._host(name)):
            link.move(self._carrier(host))

    @property
    def links(self) -> Mapping[str, HostLink]:
        return dict(self._links)

    def troubles(self) -> Sequence[str]:
        """Troubles of all hosts, side by side; now and then, as each look takes a round trip."""
        if time.monotonic() < self._look_s or not self._carriers:
            return ()
        self._look_s = time.monotonic() + _LOOK_S
        carriers = tuple(self._carriers.values())
        with ThreadPoolExecutor(len(carriers)) as pool:
            told = pool.map(AgentLinks.confirmed_troubles, carriers)
            return [one for found in told for one in found]

    def why_not(self, ability: LinkAbility) -> str:  # noqa: ARG002 - only rules are missing
        return NO_RULES

    def caveats(self, effect: Effect) -> Sequence[str]:  # noqa: ARG002 - the protocol's
        return ()

    # ---------------------------------------------------------------- inside

    def _host(self, name: str) -> Host:
        if self._host_of is None:
            raise HarnessBug("links on hosts are used by a fleet that has none")
        return self._host_of(name)

    def _carrier(self, host: Host) -> AgentLinks:
        """Links through the agent that the host has now."""
        if self._loop is None:
            raise HarnessBug("links on hosts are used by a fleet that has none")
        with self._opening:
            carrier = self._carriers.get(host.name)
            if carrier is not None and carrier.at.is_gone:
                carrier.__exit__(None, None, None)  # its entry is closed
                carrier = None
            if carrier is None:
                carrier = AgentLinks(
                    AgentProxyHost(host, self._loop),
                    self._directory,
                    undo_log=self._undo_log,
                    seed=self._seed,
                ).__enter__()
                self._carriers[host.name] = carrier
            return carrier
