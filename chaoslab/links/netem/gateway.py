"""Gateway between learners and the syncer: its interface, and its forwarding rules.

    learner ── address:4701 ──► PREROUTING: to the syncer ─► FORWARD: chain up-4701 ─► syncer:4600
                                                             FORWARD: chain down-4701 ◄─┘
    Forwarding.lead    the link's port leads to an address   .freeze  only bare ACKs pass
    Forwarding.refuse  new connections are refused           .end   open connections are reset
              .halve   one end of them is reset              .tell  the other end is reset too

The kernel forwards; no process copies the bytes. For a connection that is ended, the kernel deletes
its conntrack entry; a SYN into it (`send_syn`) makes an idle end answer, and packets of unknown
connections are answered with a RST. Which effects are in force is kept by `links`, and so are the
ends that must still be knocked: a call that failed can be repeated.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from chaoslab.core.errors import FleetError
from chaoslab.links.effects import Direction, LinkAbility
from chaoslab.links.netem.netfilter import Chain, chain_of
from chaoslab.links.netem.queues import Queues

INTERFACE: Final = "eth0"
"""Interface of the gateway on the run's network, for both directions."""
_PAYLOAD: Final = (
    "9,"
    "177 0 0 0,80 0 0 12,84 0 0 240,116 0 0 2,"  # length of the TCP header, after the IP header's …
    "12 0 0 0,7 0 0 0,"  # … added to it
    "40 0 0 2,28 0 0 0,22 0 0 0"  # length of the packet minus both: matches if not zero
)
"""BPF program that matches packets with a payload, which a match by length cannot do."""
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
:freeze - [0:0]
-A freeze -p tcp --tcp-flags FIN FIN -j DROP
-A freeze -p tcp --tcp-flags RST RST -j DROP
-A freeze -p tcp -m bpf --bytecode "{_PAYLOAD}" -j DROP
COMMIT
"""
"""Rules for all links: knocks are not tracked; the chain `freeze` lets handshakes and ACKs pass."""
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
"""An entry of conntrack's listing: the learner's direction, then the syncer's."""

Ends = tuple[str, int, str, int]
"""Source address and port, destination address and port."""


class NetworkTools(Protocol):
    """The network tools of a host."""

    def run(self, tool: str, *words: str, text: str = "") -> str:
        """Output of the tool. FleetError with its error output if it fails."""
        ...

    def ask(self, command: Sequence[str], text: str = "") -> tuple[int, str]:
        """Exit code, and output (error output if it failed)."""
        ...

    def send_syn(self, ends: Sequence[Ends]) -> None:
        """Send a bare SYN from the source to the destination of each entry."""
        ...


class Gateway(NetworkTools, Protocol):
    """A host whose kernel forwards between learners and syncer."""

    def open(self) -> str:
        """Start it; the address that learners dial. FleetError."""
        ...

    def locate(self, host: str) -> str | None:
        """Current address of a node; empty if it is gone, None if that is unknown."""
        ...

    def ended(self) -> str:
        """How the gateway ended, as a clause; empty while it runs."""
        ...

    def close(self) -> None:
        """Stop the gateway. May be repeated."""
        ...

    def lacks(self) -> dict[LinkAbility, str]:
        """Missing abilities of its kernel with the reason, found by trying before `open`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Connections of one link."""

    open_now: int
    opened: int


