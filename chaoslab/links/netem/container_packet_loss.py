"""Packet loss where a link lies in a container: iptables, run in that container's network.

    proxy    in:  learner ─► INPUT, port P ─► a share is dropped ─► proxy
             out: proxy ─► POSTROUTING, port P ─► a share goes to a class whose queue discards it
    gateway  both ways: FORWARD ─► the link's chain of that way ─► a share is dropped

Outgoing packets of a proxy cannot be dropped by a rule: its own TCP would learn of that at once. A
queue that discards packets and reports them as sent behaves like a wire. The rules vanish with the
container's network, so they need no undo entries.
"""

from typing import ClassVar, Final

from chaoslab.links.effects import Direction
from chaoslab.links.netem.kernel import Run
from chaoslab.links.netem.netfilter import Drop, Iptables, RulePlace

_DISCARD: Final = "1:2"
"""Class whose queue discards its packets."""


class ProxyDrops(Iptables):
    """Rules in a proxy's container, on one interface."""

    chains: ClassVar[tuple[tuple[str, str], ...]] = (
        ("filter", "INPUT"),
        ("mangle", "POSTROUTING"),
    )

    def __init__(self, tools: Run) -> None:
        super().__init__(tools)
        self._discards = False

    def spot(self, drop: Drop) -> RulePlace:
        """Incoming packets are matched before the proxy, outgoing ones after it."""
        if drop.way is Direction.UP:
            return super().spot(drop)
        return RulePlace(
            table="mangle",
            chain="POSTROUTING",
            match=("-o", drop.interface, "-p", "tcp", "--sport", str(drop.port)),
            end=("-j", "CLASSIFY", "--set-class", _DISCARD),
        )

    def add(self, drop: Drop) -> None:
        """The first rule for outgoing packets also adds the queue."""
        if drop.way is Direction.DOWN and not self._discards:
            self._add_queue(drop.interface)
            self._discards = True
        super().add(drop)

    def _add_queue(self, interface: str) -> None:
        """Add a queue that passes all packets at once, except those of one class."""
        device = ("dev", interface)
        wide = ("htb", "rate", "10gbit")
        self._run_tool("tc", "qdisc", "add", *device, "root", "handle", "1:", "htb",
                       "direct_qlen", "10000")  # fmt: skip
        self._run_tool("tc", "class", "add", *device, "parent", "1:", "classid", _DISCARD, *wide)
        self._run_tool("tc", "qdisc", "add", *device, "parent", _DISCARD, "blackhole")


class GatewayDrops(Iptables):
    """Rules in a gateway, which has a chain for each direction of each link."""

    chains: ClassVar[tuple[tuple[str, str], ...]] = (("filter", ""),)

    def spot(self, drop: Drop) -> RulePlace:
        """All packets in the chain are the link's."""
        chain = chain_of(drop.port, drop.way)
        return RulePlace(table="filter", chain=chain, match=("-p", "tcp"))


def chain_of(port: int, way: Direction) -> str:
    """Chain of a gateway for the packets of one link in one direction."""
    return f"{way}-{port}"
