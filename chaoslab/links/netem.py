"""Duplicate, reordered and corrupt packets of one port, by the kernel's `tc netem`.

    prio qdisc on the interface ─► filter: port P ─► band of this injection ─► netem

UNVERIFIED: no kernel at hand had sch_netem when this was written, so nothing here but
`is_available` has ever run; it says whether a kernel has it, by trying it in a network namespace
that vanishes with the trial. Until this has passed the conformance kit on a kernel that has netem,
do not trust it. Bands are handed out by whoever uses it (see `packets`), one harness per interface.
"""

from dataclasses import dataclass
from functools import cache

from chaoslab.errors import FleetError, PlanError
from chaoslab.links.effects import Corrupt, Direction, Duplicate, PacketEffect, Reorder
from chaoslab.links.kernel import ask, may_administer_network, run, why_no_namespace

BANDS = 16
FIRST_BAND = 4
"""Bands 1 to 3 carry everybody else's packets, as the kernel's default does."""
_PRIOMAP = ("1", "2", "2", "2", "1", "2", "0", "0", "1", "1", "1", "1", "1", "1", "1", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shake:
    """One effect on the packets of one port that travel one way, in a band of its own."""

    band: int
    port: int
    way: Direction
    effect: PacketEffect
    interface: str = "lo"


@cache
def is_available() -> tuple[bool, str]:
    """Whether this kernel and user can, and why not."""
    if not may_administer_network():
        return False, "netem needs root (CAP_NET_ADMIN)"
    if reason := why_no_namespace():
        return False, f"it is tried in a network namespace, and none can be made here: {reason}"
    trial = ("unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "duplicate", "1%")
    code, said = ask(trial)
    if code:
        return False, f"this kernel has no tc netem ({said or code}): load sch_netem, or do without"
    return True, "by tc netem"


def open_bands(interface: str) -> None:
    """Put the prio qdisc on; everybody's packets go through it as through the default one."""
    bands = ("bands", str(BANDS), "priomap", *_PRIOMAP)
    run("tc", "qdisc", "add", "dev", interface, "root", "handle", "1:", "prio", *bands)


def close_bands(interface: str) -> bool:
    """Take it off with all that hangs below it; whether it was there. May be done twice.

    FleetError if another queue is there, which nobody here has put on.
    """
    listed = run("tc", "qdisc", "show", "dev", interface, "root").splitlines()
    words = next((line.split() for line in listed), [])
    if words[1:3] != ["prio", "1:"]:
        return False
    if words[-len(_PRIOMAP) - 3 :] != ["bands", str(BANDS), "priomap", *_PRIOMAP]:
        raise FleetError(f"the queue on {interface} is not one of chaoslab's: {' '.join(words)}")
    run("tc", "qdisc", "del", "dev", interface, "root", "handle", "1:", "prio")
    return True


def add(shake: Shake) -> None:
    """From now on; `open_bands` has been called."""
    minor, side = f"{shake.band:x}", "dport" if shake.way is Direction.UP else "sport"
    place = ("dev", shake.interface, "parent", f"1:{minor}", "handle", f"{shake.band}0:")
    run("tc", "qdisc", "add", *place, "netem", *_words(shake.effect))
    match = ("match", "ip", "protocol", "6", "0xff", "match", "ip", side, str(shake.port), "0xffff")
    where = ("dev", shake.interface, "parent", "1:", "protocol", "ip", "prio", str(shake.band))
    run("tc", "filter", "add", *where, "u32", *match, "flowid", f"1:{minor}")


def remove(shake: Shake) -> None:
    """Exactly this band's filter and qdisc."""
    where = ("dev", shake.interface, "parent", "1:", "protocol", "ip", "prio", str(shake.band))
    run("tc", "filter", "del", *where)
    run("tc", "qdisc", "del", "dev", shake.interface, "parent", f"1:{shake.band:x}")


def _words(effect: PacketEffect) -> tuple[str, ...]:
    share = f"{100 * effect.share:g}%"
    match effect:
        case Duplicate():
            return "duplicate", share
        case Corrupt():
            return "corrupt", share
        case Reorder():
            return "delay", f"{1e3 * effect.delay_s:g}ms", "reorder", share
        case _:
            raise PlanError(f"{effect.kind} is not netem's")