class Forwarding:
    """Rules of one gateway, and its queues. Methods raise FleetError if the kernel refuses."""

    def __init__(self, tools: NetworkTools) -> None:
        self._tools = tools
        self._leads: dict[int, str] = {}
        """Destination address:port by port of the gateway."""
        self.queues = Queues(tools.run, INTERFACE)
        self._run("iptables-restore", "--noflush", text=_ALL)

    def add(self, port: int) -> None:
        """Add the rules of a link on this port, without a destination: connections are refused."""
        up, down = (chain_of(port, way) for way in Direction.BOTH.ways)
        rules = _OF_ONE.format(port=port, up=up, down=down)
        self._run("iptables-restore", "--noflush", text=rules)

    def leads_to(self, port: int) -> str:
        """Destination address:port of a link; empty if there is none."""
        return self._leads.get(port, "")

    def lead(self, port: int, to: str) -> None:
        """Set the destination of the link's new connections; empty: they are refused.

        The rule before it goes in the same step, as the kernel lists it: may be repeated.
        """
        comment = f"lead-{port}"
        before = Chain(run=self._tools.run, table="nat", name="PREROUTING").listed(comment)
        lines = [f"-D {shlex.join(words[1:])}" for words in before]
        if to:
            rule = f"-A PREROUTING -p tcp --dport {port} -m comment --comment {comment}"
            lines.append(f"{rule} -j DNAT --to-destination {to}")
        self._run("iptables-restore", "--noflush", text="\n".join(["*nat", *lines, "COMMIT", ""]))
        self._leads[port] = to

    def freeze(self, port: int, way: Direction, *, is_on: bool, comment: str) -> None:
        """Drop packets that carry bytes or end a connection, in one direction; others pass."""
        self._switch(chain_of(port, way), comment, (), ("-j", "freeze"), is_on=is_on)

    def refuse(self, port: int, *, is_on: bool, comment: str) -> None:
        """Answer new connections with a RST."""
        new = ("-p", "tcp", "-m", "conntrack", "--ctstate", "NEW")
        reset = ("-j", "REJECT", "--reject-with", "tcp-reset")
        self._switch(chain_of(port, Direction.UP), comment, new, reset, is_on=is_on)

    def _switch(
        self, chain: str, comment: str, match: Sequence[str], end: Sequence[str], *, is_on: bool
    ) -> None:
        rules = Chain(run=self._tools.run, table="filter", name=chain)
        if is_on:
            rules.put(comment, match, end)
        else:
            rules.remove(comment)

    def end(self, port: int, untold: list[Ends]) -> None:
        """Reset the open connections of a link: both ends get a RST, and those in `untold`.

        On FleetError `untold` has the ends that must still be told.
        """
        untold += (end for ends in self._open(port) for end in ends)
        untold += (end for ends in self._forget(port) for end in ends)
        self._tell(untold)

    def halve(self, port: int, broken: Direction, comment: str, untold: list[Ends]) -> None:
        """Reset one end of the open connections, or none; add those not told to `untold`.

        `broken` is `up` for the learner's end, `down` for the syncer's, `both` for neither. On
        FleetError `untold` has all ends whose packets may have been dropped.
        """
        told = {Direction.UP: 0, Direction.DOWN: 1}.get(broken)
        found = self._open(port)
        untold += (end for ends in found for end in ends)
        for ends in found:
            for number, end in enumerate(ends):
                if number != told:
                    self._silence(end, comment)
        found += (ends for ends in self._forget(port) if ends not in found)
        knocked = [ends[told] for ends in found if told is not None]
        self._tools.send_syn(knocked)
        untold[:] = [end for end in untold if end not in knocked]

    def tell(self, untold: list[Ends], comment: str) -> None:
        """Reset the ends in `untold` that `halve` left, and empty it."""
        self._silenced.remove(comment)
        self._tell(untold)

    def _tell(self, untold: list[Ends]) -> None:
        self._tools.send_syn(list(dict.fromkeys(untold)))
        untold.clear()

    @property
    def _silenced(self) -> Chain:
        return Chain(run=self._tools.run, table="mangle", name="PREROUTING")

    def _silence(self, end: Ends, comment: str) -> None:
        """Drop what an end sends, so that it gets no answer."""
        _, port, host, from_port = end
        what = ("-p", "tcp", "-s", host, "--sport", str(from_port), "--dport", str(port))
        self._silenced.append(comment, what, ("-j", "DROP"))

    def _open(self, port: int) -> list[tuple[Ends, Ends]]:
        """The two ends of each of the link's connections."""
        return _both_ends(self._run("conntrack", "-L", *_of(port)))

    def _forget(self, port: int) -> list[tuple[Ends, Ends]]:
        """Delete the link's entries from conntrack; return the two ends of each."""
        code, said = self._tools.ask(("conntrack", "-D", *_of(port)))
        if code and "0 flow entries" not in said:
            raise FleetError(f"port {port}: connections could not be ended: {said}")
        return _both_ends(said)

    def traffic(self, port: int) -> Traffic:
        """Connections as the kernel counts them."""
        listed = self._run("conntrack", "-L", *_of(port))
        rules = self._run("iptables", "-w", "5", "-t", "nat", "-S", "POSTROUTING", "-v")
        (counting,) = (line for line in rules.splitlines() if f" open-{port} " in f"{line} ")
        return Traffic(
            open_now=sum("ESTABLISHED" in line for line in listed.splitlines()),
            opened=int(counting.split()[counting.split().index("-c") + 1]),
        )

    def written(self) -> str:
        """All rules and queues without their counters, to detect changes by others."""
        rules = self._run("iptables-save").splitlines()
        kept = [line.split(" [")[0] for line in rules if not line.startswith("#")]
        queues = self._run("tc", "class", "show", "dev", INTERFACE)
        return "\n".join([*kept, *queues.splitlines()])

    def _run(self, tool: str, *words: str, text: str = "") -> str:
        return self._tools.run(tool, *words, text=text)


def _of(port: int) -> tuple[str, ...]:
    return "-p", "tcp", "--orig-port-dst", str(port)


def _both_ends(listed: str) -> list[tuple[Ends, Ends]]:
    """Both entries of each connection: for a SYN to the learner, and for one to the syncer."""
    found = []
    for flow in _FLOW.finditer(listed):
        learner, gateway, port, dialled, syncer, back, served, masked = flow.groups()
        found.append(
            ((gateway, int(dialled), learner, int(port)), (back, int(masked), syncer, int(served)))
        )
    return found
