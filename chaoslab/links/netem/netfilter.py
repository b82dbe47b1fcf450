"""Packet loss by netfilter: the kernel drops a share of one port's packets, TCP resends them.

    Iptables.add(drop) ───────► INPUT: count all packets of port P; drop a share of them
    Iptables.remove(comment) ─► exactly the rules with this comment

The rules match packets that arrive on one interface (loopback by default) from or to the link's
port, so other traffic is not affected. On loopback a packet holds up to 64 KiB: a share of packets
there is a larger share of a transfer's time than on a wire with 1500-byte packets. Needs root
(CAP_NET_ADMIN); `is_available` tries it.

Where a link is in a container, iptables runs in that container's network, so the rules vanish with
it and need no undo entries:

    ProxyDrops    in:  learner ─► INPUT, port P ─► a share is dropped ─► proxy
                  out: proxy ─► POSTROUTING, port P ─► a share goes to a class that discards it
    GatewayDrops  both: FORWARD ─► the link's chain of that direction ─► a share is dropped

`Chain` adds and removes rules by their comments, for loss and for the rules of a gateway.
"""

import secrets
import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.links.effects import Direction
from chaoslab.links.netem.kernel import Run, may_administer_network, run, which, why_no_namespace
from chaoslab.links.ports import ReservedPort

_DISCARD: Final = "1:2"
"""Class whose queue discards its packets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Drop this share of the packets of one port in one direction (`up`: to the port)."""

    comment: str
    """Unique; letters, digits and . _ - / : only."""
    port: int
    way: Direction
    share: float
    interface: str = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketCounts:
    """Counters of a rule: packets that matched, packets dropped."""

    packets: int = 0
    dropped: int = 0

    def __add__(self, other: "PacketCounts") -> "PacketCounts":
        return PacketCounts(
            packets=self.packets + other.packets, dropped=self.dropped + other.dropped
        )


def is_available() -> tuple[bool, str]:
    """Whether packets can be dropped here, and why not, or by which tool."""
    if not may_administer_network():
        return False, "it needs root (CAP_NET_ADMIN): run as root, or in a container that has it"
    if which(Iptables.tool) is None:
        return False, "iptables is not on PATH: install iptables"
    reason = _refusal()
    return not reason, reason or f"by {Iptables.tool}"


def drops() -> "Iptables":
    """Tool that writes loss rules on this machine; AbilityError if there is none."""
    can, how = is_available()
    if not can:
        raise AbilityError(f"packet loss is not possible here: {how}")
    return Iptables()


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlace:
    """Chain and match for the packets of a drop, and what is done with those chosen at random."""

    table: str
    chain: str
    match: tuple[str, ...]
    end: tuple[str, ...] = ("-j", "DROP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Rules of one chain by their comments, which are unique there.

    The kernel is asked what is there, so a call that failed, or whose answer was lost, may be
    repeated. FleetError if the kernel refuses.
    """

    run: Run
    table: str
    name: str
    """Empty: any chain of the table, to remove from."""

    def put(self, comment: str, match: Sequence[str], end: Sequence[str]) -> None:
        """Append a rule unless it is there."""
        if not self.listed(comment):
            self.append(comment, match, end)

    def append(self, comment: str, match: Sequence[str], end: Sequence[str]) -> None:
        """Append a rule."""
        self._run("-A", self.name, *match, "-m", "comment", "--comment", comment, *end)

    def remove(self, comment: str) -> None:
        """Delete the rules with this comment, by their specification as the kernel lists them."""
        for words in self.listed(comment):
            self._run("-D", *words[1:])

    def listed(self, comment: str, *flags: str) -> list[list[str]]:
        """Words of the rules with this comment."""
        listed = self._run("-S", *self.name.split(), *flags).splitlines()
        return [words for words in map(shlex.split, listed) if _comment(words) == comment]

    def _run(self, *words: str) -> str:
        return self.run(Iptables.tool, "-w", "5", "-t", self.table, *words)


class Iptables:
    """Rules by iptables: for each drop one that counts and one that drops."""

    tool = "iptables"
    chains: ClassVar[tuple[tuple[str, str], ...]] = (("filter", "INPUT"),)
    """Tables and chains that may hold its rules; an empty chain: any chain of the table."""

    def __init__(self, tools: Run = run) -> None:
        """`tools` runs it, here or in another network."""
        self._run_tool = tools

    def spot(self, drop: Drop) -> RulePlace:
        """Place of the rules; on one machine both directions arrive on INPUT."""
        side = "--dport" if drop.way is Direction.UP else "--sport"
        match = ("-i", drop.interface, "-p", "tcp", side, str(drop.port))
        return RulePlace(table="filter", chain="INPUT", match=match)

    def add(self, drop: Drop) -> None:
        """The counting rule comes first; both match the same packets."""
        spot = self.spot(drop)
        chain = Chain(run=self._run_tool, table=spot.table, name=spot.chain)
        chance = ("-m", "statistic", "--mode", "random", "--probability", f"{drop.share:.8f}")
        chain.append(drop.comment, spot.match, ())
        chain.append(drop.comment, (*spot.match, *chance), spot.end)

    def remove(self, comment: str) -> None:
        """Delete the rules of a drop. May be repeated."""
        for chain in self._chains:
            chain.remove(comment)

    def seen(self, comment: str) -> PacketCounts:
        """Packets that matched, by the kernel's counters."""
        total = PacketCounts()
        for words in self._rules(comment, "-v"):
            packets = int(words[words.index("-c") + 1])
            total += (
                PacketCounts(dropped=packets) if "-j" in words else PacketCounts(packets=packets)
            )
        return total

    def count(self, comment: str) -> int:
        """Number of rules with the comment, by the kernel's listing."""
        return len(self._rules(comment))

    @property
    def _chains(self) -> tuple[Chain, ...]:
        run_tool = self._run_tool
        return tuple(Chain(run=run_tool, table=table, name=name) for table, name in self.chains)

    def _rules(self, comment: str, *flags: str) -> list[list[str]]:
        """Words of the rules with this comment."""
        return [words for chain in self._chains for words in chain.listed(comment, *flags)]


class ProxyDrops(Iptables):
    """Rules in a proxy's container, on one interface.

    Outgoing packets of a proxy cannot be dropped by a rule: its own TCP would learn of that at
    once. A queue that discards packets and reports them as sent behaves like a wire.
    """

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


def _comment(words: Sequence[str]) -> str | None:
    """Comment of a rule as iptables lists it; None if it has none."""
    return words[words.index("--comment") + 1] if "--comment" in words[:-1] else None


@cache
def _refusal() -> str:
    """Why iptables does not work; empty if it does.

    Tried in a temporary network namespace. If none can be created (no CAP_SYS_ADMIN), it is tried
    in place, on a port that is reserved meanwhile, and removed at once.
    """
    with closing(ReservedPort()) as port:
        comment = f"chaoslab:trial:{secrets.token_hex(4)}"
        drop = Drop(comment=comment, port=port.number, way=Direction.UP, share=0.5)
        try:
            if not why_no_namespace():
                Iptables(_run_in_a_namespace).add(drop)
                return ""
            try:
                Iptables().add(drop)
            finally:
                Iptables().remove(comment)
        except FleetError as error:
            return str(error)
    return ""


def _run_in_a_namespace(tool: str, *words: str, text: str = "") -> str:
    """As `run`; by the full path, because the PATH of `unshare` may differ."""
    return run("unshare", "-n", which(tool) or tool, *words, text=text)
