"""A gateway between learners and the syncer: what it must offer, and the rules that it forwards by.

    learner ── address:4701 ──► PREROUTING: to the syncer ─► FORWARD: chain up-4701 ─► syncer:4600
                                                             FORWARD: chain down-4701 ◄─┘
    Forwarding.lead    the link's port leads to an address       .hold    nothing but bare ACKs
    Forwarding.refuse  nobody listens                            .end     open connections break
              .halve   one end of them breaks                    .tell    and the other hears of it

The kernel forwards, no process touches the bytes. Of a connection that is ended the kernel forgets
what it knew; a SYN into it (`knock`) makes an idle end say where it stands, and what belongs to no
known connection is answered with a RST. It keeps no book of effects: that is `forwarded`'s.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from chaoslab.core.errors import FleetError
from chaoslab.links.container_packet_loss import chain_of
from chaoslab.links.effects import Direction, LinkAbility

INTERFACE: Final = "eth0"
"""The one on the run's network: what comes in and what goes out."""
_PAYLOAD: Final = (
    "9,"
    "177 0 0 0,80 0 0 12,84 0 0 240,116 0 0 2,"  # the TCP header's length, after the IP header's …
    "12 0 0 0,7 0 0 0,"  # … added to that
    "40 0 0 2,28 0 0 0,22 0 0 0"  # the packet's length less both: not zero, it matches
)
"""A filter program of the kernel: packets with a payload, which a match by length cannot tell."""
_ALL: Final = f"""\
*raw
-A OUTPUT -p tcp --syn -j CT --notrack
COMMIT
*nat
-A POSTROUTING -m conntrack --ctstate DNAT -j MASQUERADE
COMMIT
*filter
-A INPUT -m conntrack --ctstate INVALID -j DROP
-A INPUT -p tcp ! --syn -m conntrack --ctstate NEW -j REJECT --reject-with tcp-reset
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -p tcp ! --syn -m conntrack --ctstate NEW -j REJECT --reject-with tcp-reset
:hold - [0:0]
-A hold -p tcp --tcp-flags FIN FIN -j DROP
-A hold -p tcp --tcp-flags RST RST -j DROP
-A hold -p tcp -m bpf --bytecode "{_PAYLOAD}" -j DROP
COMMIT
"""
"""For all links: knocks are nobody's connection; what is held lets handshakes and ACKs through."""
_OF_ONE: Final = """\
*nat
-I POSTROUTING -m conntrack --ctorigdstport {port} --ctdir ORIGINAL -m comment --comment open-{port}
COMMIT
*filter
:{up} - [0:0]
:{down} - [0:0]
-A FORWARD -p tcp -m conntrack --ctorigdstport {port} --ctdir ORIGINAL -j {up}
-A FORWARD -p tcp -m conntrack --ctorigdstport {port} --ctdir REPLY -j {down}
COMMIT
"""
_FLOW: Final = re.compile(
    r"src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+) [^\n]*?"
    r"src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+)"
)
"""Of conntrack's listing: what the learner sends, and what the syncer answers."""

Ends = tuple[str, int, str, int]
"""From which address and port to which."""


class Hands(Protocol):
    """The tools of some host, at work there."""

    def run(self, tool: str, *words: str, text: str = "") -> str:
        """See `kernel.Run`."""
        ...

    def ask(self, command: Sequence[str], text: str = "") -> tuple[int, str]:
        """Exit code and output, or error output if it failed."""
        ...

    def knock(self, ends: Sequence[Ends]) -> None:
        """Send a bare SYN from each first end to its second."""
        ...


class Gateway(Hands, Protocol):
    """A host whose kernel forwards."""

    def open(self) -> str:
        """Begin; its address, which learners dial. FleetError."""
        ...

    def locate(self, host: str) -> str | None:
        """A node's address now; empty if it is not there, None if nobody can say."""
        ...

    def ended(self) -> str:
        """How it has ended, as half a sentence; empty while it runs."""
        ...

    def close(self) -> None:
        """End it. Safe to repeat."""
        ...

    def lacks(self) -> dict[LinkAbility, str]:
        """What the kernel under it cannot do, and why; by trying it elsewhere, before `open`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one link has carried."""

    open_now: int
    opened: int


