"""Packet loss: the kernel drops a share of one port's packets, and TCP sends them again.

    Drops.add(rule) ──► INPUT: count all of port P; drop a share of them     (iptables, else nft)
    Drops.remove(rule) ──► exactly the rules that carry this rule's comment

The rules match packets that come in on one interface (loopback by default) from or to the link's
own port, so nobody else's traffic is touched. On loopback a packet holds up to 64 KiB: a share of
packets there is a larger share of a transfer's time than on a wire with 1500-byte packets. Needs
root (CAP_NET_ADMIN); `is_available` says whether it works here, by trying it.
"""

import json
import secrets
import shlex
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.links.effects import Direction
from chaoslab.links.kernel import Run, may_administer_network, run, which, why_no_namespace
from chaoslab.links.ports import HeldPort

_TABLE = "chaoslab"
_FINEST = 1_000_000
"""nft draws a number below it: shares are kept to a millionth."""


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


class Drops(Protocol):
    """One of the two tools that write the kernel's rules."""

    tool: str

    def add(self, drop: Drop) -> None:
        """From now on. FleetError if the kernel refuses."""
        ...

    def rehearse(self, drop: Drop) -> None:
        """Whether `add` would do; nothing is left of it. FleetError if the kernel refuses."""
        ...

    def remove(self, comment: str) -> Seen:
        """Take exactly these rules away; returns what they did. Safe to repeat."""
        ...

    def seen(self, comment: str) -> Seen:
        """What they have done."""
        ...

    def count(self, comment: str) -> int:
        """How many there are."""
        ...


def is_available() -> tuple[bool, str]:
    """Whether packets can be dropped here, and why not, or by which tool."""
    if not may_administer_network():
        return False, "it needs root (CAP_NET_ADMIN): run as root, or in a container that has it"
    kinds = (Iptables, Nft)
    found = [kind for kind in kinds if which(kind.tool) is not None]
    reasons = [] if found else ["neither is on PATH: install iptables or nftables"]
    for kind in found:
        reason = _try(kind)
        if not reason:
            return True, f"by {kind.tool}"
        reasons.append(reason)
    return False, "; ".join(reasons)


def drops() -> Drops:
    """The tool that works here; AbilityError if there is none."""
    can, how = is_available()
    if not can:
        raise AbilityError(f"packets cannot be dropped here: {how}")
    return Iptables() if how.endswith(Iptables.tool) else Nft()


def undo(tool: str, comment: str) -> None:
    """Take the rules with this comment away, for whoever cleans up after a dead harness."""
    _by(tool).remove(comment)


def count(tool: str, comment: str) -> int:
    """How many rules with this comment the kernel has; FleetError if it cannot be asked."""
    return _by(tool).count(comment)


def _by(tool: str) -> "Iptables | Nft":
    return Iptables() if tool == Iptables.tool else Nft()


# ---------------------------------------------------------------- iptables


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
        self._command = _command(self.tool, within)
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


# ---------------------------------------------------------------- nftables


class Nft:
    """Rules in a table of our own, which disappears with the last of them."""

    tool = "nft"

    def __init__(self, *, within: Sequence[str] = ()) -> None:
        """`within` is put before the tool: where else than here it shall act."""
        self._command = _command(self.tool, within)

    def add(self, drop: Drop) -> None:
        """Table and chain are made if need be."""
        self._apply(*self._lines(drop))

    def rehearse(self, drop: Drop) -> None:
        """The kernel checks it and takes nothing. FleetError if it refuses."""
        self._apply(*self._lines(drop), is_check=True)

    def _lines(self, drop: Drop) -> Sequence[str]:
        side = "dport" if drop.way is Direction.UP else "sport"
        match = f'iifname "{drop.interface}" tcp {side} {drop.port}'
        label = f'comment "{drop.comment}"'
        limit = max(1, round(drop.share * _FINEST))
        chance = f"numgen random mod {_FINEST} < {limit}"
        chain = f"inet {_TABLE} input"
        return (
            f"add table inet {_TABLE}",
            f"add chain {chain} {{ type filter hook input priority 0; }}",
            f"add rule {chain} {match} counter {label}",
            f"add rule {chain} {match} {chance} counter drop {label}",
        )

    def remove(self, comment: str) -> Seen:
        """Deleted by the handles that the kernel gave them."""
        rules = self._rules()
        seen = _total(rules, comment)
        doomed = [rule for rule in rules if rule.comment == comment]
        if len(doomed) == len(rules):
            self._apply(*([f"delete table inet {_TABLE}"] if rules else []))
        else:
            self._apply(*(f"delete rule inet {_TABLE} input handle {r.handle}" for r in doomed))
        return seen

    def seen(self, comment: str) -> Seen:
        """By the kernel's own counters."""
        return _total(self._rules(), comment)

    def count(self, comment: str) -> int:
        """As the kernel lists them."""
        return sum(rule.comment == comment for rule in self._rules())

    def _apply(self, *lines: str, is_check: bool = False) -> None:
        """All of them or none."""
        if lines:
            flags = ("--check",) if is_check else ()
            run(*self._command, *flags, "-f", "-", text="\n".join(lines) + "\n")

    def _rules(self) -> list["_NftRule"]:
        if f"table inet {_TABLE}" not in run(*self._command, "list", "tables").splitlines():
            return []
        listing = json.loads(run(*self._command, "-j", "list", "table", "inet", _TABLE))
        return [_nft_rule(one["rule"]) for one in listing["nftables"] if "rule" in one]


def _command(tool: str, within: Sequence[str]) -> Sequence[str]:
    """With the whole path inside another program, which may not look where we do."""
    return (*within, which(tool) or tool) if within else (tool,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NftRule:
    handle: int
    comment: str
    packets: int
    is_drop: bool


def _nft_rule(rule: dict[str, object]) -> _NftRule:
    parts = rule["expr"]
    if not isinstance(parts, list):
        raise FleetError(f"nft lists a rule that cannot be read: {rule}")
    counters = [part["counter"]["packets"] for part in parts if "counter" in part]
    return _NftRule(
        handle=int(str(rule["handle"])),
        comment=str(rule.get("comment", "")),
        packets=sum(counters),
        is_drop=any("drop" in part for part in parts),
    )


def _total(rules: Iterable[_NftRule], comment: str) -> Seen:
    total = Seen()
    for rule in rules:
        if rule.comment == comment:
            packets = rule.packets
            total += Seen(dropped=packets) if rule.is_drop else Seen(packets=packets)
    return total


@cache
def _try(kind: type[Iptables | Nft]) -> str:
    """Why the tool cannot do it; empty if it can.

    Tried in a network namespace that vanishes. Where none can be made (no CAP_SYS_ADMIN) it is
    tried in place: on a port that nobody else can have meanwhile, and taken back at once.
    """
    with closing(HeldPort()) as port:
        comment = f"chaoslab:trial:{secrets.token_hex(4)}"
        drop = Drop(comment=comment, port=port.number, way=Direction.UP, share=0.5)
        try:
            if why_no_namespace():
                kind().rehearse(drop)
            else:
                kind(within=("unshare", "-n")).add(drop)
        except FleetError as error:
            return str(error)
    return ""
