"""Packet loss: the kernel drops a share of one port's packets, and TCP sends them again.

    Iptables.add(drop) ───────► INPUT: count all of port P; drop a share of them
    Iptables.remove(comment) ─► exactly the rules that carry this rule's comment

The rules match packets that come in on one interface (loopback by default) from or to the link's
own port, so nobody else's traffic is touched. On loopback a packet holds up to 64 KiB: a share of
packets there is a larger share of a transfer's time than on a wire with 1500-byte packets. Needs
root (CAP_NET_ADMIN); `is_available` says whether it works here, by trying it.
"""

import secrets
import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.links.effects import Direction
from chaoslab.links.kernel import Run, may_administer_network, run, which, why_no_namespace
from chaoslab.links.ports import HeldPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Drop this share of the packets of one port that travel one way (`up`: to the port)."""

    comment: str
    """Unique; letters, digits and . _ - / : only."""
    port: int
    way: Direction
    share: float
    interface: str = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a rule has done so far."""

    packets: int = 0
    dropped: int = 0

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(packets=self.packets + other.packets, dropped=self.dropped + other.dropped)


def is_available() -> tuple[bool, str]:
    """Whether packets can be dropped here, and why not, or by what."""
    if not may_administer_network():
        return False, "it needs root (CAP_NET_ADMIN): run as root, or in a container that has it"
    if which(Iptables.tool) is None:
        return False, "iptables is not on PATH: install iptables"
    reason = _refusal()
    return not reason, reason or f"by {Iptables.tool}"


def drops() -> "Iptables":
    """What writes rules here; AbilityError if nothing can."""
    can, how = is_available()
    if not can:
        raise AbilityError(f"packets cannot be dropped here: {how}")
    return Iptables()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where the packets of a drop are met, and what is done with those that chance picks."""

    table: str
    chain: str
    match: tuple[str, ...]
    end: tuple[str, ...] = ("-j", "DROP")


class Iptables:
    """Two rules for each drop: one that counts, one that drops."""

    tool = "iptables"
    chains: ClassVar[tuple[tuple[str, str], ...]] = (("filter", "INPUT"),)
    """Tables and chains in which its rules stand; an empty name: in any chain of the table."""

    def __init__(self, *, within: Sequence[str] = (), tools: Run | None = None) -> None:
        """`within` is put before the tool, `tools` runs it: where else than here it shall act."""
        # the whole path inside another program, which may not look where we do
        self._command = (*within, which(self.tool) or self.tool) if within else (self.tool,)
        self._run_tool = tools or run

    def spot(self, drop: Drop) -> Spot:
        """Where both ends of a link are on this machine, what leaves comes in, too."""
        side = "--dport" if drop.way is Direction.UP else "--sport"
        match = ("-i", drop.interface, "-p", "tcp", side, str(drop.port))
        return Spot(table="filter", chain="INPUT", match=match)

    def add(self, drop: Drop) -> None:
        """The counting rule stands first; both match the same packets."""
        spot = self.spot(drop)
        match = ("-t", spot.table, "-A", spot.chain, *spot.match)
        label = ("-m", "comment", "--comment", drop.comment)
        chance = ("-m", "statistic", "--mode", "random", "--probability", f"{drop.share:.8f}")
        self._run(*match, *label)
        self._run(*match, *chance, *label, *spot.end)

    def rehearse(self, drop: Drop) -> None:
        """Added and taken away again: the tool has no other trial. FleetError if it is refused."""
        try:
            self.add(drop)
        finally:
            self.remove(drop.comment)

    def remove(self, comment: str) -> Seen:
        """Deleted by what they say, as the kernel lists them."""
        seen = self.seen(comment)
        for table, words in self._rules(comment):
            self._run("-t", table, "-D", *words[1:])
        return seen

    def seen(self, comment: str) -> Seen:
        """By the kernel's own counters."""
        total = Seen()
        for _, words in self._rules(comment, "-v"):
            packets = int(words[words.index("-c") + 1])
            total += Seen(dropped=packets) if "-j" in words else Seen(packets=packets)
        return total

    def count(self, comment: str) -> int:
        """As the kernel lists them."""
        return len(self._rules(comment))

    def _rules(self, comment: str, *flags: str) -> list[tuple[str, list[str]]]:
        """Those with this comment, each after its table."""
        lines = [
            (table, shlex.split(line))
            for table, chain in self.chains
            for line in self._run("-t", table, "-S", *chain.split(), *flags).splitlines()
        ]
        return [(table, words) for table, words in lines if _comment(words) == comment]

    def _run(self, *words: str) -> str:
        return self._run_tool(*self._command, "-w", "5", *words)


def _comment(words: Sequence[str]) -> str | None:
    """What a rule says of itself, as iptables lists it; None if it says nothing."""
    return words[words.index("--comment") + 1] if "--comment" in words[:-1] else None


@cache
def _refusal() -> str:
    """Why iptables cannot do it; empty if it can.

    Tried in a network namespace that vanishes. Where none can be made (no CAP_SYS_ADMIN) it is
    tried in place: on a port that nobody else can have meanwhile, and taken back at once.
    """
    with closing(HeldPort()) as port:
        comment = f"chaoslab:trial:{secrets.token_hex(4)}"
        drop = Drop(comment=comment, port=port.number, way=Direction.UP, share=0.5)
        try:
            if why_no_namespace():
                Iptables().rehearse(drop)
            else:
                Iptables(within=("unshare", "-n")).add(drop)
        except FleetError as error:
            return str(error)
    return ""
