"""Links through a proxy server: effects by injection, as toxics, switches and packet rules.

    shape(injection, direction, effect) ─► toxics of this effect ─► ProxyClient ─► the server
                                        ├► refuse, reset: the switch and the act
                                        └► loss …: rules of the kernel (see `packet_rules`)

Each link keeps a list of its effects: `clear` removes what the same injection added. A toxic is
listed before the server is asked for it, so a call that got lost is undone, too. What the server
shows is compared with the list: no other program may change a link of this run.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, Self

from chaoslab.core.ended import unless_ended
from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.links.base import Counters, LinksByName, require
from chaoslab.links.effects import (
    Corrupt,
    Direction,
    Duplicate,
    Effect,
    LinkAbility,
    Loss,
    Refuse,
    Reorder,
    Reset,
)
from chaoslab.links.netem.packet_rules import PACKET_ABILITIES, KernelPackets, run_of
from chaoslab.links.proxied.client import ProxyClient, ProxyState, Toxic
from chaoslab.links.proxied.host import LinkPort, ProxyHost
from chaoslab.links.proxied.http_api import Endpoint, NoSuchName
from chaoslab.links.proxied.toxics import interference
from chaoslab.links.proxied.undo_verbs import CLEAR_EFFECTS, ENABLE_PROXY
from chaoslab.undo.base import NoUndoLog, PendingUndos, UndoLog

_ENDED_S: Final = 1.0
"""Longest time until the exit of a server that has just reset a connection is known."""


class ProxiedLink:
    """One link of one learner. Made by `EmbeddedLinks` and `ToxiproxyLinks`."""

    def __init__(
        self,
        name: str,
        proxy: str,
        port: LinkPort,
        *,
        links: "ProxiedLinks",
        client: ProxyClient,
    ) -> None:
        """`proxy` is what the server calls it; `port` is where it listens."""
        self.name, self.proxy = name, proxy
        self.address = port.address
        self._port, self._links = port, links
        self._proxy_client, self._packets = client, links.packets
        self.pending_undos = PendingUndos(links.undo_log)
        self._applied: dict[tuple[str, Direction, str], Sequence[Toxic]] = {}
        """Toxics by injection, direction and kind of effect."""
        self._in_doubt: set[tuple[str, Direction, str]] = set()
        """Toxics whose last call did not succeed, so that their state is unknown."""
        self._refused_by: set[str] = set()
        self._rules_by: set[str] = set()
        """Injections that have packet rules."""

    # ---------------------------------------------------------------- the verbs

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        require(self._links, direction, effect)
        match effect:
            case Reset():
                self._proxy_client.reset(self.proxy)
            case Refuse():
                self._open_undo(self._links.undo_refusal)
                self._refused_by.add(injection)
                self._proxy_client.switch(self.proxy, is_on=False)
            case Loss() | Duplicate() | Reorder() | Corrupt():
                self._rules_by.add(injection)
                self._packets.add(injection, self._port.number, direction, effect)
            case _:
                self._open_undo(self._links.undo_effects, injection)
                self._put(injection, direction, effect)

    def clear(self, injection: str) -> None:
        """See `base.Link.clear`. Goes on where it failed when it is repeated."""
        keys = [key for key in self._applied if key[0] == injection]
        toxics = [toxic for key in keys for toxic in self._applied[key]]
        self._in_doubt.update(keys)
        for verb in (self._proxy_client.release, self._proxy_client.remove):
            for toxic in reversed(toxics):  # what bytes meet last holds up what they meet first
                self._undo(verb, toxic)
        for key in keys:
            self._strike(key)
        self.pending_undos.close(self._links.undo_effects, injection)
        if injection in self._rules_by:
            self._packets.remove(injection, self._port.number)
            self._rules_by.remove(injection)
        if injection in self._refused_by:
            if self._refused_by == {injection}:
                self._proxy_client.switch(self.proxy, is_on=True)
                self.pending_undos.close(self._links.undo_refusal)
            self._refused_by.remove(injection)

    def counters(self) -> Counters:
        found = self._proxy_client.count(self.proxy, self._port.number)
        packets, dropped = self._packets.count(self._port.number) or (None, None)
        return replace(found, packets=packets, dropped=dropped)

    # ---------------------------------------------------------------- listed effects

    def trouble(self, seen: ProxyState | None) -> str:
        """Difference between the server's state and the list, as a sentence; empty without one."""
        if seen is None:
            return f"the link of {self.name} is gone from the proxy: another client deleted it"
        if seen.is_on == bool(self._refused_by):
            how = "on" if seen.is_on else "off"
            return f"another client switched the link of {self.name} {how}"
        applied, in_doubt = dict(self._applied), set(self._in_doubt)
        ours = {toxic.name: toxic for toxics in applied.values() for toxic in toxics}
        doubted = {toxic.name for key in in_doubt for toxic in applied.get(key, ())}
        return interference(ours, doubted, seen, f"the link of {self.name}")

    def _open_undo(self, do: str, injection: str = "") -> None:
        facts = self._links.api.facts
        self.pending_undos.open(do, injection, **facts, proxy=self.proxy, injection=injection)

    def _put(self, injection: str, direction: Direction, effect: Effect) -> None:
        key = (injection, direction, effect.kind)
        name = f"{injection}.{effect.kind}.{direction}"
        toxics = self._proxy_client.toxics(name, direction, effect)
        if key not in self._applied:
            self._applied[key] = toxics
            self._in_doubt.add(key)
            self._add_all(key, toxics)
            self._in_doubt.remove(key)
            return
        if [one.name for one in self._applied[key]] != [one.name for one in toxics]:
            raise HarnessBug(f"{name} would change from {self._applied[key]} to {toxics}")
        self._in_doubt.add(key)
        for toxic in toxics:
            self._proxy_client.change(self.proxy, toxic)
        self._applied[key] = toxics
        self._in_doubt.remove(key)

    def _add_all(self, key: tuple[str, Direction, str], toxics: Sequence[Toxic]) -> None:
        """All of them or none."""
        try:
            for toxic in toxics:
                self._proxy_client.add(self.proxy, toxic)
        except FleetError as error:
            try:
                for toxic in toxics:
                    self._undo(self._proxy_client.remove, toxic)
                self._strike(key)
            except FleetError as worse:  # it stays listed, and `clear` tries again
                error.add_note(f"and what was put on it could not be taken away: {worse}")
            raise

    def _strike(self, key: tuple[str, Direction, str]) -> None:
        del self._applied[key]
        self._in_doubt.discard(key)

    def _undo(self, verb: Callable[[str, Toxic], None], toxic: Toxic) -> None:
        with suppress(NoSuchName):
            verb(self.proxy, toxic)


