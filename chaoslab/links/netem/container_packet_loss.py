"""Packet loss where a link lies in a container: iptables, run in that container's network.

    proxy    in:  learner ─► INPUT, port P ─► a share is dropped ─► proxy
             out: proxy ─► POSTROUTING, port P ─► a share is sent into a hole behind the queue ─► …
    gateway  both ways: FORWARD ─► the link's chain of that way ─► a share is dropped

What leaves a proxy cannot just be dropped: its own TCP would hear of it and not call it lost. A
queue that swallows packets and says they were sent is what a wire does. The rules vanish with the
container's network, so nobody owes their removal.
"""

from typing import ClassVar, Final

from chaoslab.links.effects import Direction
from chaoslab.links.netem.kernel import Run
from chaoslab.links.netem.netfilter import Drop, Iptables, RulePlace

_HOLE: Final = "1:2"
"""The class of the queue whose packets go nowhere."""


class ProxyDrops(Iptables):
    """In the network of a proxy's container, on one interface of it."""

    chains: ClassVar[tuple[tuple[str, str], ...]] = (
        ("filter", "INPUT"),
        ("mangle", "POSTROUTING"),
    )

    def __init__(self, tools: Run) -> None:
        super().__init__(tools)
        self._has_hole = False

    def spot(self, drop: Drop) -> RulePlace:
        """What comes in is met before the proxy, what goes out behind it."""
        if drop.way is Direction.UP:
            return super().spot(drop)
        return RulePlace(
            table="mangle",
            chain="POSTROUTING",
            match=("-o", drop.interface, "-p", "tcp", "--sport", str(drop.port)),
            end=("-j", "CLASSIFY", "--set-class", _HOLE),
        )

    def add(self, drop: Drop) -> None:
        """The first one the way out digs the hole."""
        if drop.way is Direction.DOWN and not self._has_hole:
            self._dig(drop.interface)
            self._has_hole = True
        super().add(drop)

    def _dig(self, interface: str) -> None:
        """A queue through which everybody's packets pass at once, but those of one class."""
        device = ("dev", interface)
        wide = ("htb", "rate", "10gbit")
        self._run_tool("tc", "qdisc", "add", *device, "root", "handle", "1:", "htb",
                       "direct_qlen", "10000")  # fmt: skip
        self._run_tool("tc", "class", "add", *device, "parent", "1:", "classid", _HOLE, *wide)
        self._run_tool("tc", "qdisc", "add", *device, "parent", _HOLE, "blackhole")


class GatewayDrops(Iptables):
    """In the network of a gateway, which has a chain for each way of each link."""

    chains: ClassVar[tuple[tuple[str, str], ...]] = (("filter", ""),)

    def spot(self, drop: Drop) -> RulePlace:
        """Whatever comes by there is the link's."""
        chain = chain_of(drop.port, drop.way)
        return RulePlace(table="filter", chain=chain, match=("-p", "tcp"))


def chain_of(port: int, way: Direction) -> str:
    """The chain through which a gateway sends a link's packets of one way."""
    return f"{way}-{port}"
