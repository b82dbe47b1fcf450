"""Queues of a gateway's kernel: rate, delay and packet effects per link and direction.

    packets of a link, one way ── CLASSIFY ──► htb class: limited rate
                                                 └► bfifo, or netem: delay, duplicates, reordering …

All other packets pass without a queue. Rates need htb only, everything else netem. Links whose
packets are only duplicated, by the same share, use one class: since 2025 kernels refuse a netem
that duplicates next to another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from chaoslab.links.effects import (
    Bandwidth,
    Corrupt,
    Direction,
    Duplicate,
    Effect,
    Latency,
    Reorder,
)
from chaoslab.links.netem.kernel import Run
from chaoslab.links.netem.netfilter import Chain, chain_of

Queued = Bandwidth | Latency | Duplicate | Reorder | Corrupt
"""Effects that are implemented by a queue."""
_ON_THE_WIRE: Final = 1514 / 1448
"""Bytes of an Ethernet frame for each byte of the stream in it, in full frames."""
_UNBOUND: Final = 12.5e9
_BURST_S: Final = 0.002
_BURST_BYTES_LEAST: Final = 2000
_WAITING_S: Final = 0.25
"""Length of a queue, in seconds of its rate; beyond it packets are dropped, as on a router."""
_WAITING_BYTES_LEAST: Final = 128 << 10
"""Least length of a queue: two of the large packets that TCP passes to a virtual network."""


@dataclass(slots=True)
class Queues:
    """Queues of one interface, written by `run`."""

    run: Run
    interface: str
    _used: dict[tuple[int, Direction], tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """By port and direction: the class, and the arguments of its queue; none while they are unknown
    because a call failed.
    """
    _has_root: bool = False

    def put(self, port: int, way: Direction, effects: Sequence[Effect]) -> None:
        """Set exactly these effects on the packets of one direction; none removes the queue.

        FleetError if the kernel refuses; then it may be repeated, also with other effects.
        """
        shaping = [one for one in effects if isinstance(one, Queued)]
        if not shaping:
            self._remove(port, way)
            return
        self._add_root()
        rates = [one.rate_bytes_per_s for one in shaping if isinstance(one, Bandwidth)]
        rate = _ON_THE_WIRE * min(rates, default=_UNBOUND)
        burst = f"{max(_BURST_BYTES_LEAST, round(_BURST_S * min(rate, _UNBOUND / 100)))}b"
        limits = ("rate", f"{round(8 * rate)}bit", "burst", burst, "cburst", burst)
        leaf = _leaf(shaping, rate)
        own = 2 * port + (way is Direction.DOWN)
        minor = self._shared(leaf) if all(isinstance(one, Duplicate) for one in shaping) else own
        before = self._used.get((port, way))
        if before is not None and (before[0] != minor or not before[1]):
            self._remove(port, way)
        known = (hangs for used, hangs in self._used.values() if used == minor and hangs)
        hangs = next(known, None)
        self._used[port, way] = minor, ()
        self._tc("class", "replace", "parent", "1:", "classid", _id(minor), "htb", *limits)
        if hangs != leaf:
            if hangs is not None and hangs[0] != leaf[0]:
                self._tc("qdisc", "del", "parent", _id(minor))
            self._tc("qdisc", "replace", "parent", _id(minor), "handle", f"{minor:x}:", *leaf)
        self._classify(minor, port, way)
        self._used[port, way] = minor, leaf

    def _add_root(self) -> None:
        if not self._has_root:
            there = self._tc("qdisc", "show", "root").split()[1:3]
            if there != ["htb", "1:"]:  # else an earlier call added it, and its answer was lost
                self._tc("qdisc", "add", "root", "handle", "1:", "htb", "direct_qlen", "10000")
            self._has_root = True

    def _shared(self, leaf: tuple[str, ...]) -> int:
        """Class with this queue, or a new one; numbered below the classes of single links."""
        classes = {hangs: minor for minor, hangs in self._used.values()}
        used = {minor for minor, _ in self._used.values()}
        return classes.get(leaf) or next(n for n in count(2) if n not in used)

    def _remove(self, port: int, way: Direction) -> None:
        """Forget a queue when the kernel has; what is gone already is passed over."""
        if (port, way) not in self._used:
            return
        minor, _ = self._used[port, way]
        self._used[port, way] = minor, ()
        self._rules.remove(_comment(port, way))
        if [one for one, _ in self._used.values()].count(minor) == 1:
            listed = [line.split() for line in self._tc("class", "show").splitlines()]
            if _id(minor) in [words[2] for words in listed]:
                self._tc("class", "del", "classid", _id(minor))  # with its queue
        del self._used[port, way]

    def _classify(self, minor: int, port: int, way: Direction) -> None:
        """Rule that sends packets to the class, by the port that the connection was opened to."""
        sense = "ORIGINAL" if way is Direction.UP else "REPLY"
        match = ("-p", "tcp", "-m", "conntrack", "--ctorigdstport", str(port), "--ctdir", sense)
        target = ("-j", "CLASSIFY", "--set-class", _id(minor))
        self._rules.put(_comment(port, way), match, target)

    @property
    def _rules(self) -> Chain:
        return Chain(run=self.run, table="mangle", name="FORWARD")

    def _tc(self, what: str, verb: str, *words: str) -> str:
        return self.run("tc", what, verb, "dev", self.interface, *words)


def _comment(port: int, way: Direction) -> str:
    return f"queue-{chain_of(port, way)}"


def _id(minor: int) -> str:
    return f"1:{minor:x}"


def _leaf(effects: Sequence[Queued], rate: float) -> tuple[str, ...]:
    """A queue of bytes if only the rate is limited, otherwise netem."""
    words: list[str] = []
    delays = [one for one in effects if isinstance(one, Latency)]
    late = [one for one in effects if isinstance(one, Reorder)]
    delay_s = sum(one.mean_s for one in delays) + sum(one.delay_s for one in late)
    if delay_s:
        jitter_s = sum(one.jitter_s**2 for one in delays) ** 0.5
        words += ["delay", f"{1e6 * delay_s:.0f}us", f"{1e6 * jitter_s:.0f}us"]
    for one in effects:
        if isinstance(one, Duplicate | Reorder | Corrupt):
            words += [one.kind, f"{100 * one.share:g}%"]
    if words:
        return "netem", "limit", "100000", *words
    waiting = max(_WAITING_BYTES_LEAST, round(_WAITING_S * rate))
    return "bfifo", "limit", str(waiting)
