"""Undo of packet rules in this machine's kernel, rules that a run left, and what the kernel can do.

drop_rules    rules of iptables, by their comment
close_bands   the queueing discipline of an interface, which only an undo log knows: it has no
name of ours
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.links.netem import bands, kernel, netfilter
from chaoslab.links.netem.packet_rules import INTERFACES, UNDO_BANDS, UNDO_DROPS, comments_of
from chaoslab.undo.facts import Facts, require
from chaoslab.undo.halt import find_runs
from chaoslab.undo.log import open_undos
from chaoslab.undo.verbs import (
    Examined,
    Healed,
    Leftover,
    Maintenance,
    UndoEntry,
    Verb,
    missing,
    ok,
)

_LABEL = "chaoslab:"
"""Beginning of the comment of every rule of chaoslab."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts(Facts):
    """Packet rules with this comment."""

    tool: str
    comment: str

    def __post_init__(self) -> None:
        require(self.tool == netfilter.Iptables.tool, f"no tool for rules is called {self.tool!r}")
        require(
            comments_of(self.directory).fullmatch(self.comment) is not None,
            f"a rule with the comment {self.comment!r} is not one of this run",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BandFacts(Facts):
    """The queues on one interface."""

    interface: str

    def __post_init__(self) -> None:
        require(self.interface in INTERFACES, f"no run has queues on {self.interface!r}")


def _drop_rules(facts: RuleFacts) -> Healed:
    """Remove exactly these rules; FleetError if the kernel refuses."""
    what = _rules(facts)
    netfilter.Iptables().remove(facts.comment)
    return Healed(actions=tuple(f"{one}, removed" for one in what))


def _rules(facts: RuleFacts) -> tuple[str, ...]:
    is_there = netfilter.Iptables().count(facts.comment) > 0
    return (f"rules of the kernel for packets ({facts.comment})",) if is_there else ()


def _close_bands(facts: BandFacts) -> Healed:
    """Remove the queues of an interface; FleetError if the kernel refuses or they are not ours."""
    what = _bands(facts)
    bands.close_bands(facts.interface)
    return Healed(actions=tuple(f"{one}, removed" for one in what))


def _bands(facts: BandFacts) -> tuple[str, ...]:
    is_there = bands.has_bands(facts.interface)
    return (f"queues of the kernel for packets ({facts.interface})",) if is_there else ()


# ---------------------------------------------------------------- leftovers


def _unnamed_rules(runs_root: Path) -> Iterator[Leftover]:
    """Rules of iptables with the label that no undo log names; only root sees any."""
    if not kernel.may_administer_network():
        return
    named = {
        str(entry.facts.get("comment")) for run in find_runs(runs_root) for entry in _legible(run)
    }
    code, listed = kernel.ask(("iptables", "-S", "INPUT"))
    for line in listed.splitlines() if code == 0 else ():
        words = shlex.split(line)
        comment = next((word for word in words if word.startswith(_LABEL)), None)
        if comment is not None and comment not in named:
            yield Leftover(what=f"a rule for packets ({comment})", where="iptables, INPUT",
                          remedy=f"iptables -D {shlex.join(words[1:])}")  # fmt: skip


def _legible(run: Path) -> tuple[UndoEntry, ...]:
    try:
        return open_undos(run)
    except FleetError:  # which `undo.leftovers` tells
        return ()


# ---------------------------------------------------------------- what this machine can do


def _diagnose() -> Iterator[Examined]:
    """Found by trying, with rules that vanish with their namespace or are removed at once."""
    if why_not := kernel.why_no_namespace():
        how = f"rules for packets are tried in place, and taken back: {why_not}"
        yield missing("namespaces", how)
    else:
        yield ok("namespaces", "a network of its own can be made to try rules for packets in")
    can, how = netfilter.is_available()
    if can:
        yield ok("packet loss", f"{how}, for network.packets")
    else:
        yield missing("packet loss", f"network.packets is refused: {how}")
    can, how = bands.is_available()
    if can:
        yield ok("tc netem", "duplicated, reordered and corrupt packets")
    else:
        yield missing("tc netem", f"no duplicated, reordered or corrupt packets: {how}")


MAINTENANCE = Maintenance(
    verbs={
        UNDO_DROPS: Verb(
            facts=RuleFacts,
            undo=_drop_rules,
            left=_rules,
            is_safe_during_run=True,
            ends_with_boot=True,
        ),
        UNDO_BANDS: Verb(facts=BandFacts, undo=_close_bands, left=_bands, ends_with_boot=True),
    },
    leftovers=_unnamed_rules,
    diagnose=_diagnose,
)