class Forwarding:
    """The rules of one gateway. Every verb raises FleetError when the kernel refuses."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._leads: dict[int, str] = {}
        """By port: address:port that it leads to."""
        self._run("iptables-restore", "--noflush", text=_ALL)

    def add(self, port: int) -> None:
        """Rules for a link on this port, which leads nowhere yet: connections are refused."""
        up, down = (chain_of(port, way) for way in Direction.BOTH.ways)
        rules = _OF_ONE.format(port=port, up=up, down=down)
        self._run("iptables-restore", "--noflush", text=rules)

    def leads_to(self, port: int) -> str:
        """address:port; empty if it leads nowhere."""
        return self._leads.get(port, "")

    def lead(self, port: int, to: str) -> None:
        """Let the link's new connections go to address:port `to`; empty: they are refused."""
        before = self.leads_to(port)
        rule = f"PREROUTING -p tcp --dport {port} -j DNAT --to-destination"
        lines = [f"-D {rule} {before}"] * bool(before) + [f"-A {rule} {to}"] * bool(to)
        self._run("iptables-restore", "--noflush", text="\n".join(["*nat", *lines, "COMMIT", ""]))
        self._leads[port] = to

    def hold(self, port: int, way: Direction, *, is_on: bool, whose: str) -> None:
        """What carries bytes, or ends a connection, is dropped that way; the rest goes on."""
        rule = (chain_of(port, way), *_whose(whose), "-j", "hold")
        self._run("iptables", "-w", "5", "-A" if is_on else "-D", *rule)

    def refuse(self, port: int, *, is_on: bool, whose: str) -> None:
        """New connections get a RST."""
        new = ("-p", "tcp", "-m", "conntrack", "--ctstate", "NEW")
        reset = ("-j", "REJECT", "--reject-with", "tcp-reset")
        rule = (chain_of(port, Direction.UP), *new, *_whose(whose), *reset)
        self._run("iptables", "-w", "5", "-A" if is_on else "-D", *rule)

    def end(self, port: int) -> None:
        """Break the open connections of a link off: both ends get a RST."""
        self._hands.knock([end for ends in self._forget(port) for end in ends])

    def halve(self, port: int, broken: Direction, whose: str) -> tuple[Ends, ...]:
        """Break one end off and leave the other one untold, or both; who was not told.

        `broken` is `up` for the learner's end, `down` for the syncer's, `both` for neither.
        """
        told = {Direction.UP: 0, Direction.DOWN: 1}.get(broken)
        listed = self._run("conntrack", "-L", *_of(port))
        untold = [
            end for ends in _both_ends(listed) for number, end in enumerate(ends) if number != told
        ]
        for end in untold:
            self._silence("-A", end, whose)
        knocked = [ends[told] for ends in self._forget(port) if told is not None]
        self._hands.knock(knocked)
        return tuple(untold)

    def tell(self, untold: Sequence[Ends], whose: str) -> None:
        """Let those hear of the end of their connections."""
        for end in untold:
            self._silence("-D", end, whose)
        self._hands.knock(untold)

    def _silence(self, verb: str, end: Ends, whose: str) -> None:
        """What an end says finds nobody."""
        _, port, host, from_port = end
        what = ("-p", "tcp", "-s", host, "--sport", str(from_port), "--dport", str(port))
        where = ("-t", "mangle", verb, "PREROUTING")
        self._run("iptables", "-w", "5", *where, *what, *_whose(whose), "-j", "DROP")

    def _forget(self, port: int) -> list[tuple[Ends, Ends]]:
        """The kernel knows nothing of the link's connections any more; whose they were."""
        code, said = self._hands.ask(("conntrack", "-D", *_of(port)))
        if code and "0 flow entries" not in said:
            raise FleetError(f"the connections of port {port} could not be ended: {said}")
        return _both_ends(said)

    def traffic(self, port: int) -> Traffic:
        """By the kernel's own count."""
        listed = self._run("conntrack", "-L", *_of(port))
        rules = self._run("iptables", "-w", "5", "-t", "nat", "-S", "POSTROUTING", "-v")
        (counting,) = (line for line in rules.splitlines() if f" open-{port} " in f"{line} ")
        return Traffic(
            open_now=sum("ESTABLISHED" in line for line in listed.splitlines()),
            opened=int(counting.split()[counting.split().index("-c") + 1]),
        )

    def written(self) -> str:
        """All rules and queues as they stand, without what they count."""
        rules = self._run("iptables-save").splitlines()
        kept = [line.split(" [")[0] for line in rules if not line.startswith("#")]
        queues = self._run("tc", "class", "show", "dev", INTERFACE)
        return "\n".join([*kept, *queues.splitlines()])

    def _run(self, tool: str, *words: str, text: str = "") -> str:
        return self._hands.run(tool, *words, text=text)


def _whose(injection: str) -> tuple[str, ...]:
    return "-m", "comment", "--comment", injection


def _of(port: int) -> tuple[str, ...]:
    return "-p", "tcp", "--orig-port-dst", str(port)


def _both_ends(listed: str) -> list[tuple[Ends, Ends]]:
    """Of each connection, as whom to knock at the learner and as whom at the syncer."""
    found = []
    for flow in _FLOW.finditer(listed):
        learner, gateway, port, dialled, syncer, back, served, masked = flow.groups()
        found.append(
            ((gateway, int(dialled), learner, int(port)), (back, int(masked), syncer, int(served)))
        )
    return found
