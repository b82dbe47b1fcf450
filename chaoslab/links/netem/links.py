"""Links forwarded by the kernel of a gateway: `links: netem`. No proxy, no copying.

    shape(injection, direction, effect) ─► rate, delay: a queue   (`queues`)
                                        ├► freeze, blackhole, refuse, reset …: rules   (`gateway`)
                                        └► loss: rules that count   (`packet_rules`)

TCP connects learner and syncer end to end, so effects are subject to its retransmission: a frozen
link continues when the sender tries again. The effects of each injection are kept here. The rules
exist in the gateway's network and vanish with it, so they need no undo entries.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Self, TypeAlias

from chaoslab.core.errors import AbilityError, FleetError, HarnessBug
from chaoslab.links.base import Counters, Links, LinksByName, require
from chaoslab.links.effects import (
    Bandwidth,
    Blackhole,
    Direction,
    Duplicate,
    Effect,
    Freeze,
    HalfOpen,
    Latency,
    LinkAbility,
    Loss,
    Per,
    Refuse,
    Reset,
)
from chaoslab.links.netem.gateway import INTERFACE, Ends, Forwarding, Gateway
from chaoslab.links.netem.netfilter import GatewayDrops
from chaoslab.links.netem.packet_rules import KernelPackets
from chaoslab.links.netem.queues import Queued
from chaoslab.links.settings import LinksFactory
from chaoslab.undo.base import NoUndoLog, UndoLog

_FIRST_PORT: Final = 4701
ABILITIES: Final = frozenset(
    {
        LinkAbility.BANDWIDTH, LinkAbility.SHARED_BANDWIDTH, LinkAbility.BLACKHOLE,
        LinkAbility.FREEZE, LinkAbility.REFUSE, LinkAbility.RESET, LinkAbility.RESET_OPEN,
        LinkAbility.LOSS, LinkAbility.LATENCY, LinkAbility.DUPLICATE, LinkAbility.REORDER,
        LinkAbility.CORRUPT, LinkAbility.HALF_OPEN,
    }
)  # fmt: skip
"""Abilities if the kernel under the gateway has all features."""


_Key: TypeAlias = tuple[str, Direction, str]
"""Injection, single direction and kind of effect."""


class ForwardedLink:
    """Link of one learner: a port of the gateway. Made by `NetemLinks`."""

    def __init__(self, name: str, port: int, upstream: str, links: "NetemLinks") -> None:
        self.name, self.upstream = name, upstream
        self.address = f"{links.host}:{port}"
        self._port, self._links = port, links
        self._applied: dict[_Key, Effect] = {}
        """Effects in force, whole or in part."""
        self._untold: dict[str, list[Ends]] = {}
        """Ends of connections that must still be reset, by injection."""
        self._is_moving = False
        """Whether open connections may still lead to an earlier address of the syncer."""

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        require(self._links, direction, effect)
        with self._links.changing() as rules:
            if isinstance(effect, Reset):
                rules.end(self._port, self._untold_by(injection))
                return
            if isinstance(effect, HalfOpen):
                comment, untold = self._silence(injection), self._untold_by(injection)
                rules.halve(self._port, direction, comment, untold)
                return
            for way in direction.ways:
                self._put((injection, way, effect.kind), effect)
            if isinstance(effect, Refuse):
                rules.end(self._port, self._untold_by(injection))

    def clear(self, injection: str) -> None:
        """See `base.Link.clear`. Goes on where it failed when it is repeated."""
        mine = [key for key in self._applied if key[0] == injection]
        untold = self._untold_by(injection)
        if not mine and not untold:
            return
        with self._links.changing() as rules:
            if untold:
                rules.tell(untold, self._silence(injection))
            if any(isinstance(self._applied[key], Blackhole) for key in mine):
                rules.end(self._port, untold)
            for key in mine:
                self._take_away(key)

    def counters(self) -> Counters:
        """Connections and packets by the kernel's counters; bytes would include headers."""
        traffic = self._links.rules.traffic(self._port)
        packets, dropped = self._links.packets.count(self._port) or (None, None)
        return Counters(
            connections=traffic.open_now,
            opened=traffic.opened,
            packets=packets,
            dropped=dropped,
        )

    def follow(self, address: str) -> None:
        """Forward to the syncer's present address; empty: connections are refused."""
        to = f"{address}:{self.upstream.rpartition(':')[2]}" if address else ""
        if to == self._links.rules.leads_to(self._port) and not self._is_moving:
            return
        with self._links.changing() as rules:
            self._is_moving = True
            rules.lead(self._port, to)
            if address:
                rules.end(self._port, self._untold_by(""))  # those lead to the old address
            self._is_moving = False

    def _put(self, key: _Key, effect: Effect) -> None:
        """Record an effect, then apply it in the kernel; on FleetError neither, or `clear` does."""
        before = self._applied.get(key)
        self._applied[key] = effect
        try:
            self._apply(key, effect)
        except FleetError as error:
            if before is not None:
                self._applied[key] = before
                raise
            try:
                self._take_away(key)
            except FleetError as worse:  # it stays recorded, and `clear` tries again
                error.add_note(f"and what was done of it could not be taken away: {worse}")
            raise

    def _apply(self, key: _Key, effect: Effect) -> None:
        if isinstance(effect, Loss):
            self._links.packets.add(key[0], self._port, key[1], effect)
        elif isinstance(effect, Queued):
            self._queue(key[1], self._applied)
        else:
            self._rule(key, is_on=True)

    def _take_away(self, key: _Key) -> None:
        """Take an effect out of the kernel, then forget it."""
        effect = self._applied[key]
        if isinstance(effect, Loss):
            self._links.packets.remove(key[0], self._port)
        elif isinstance(effect, Queued):
            others = {one: effect for one, effect in self._applied.items() if one != key}
            self._queue(key[1], others)
        else:
            self._rule(key, is_on=False)
        del self._applied[key]

    def _queue(self, way: Direction, applied: Mapping[_Key, Effect]) -> None:
        effects = [one for (_, to, _), one in applied.items() if to is way]
        self._links.rules.queues.put(self._port, way, effects)

    def _untold_by(self, injection: str) -> list[Ends]:
        return self._untold.setdefault(injection, [])

    def _silence(self, injection: str) -> str:
        """Comment of the rules that keep ends from being told; unique among all links."""
        return f"{injection}/{HalfOpen.kind}/{self._port}"

    def _rule(self, key: _Key, *, is_on: bool) -> None:
        injection, way, kind = key
        comment = f"{injection}/{kind}/{way}"
        if kind == Refuse.kind:
            if way is Direction.UP:  # new connections come from the learner
                self._links.rules.refuse(self._port, is_on=is_on, comment=comment)
        elif kind in (Freeze.kind, Blackhole.kind):
            self._links.rules.freeze(self._port, way, is_on=is_on, comment=comment)
        else:
            raise HarnessBug(f"{kind}: not implemented by a rule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Netem:
    """A gateway whose kernel forwards and shapes; between containers alone."""

    def factory(self, seed: int) -> LinksFactory:  # noqa: ARG002 - the protocol's
        """AbilityError when it is called."""
        return _only_between_containers


def _only_between_containers(_: Path, /, *, undo_log: UndoLog) -> Links:  # noqa: ARG001
    raise AbilityError(
        "links: netem need a network of the run's own, which only containers have: use --fleet "
        "docker, or links: embedded"
    )


class NetemLinks(LinksByName[ForwardedLink]):
    """All links of a run through one gateway; see `base.Links`."""

    kind: ClassVar[str] = "netem"

    def __init__(self, gateway: Gateway) -> None:
        """Nothing is started before the context is entered."""
        super().__init__()
        self.gateway = gateway
        self.host = ""
        self.packets = KernelPackets(NoUndoLog(), _GatewayPlace(gateway))
        self._rules: Forwarding | None = None
        self._left: str | None = ""
        """Rules and queues in the kernel after our last change; None while that is unknown."""
        self._changing = threading.RLock()

    @property
    def abilities(self) -> frozenset[LinkAbility]:
        """Abilities of the kernel under the gateway."""
        return ABILITIES - self.gateway.lacks().keys()

    def why_not(self, ability: LinkAbility) -> str:
        """The kernel's reason, or that a gateway does not process the stream."""
        missing = self.gateway.lacks().get(ability)
        return missing or "a gateway forwards packets, not streams: use links: embedded"

    def caveats(self, effect: Effect) -> Sequence[str]:
        """Deviations of the effect on netem links; see `base.Links.caveats`."""
        match effect:
            case Bandwidth(per=Per.CONNECTION):
                return ("netem links limit all connections of a link together",)
            case Freeze():
                return ("a frozen link continues only when TCP retransmits, seconds later",)
            case Latency(jitter_s=jitter_s) if jitter_s:
                return ("jitter by netem is uniform and unseeded, and packets may overtake others",)
            case Duplicate():
                return ("kernels since 2025 refuse duplicates beside other netem effects",)
            case _:
                return ()

    def __enter__(self) -> Self:
        self.host = self.gateway.open()
        self._rules = Forwarding(self.gateway)
        self._left = self._rules.written()
        return self

    def __exit__(self, *_: object) -> None:
        """The rules vanish with the gateway's network."""
        self.gateway.close()
        self._rules = None

    def create(self, name: str, upstream: str) -> ForwardedLink:
        """Add a port of the gateway that leads to `upstream`, once that has an address."""
        link = super().create(name, upstream)
        self._follow()
        return link

    def _make(self, name: str, upstream: str) -> ForwardedLink:
        port = _FIRST_PORT + len(self._links)
        with self.changing() as rules:
            rules.add(port)
        return ForwardedLink(name, port, upstream, self)

    def troubles(self) -> Sequence[str]:
        """Report a gateway that ended or was changed; also follow the syncer's address."""
        if how := self.gateway.ended():
            return (f"the gateway ended, and all links with it: {how}",)
        try:
            with self._changing:
                found = self.rules.written()
                is_as_left = self._left in (found, None)
                if self._left is None:
                    self._left = found
            self._follow()
        except FleetError as error:
            return (str(error),)
        return () if is_as_left else ("the rules of the gateway were changed by another program",)

    def _follow(self) -> None:
        links = tuple(self._links.values())
        hosts = {link.upstream.rpartition(":")[0] for link in links}
        found = {host: self.gateway.locate(host) for host in hosts}
        for link in links:
            address = found[link.upstream.rpartition(":")[0]]
            if address is not None:
                link.follow(address)

    # ---------------------------------------------------------------- for its links

    @property
    def rules(self) -> Forwarding:
        """Forwarding rules of the gateway; HarnessBug outside the context."""
        if self._rules is None:
            raise HarnessBug("links are used between entering and leaving their context")
        return self._rules

    @contextmanager
    def changing(self) -> Iterator[Forwarding]:
        """Record the rules afterwards as ours, also after a change that failed half-way."""
        with self._changing:
            try:
                yield self.rules
            finally:
                self._left = None
                self._left = self.rules.written()


class _GatewayPlace:
    """The gateway's network, for packet rules; see `packet_rules.Place`."""

    interface = INTERFACE

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def drops(self) -> GatewayDrops:
        """Loss rules in the chains of the link."""
        return GatewayDrops(self._gateway.run)

    def can_drop(self) -> tuple[bool, str]:
        """Whether the gateway's kernel can drop packets; see `Gateway.lacks`."""
        why = self._gateway.lacks().get(LinkAbility.LOSS, "")
        return not why, why

    def can_use_netem(self) -> tuple[bool, str]:
        """Never by rules: the gateway has queues for that."""
        return False, "queues do it"
