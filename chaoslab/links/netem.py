"""Duplicate, reordered and corrupt packets of one port, by the kernel's `tc netem`.

    prio qdisc on the interface ─► filter: port P ─► band of this effect ─► netem

Packets that suffer the same, of whichever link and way, share a band: since 2025 kernels refuse a
netem that duplicates beside any other one. `is_available` tries it in a network namespace that
vanishes with the trial. Bands and filters are numbered by whoever uses them (see `packets`), one
harness per interface.
"""

from dataclasses import dataclass
from functools import cache

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.links.effects import Corrupt, Direction, Duplicate, PacketEffect, Reorder
from chaoslab.links.kernel import ask, may_administer_network, run, why_no_namespace

BANDS = 16
FIRST_BAND = 4
"""Bands 1 to 3 carry everybody else's packets, as the kernel's default does."""
_PRIOMAP = ("1", "2", "2", "2", "1", "2", "0", "0", "1", "1", "1", "1", "1", "1", "1", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shake:
    """One effect on the packets of one port that travel one way."""

    band: int
    """Where packets with this effect go."""
    number: int
    """Of the filter that leads there; unique."""
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
    if not has_bands(interface):
        return False
    run("tc", "qdisc", "del", "dev", interface, "root", "handle", "1:", "prio")
    return True


def has_bands(interface: str) -> bool:
    """Whether it is on; FleetError as for `close_bands`."""
    listed = run("tc", "qdisc", "show", "dev", interface, "root").splitlines()
    words = next((line.split() for line in listed), [])
    if words[1:3] != ["prio", "1:"]:
        return False
    if words[-len(_PRIOMAP) - 3 :] != ["bands", str(BANDS), "priomap", *_PRIOMAP]:
        raise FleetError(f"the queue on {interface} is not one of chaoslab's: {' '.join(words)}")
    return True


def open_band(shake: Shake) -> None:
    """What happens to the packets in it; `open_bands` has been called."""
    place = ("parent", f"1:{shake.band:x}", "handle", f"{shake.band}0:")
    run("tc", "qdisc", "add", "dev", shake.interface, *place, "netem", *_words(shake.effect))


def close_band(shake: Shake) -> None:
    """Nothing leads there any more."""
    run("tc", "qdisc", "del", "dev", shake.interface, "parent", f"1:{shake.band:x}")


def add(shake: Shake) -> None:
    """From now on its packets go through its band."""
    side = "dport" if shake.way is Direction.UP else "sport"
    match = ("match", "ip", "protocol", "6", "0xff", "match", "ip", side, str(shake.port), "0xffff")
    run("tc", "filter", "add", *_filter(shake), "u32", *match, "flowid", f"1:{shake.band:x}")


def remove(shake: Shake) -> None:
    """Exactly this filter."""
    run("tc", "filter", "del", *_filter(shake))


def _filter(shake: Shake) -> tuple[str, ...]:
    return (
        "dev", shake.interface, "parent", "1:", "protocol", "ip", "prio", str(shake.number),
    )  # fmt: skip


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