class ProxiedLinks(LinksByName[ProxiedLink]):
    """All links of a run through one server. A subclass says which server, and how it is asked."""

    kind: ClassVar[str]
    stream_abilities: ClassVar[frozenset[LinkAbility]]
    undo_effects: ClassVar[str] = CLEAR_EFFECTS
    """Verb that removes the effects of an injection from a link of a dead harness."""
    undo_refusal: ClassVar[str] = ENABLE_PROXY
    """Verb that lets a link take connections again; both have the facts of `api`."""

    def __init__(self, run_directory: Path, undo_log: UndoLog, host: ProxyHost) -> None:
        super().__init__()
        self.undo_log, self.host = undo_log, host
        rules_log = undo_log if host.keeps_rules else NoUndoLog()
        self.packets = KernelPackets(rules_log, host, run=run_of(run_directory))
        self._ports: list[LinkPort] = []
        self._client: ProxyClient | None = None

    @abstractmethod
    def _client_of(self, api: Endpoint) -> ProxyClient:
        """A client of the server that has this API."""

    def _proxy_name(self, link: str) -> str:
        """Name of a link's proxy on the server."""
        return link

    @property
    def api(self) -> Endpoint:
        """The server's API, for Toxiproxy's clients, too; without an address if there is none."""
        return self._client.api if self._client is not None else Endpoint(address="")

    # ---------------------------------------------------------------- see `base.Links`

    @property
    def abilities(self) -> frozenset[LinkAbility]:
        """The kind's own for the stream; for packets what this kernel and user can do."""
        return self.stream_abilities | self.packets.abilities

    def why_not(self, ability: LinkAbility) -> str:
        """The kernel's reason for packets; for the stream another kind of links."""
        if ability in PACKET_ABILITIES:
            return self.packets.why_not(ability)
        return "use fleet.links: embedded"

    def __enter__(self) -> Self:
        self._client = self._client_of(self.host.open(self.kind))
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the kernel's rules unless they vanish with the host, release ports, end it."""
        try:
            if self.host.keeps_rules:
                self.packets.close()
        finally:
            for port in self._ports:
                port.close()
            self._end()
            for link in self._links.values():  # its effects are gone with the server
                link.pending_undos.close_all()
            self._client = None

    def _end(self) -> None:
        """Leave nothing of ours on the server."""
        self.host.close()

    def _make(self, name: str, upstream: str) -> ProxiedLink:
        """A proxy on a port that stays ours as long as the links are open."""
        self._open_client()  # before a port is held
        try:
            port = self.host.port()
        except OSError as error:
            raise FleetError(f"no port is free for the link of {name}: {error}") from error
        return self._made_on(port, name, upstream)

    def _made_on(self, port: LinkPort, name: str, upstream: str) -> ProxiedLink:
        """A proxy on a port of its host that is reserved already, and is ours from now on."""
        self._ports.append(port)
        client, proxy = self._open_client(), self._proxy_name(name)
        client.create(proxy, port.address, upstream)
        return ProxiedLink(name, proxy, port, links=self, client=client)

    def troubles(self) -> Sequence[str]:
        """The server has ended or is silent, or its proxies are not as we left them."""
        host = self.host
        try:
            seen = None
            if not host.ended():
                look = self._open_client().look
                seen = unless_ended(look, lambda: bool(host.ended()), _ENDED_S)
        except FleetError as error:
            return (str(error),)
        if seen is None:
            return (f"the {self.kind} proxy carries no link any more: {host.ended()}",)
        return tuple(
            trouble
            for link in tuple(self._links.values())
            if (trouble := link.trouble(seen.get(link.proxy)))
        )

    def _open_client(self) -> ProxyClient:
        if self._client is None:
            raise HarnessBug("links are used between entering and leaving their context")
        return self._client
