"""Links that the kernel forwards, in a gateway of its own: `links: netem`. No proxy, no copying.

    shape(injection, direction, effect) ─► rate, delay: a queue   (`queues`)
                                        ├► freeze, blackhole, refuse, reset …: rules   (`gateway`)
                                        └► loss: rules that count   (`packets`, `container_drops`)

TCP goes from learner to syncer end to end, so what happens is what TCP makes of it: a frozen link
goes on when the sender tries again. The book of what an injection put on a link is kept here. The
rules live in the gateway's network and vanish with it: nobody owes their removal.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import ClassVar, Final, Self

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.links.base import Counters, require
from chaoslab.links.container_packet_loss import GatewayDrops
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
from chaoslab.links.gateway import INTERFACE, Ends, Forwarding, Gateway
from chaoslab.links.kernel_queues import Queued, Queues
from chaoslab.links.packet_rules import KernelPackets
from chaoslab.undo.base import NoUndoLog

_FIRST_PORT: Final = 4701
ABILITIES: Final = frozenset(
    {
        LinkAbility.BANDWIDTH, LinkAbility.SHARED_BANDWIDTH, LinkAbility.BLACKHOLE,
        LinkAbility.FREEZE, LinkAbility.REFUSE, LinkAbility.RESET, LinkAbility.RESET_OPEN,
        LinkAbility.LOSS, LinkAbility.LATENCY, LinkAbility.DUPLICATE, LinkAbility.REORDER,
        LinkAbility.CORRUPT, LinkAbility.HALF_OPEN,
    }
)  # fmt: skip
"""Where the kernel under the gateway has all of it."""


class ForwardedLink:
    """One link of one learner: a port of the gateway. Made by `NetemLinks`."""

    def __init__(self, name: str, port: int, upstream: str, links: "NetemLinks") -> None:
        self.name, self.upstream = name, upstream
        self.address = f"{links.host}:{port}"
        self._port, self._links = port, links
        self._standing: dict[tuple[str, Direction, str], Effect] = {}
        """By injection, single direction and kind of effect."""
        self._untold: dict[str, list[Ends]] = {}
        """By injection: ends of connections whose other end is gone."""

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        """See `base.Link.shape`."""
        require(self._links, direction, effect)
        with self._links.changing() as rules:
            if isinstance(effect, Reset):
                rules.end(self._port)
                return
            if isinstance(effect, HalfOpen):
                self._untold.setdefault(injection, [])
                self._untold[injection] += rules.halve(self._port, direction, injection)
                return
            for way in direction.ways:
                self._put((injection, way, effect.kind), effect)
            if isinstance(effect, Refuse):
                rules.end(self._port)

    def clear(self, injection: str) -> None:
        """See `base.Link.clear`. Goes on where it failed when it is repeated."""
        mine = [key for key in self._standing if key[0] == injection]
        if not mine and injection not in self._untold:
            return
        with self._links.changing() as rules:
            rules.tell(self._untold.pop(injection, ()), injection)
            if any(isinstance(self._standing[key], Blackhole) for key in mine):
                rules.end(self._port)
            for key in mine:
                effect = self._standing[key]
                if not isinstance(effect, Loss | Queued):
                    self._rule(key, is_on=False)
                del self._standing[key]
                if isinstance(effect, Queued):
                    self._queue(key[1])
            self._links.packets.remove(injection, self._port)

    def counters(self) -> Counters:
        """Connections and packets, as the kernel counts them; of bytes it counts headers, too."""
        traffic = self._links.rules.traffic(self._port)
        packets, dropped = self._links.packets.count(self._port) or (None, None)
        return Counters(
            up_bytes=None,
            down_bytes=None,
            connections=traffic.open_now,
            opened=traffic.opened,
            packets=packets,
            dropped=dropped,
        )

    def follow(self, address: str) -> None:
        """Let the port lead to where the syncer is now; empty: nowhere, and dials are refused."""
        to = f"{address}:{self.upstream.rpartition(':')[2]}" if address else ""
        if to == self._links.rules.leads_to(self._port):
            return
        with self._links.changing() as rules:
            rules.lead(self._port, to)
            if address:
                rules.end(self._port)  # what is open leads to where it was

    def _put(self, key: tuple[str, Direction, str], effect: Effect) -> None:
        """In the book, and in the kernel; in neither if that refuses."""
        before = self._standing.get(key)
        self._standing[key] = effect
        try:
            if isinstance(effect, Loss):
                self._links.packets.add(key[0], self._port, key[1], effect)
            elif isinstance(effect, Queued):
                self._queue(key[1])
            elif before is None:
                self._rule(key, is_on=True)
        except FleetError:
            del self._standing[key]
            if before is not None:
                self._standing[key] = before
            raise

    def _queue(self, way: Direction) -> None:
        effects = [one for (_, to, _), one in self._standing.items() if to is way]
        self._links.queues.put(self._port, way, effects)

    def _rule(self, key: tuple[str, Direction, str], *, is_on: bool) -> None:
        injection, way, kind = key
        whose = f"{injection}/{kind}/{way}"
        if kind == Refuse.kind:
            if way is Direction.UP:  # who dials meets it there
                self._links.rules.refuse(self._port, is_on=is_on, whose=whose)
        elif kind in (Freeze.kind, Blackhole.kind):
            self._links.rules.hold(self._port, way, is_on=is_on, whose=whose)
        else:
            raise HarnessBug(f"{kind} is no rule")


class NetemLinks:
    """All links of a run through one gateway; see `base.Links`."""

    kind: ClassVar[str] = "netem"

    def __init__(self, gateway: Gateway) -> None:
        """Nothing is begun before it is entered."""
        self.gateway = gateway
        self.host = ""
        self.packets = KernelPackets(NoUndoLog(), _There(gateway))
        self._links: dict[str, ForwardedLink] = {}
        self._rules: Forwarding | None = None
        self._queues: Queues | None = None
        self._left = ""
        """What stood in the kernel when we last changed it."""

    @property
    def abilities(self) -> frozenset[LinkAbility]:
        """What the kernel under the gateway has."""
        return ABILITIES - self.gateway.lacks().keys()

    def why_not(self, ability: LinkAbility) -> str:
        """What the kernel said, or that a gateway never looks into the stream."""
        missing = self.gateway.lacks().get(ability)
        return missing or "a gateway forwards packets and no bytes of a stream: links: embedded can"

    def caveats(self, effect: Effect) -> Sequence[str]:
        """See `base.Links.caveats`."""
        match effect:
            case Bandwidth(per=Per.CONNECTION):
                return ("netem links keep one rate for all connections of a link together",)
            case Freeze():
                return ("a link that the kernel froze goes on when TCP tries again, seconds later",)
            case Latency(jitter_s=jitter_s) if jitter_s:
                return (
                    "jitter by netem is uniform and unseeded, and lets packets overtake others",
                )
            case Duplicate():
                return ("kernels since 2025 refuse duplicates beside other netem effects",)
            case _:
                return ()

    def __enter__(self) -> Self:
        self.host = self.gateway.open()
        self._rules = Forwarding(self.gateway)
        self._queues = Queues(self.gateway.run, INTERFACE)
        self._left = self._rules.written()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The rules go with the gateway's network."""
        self.gateway.close()
        self._rules = self._queues = None

    @property
    def links(self) -> Mapping[str, ForwardedLink]:
        """Every link made, by name."""
        return dict(self._links)

    def create(self, name: str, upstream: str) -> ForwardedLink:
        """A port of the gateway that leads to where `upstream` is, whenever that is somewhere."""
        if name in self._links:
            raise FleetError(f"there is a link for {name} already")
        port = _FIRST_PORT + len(self._links)
        with self.changing() as rules:
            rules.add(port)
        self._links[name] = ForwardedLink(name, port, upstream, self)
        self._follow()
        return self._links[name]

    def troubles(self) -> Sequence[str]:
        """The gateway has ended, or its rules are not as we left them; follows the syncer, too."""
        if how := self.gateway.ended():
            return (f"the gateway carries no link any more: {how}",)
        try:
            is_as_left = self.rules.written() == self._left
            self._follow()
        except FleetError as error:
            return (str(error),)
        return () if is_as_left else ("somebody else changed the rules of the gateway",)

    def _follow(self) -> None:
        hosts = {link.upstream.rpartition(":")[0] for link in self._links.values()}
        found = {host: self.gateway.locate(host) for host in hosts}
        for link in self._links.values():
            address = found[link.upstream.rpartition(":")[0]]
            if address is not None:
                link.follow(address)

    # ---------------------------------------------------------------- for its links

    @property
    def rules(self) -> Forwarding:
        """Those of the gateway."""
        if self._rules is None:
            raise HarnessBug("links are used between entering and leaving their context")
        return self._rules

    @property
    def queues(self) -> Queues:
        """Those of the gateway."""
        if self._queues is None:
            raise HarnessBug("links are used between entering and leaving their context")
        return self._queues

    @contextmanager
    def changing(self) -> Iterator[Forwarding]:
        """What stands afterwards is ours, also after a change that failed half-way."""
        try:
            yield self.rules
        finally:
            self._left = self.rules.written()


class _There:
    """The gateway as a place for rules on packets; see `packets.Place`."""

    interface = INTERFACE

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def drops(self) -> GatewayDrops:
        """In the chains of the link."""
        return GatewayDrops(self._gateway.run)

    def can_drop(self) -> tuple[bool, str]:
        """See `Gateway.lacks`."""
        why = self._gateway.lacks().get(LinkAbility.LOSS, "")
        return not why, why

    def can_shake(self) -> tuple[bool, str]:
        """Not by rules: the gateway has queues for that."""
        return False, "queues do it"
