"""Duplicate, reordered and corrupt packets of one port, by the kernel's `tc netem`.

    prio qdisc on the interface ─► filter: port P ─► band of this effect ─► netem

Packets with the same effect, of any link and direction, share a band: since 2025 kernels refuse a
netem that duplicates next to another one. `is_available` tries it in a temporary network namespace.
The caller (`packet_rules`) numbers bands and filters; one harness per interface.
"""

from dataclasses import dataclass
from functools import cache

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.links.effects import Corrupt, Direction, Duplicate, PacketEffect, Reorder
from chaoslab.links.netem.kernel import ask, may_administer_network, run, why_no_namespace

BANDS = 16
FIRST_BAND = 4
"""Bands 1 to 3 carry all other packets, as the kernel's default does."""
_PRIOMAP = ("1", "2", "2", "2", "1", "2", "0", "0", "1", "1", "1", "1", "1", "1", "1", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetemRule:
    """One effect on the packets of one port in one direction."""

    band: int
    """Band for packets with this effect."""
    number: int
    """Number of the filter that selects the packets; unique."""
    port: int
    way: Direction
    effect: PacketEffect
    interface: str = "lo"


@cache
def is_available() -> tuple[bool, str]:
    """Whether this kernel and user can use netem, and why not."""
    if not may_administer_network():
        return False, "netem needs root (CAP_NET_ADMIN)"
    if reason := why_no_namespace():
        return False, f"netem: no network namespace can be created to try it: {reason}"
    trial = ("unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "duplicate", "1%")
    code, said = ask(trial)
    if code:
        return False, f"this kernel has no tc netem ({said or code}): load the module sch_netem"
    return True, "by tc netem"


def open_bands(interface: str) -> None:
    """Add the prio qdisc; other packets pass it as they pass the default one."""
    bands = ("bands", str(BANDS), "priomap", *_PRIOMAP)
    run("tc", "qdisc", "add", "dev", interface, "root", "handle", "1:", "prio", *bands)


def close_bands(interface: str) -> bool:
    """Remove the qdisc with everything below it; whether it was there. May be repeated.

    FleetError if another qdisc is there, which chaoslab did not add.
    """
    if not has_bands(interface):
        return False
    run("tc", "qdisc", "del", "dev", interface, "root", "handle", "1:", "prio")
    return True


def has_bands(interface: str) -> bool:
    """Whether the qdisc is there; FleetError as for `close_bands`."""
    listed = run("tc", "qdisc", "show", "dev", interface, "root").splitlines()
    words = next((line.split() for line in listed), [])
    if words[1:3] != ["prio", "1:"]:
        return False
    if words[-len(_PRIOMAP) - 3 :] != ["bands", str(BANDS), "priomap", *_PRIOMAP]:
        raise FleetError(f"{interface}: the qdisc is not one of chaoslab's: {' '.join(words)}")
    return True


def open_band(rule: NetemRule) -> None:
    """Add the netem of a band unless it is there; `open_bands` was called before."""
    if not _has_band(rule):
        place = ("parent", f"1:{rule.band:x}", "handle", _handle(rule))
        run("tc", "qdisc", "add", "dev", rule.interface, *place, "netem", *_words(rule.effect))


def close_band(rule: NetemRule) -> None:
    """Remove the netem of a band that no filter uses. May be repeated."""
    if _has_band(rule):
        run("tc", "qdisc", "del", "dev", rule.interface, "parent", f"1:{rule.band:x}")


def add(rule: NetemRule) -> None:
    """Add the filter that sends packets through the band."""
    side = "dport" if rule.way is Direction.UP else "sport"
    match = ("match", "ip", "protocol", "6", "0xff", "match", "ip", side, str(rule.port), "0xffff")
    run("tc", "filter", "add", *_filter(rule), "u32", *match, "flowid", f"1:{rule.band:x}")


def remove(rule: NetemRule) -> None:
    """Remove this filter only. May be repeated."""
    if run("tc", "filter", "show", *_filter(rule)).strip():
        run("tc", "filter", "del", *_filter(rule))


def _has_band(rule: NetemRule) -> bool:
    listed = run("tc", "qdisc", "show", "dev", rule.interface).splitlines()
    return ["netem", _handle(rule)] in [line.split()[1:3] for line in listed]


def _handle(rule: NetemRule) -> str:
    return f"{rule.band}0:"


def _filter(rule: NetemRule) -> tuple[str, ...]:
    return (
        "dev", rule.interface, "parent", "1:", "protocol", "ip", "prio", str(rule.number),
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
            raise PlanError(f"{effect.kind}: not an effect of netem")
