"""Faults on whole regions: the links and the processes of the targets at once.

A plan names the region as its target: `target: {region: eu}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LinkCounted, LinkShaped
from chaoslab.faults.actions import EndsProcess, clear_all, shape_all, start_all
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import openings, worst
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.faults.process import Signal, death
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.links.effects import Direction, Refuse, Shaping
from chaoslab.plan.model import Injection
from chaoslab.record.exits import was_ended_by


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionOutage(EndsProcess):
    """A region fails: its links refuse all connections, and its processes are killed.

    Healed, the links come first; the nodes start again as their next incarnations.
    """

    name = "region.outage"
    summary = "a whole region fails: links and processes at once"
    imitates = "the loss of a zone or region: its processes and, together, its links"
    proof = "exit by SIGKILL, and a link without connections meanwhile"
    needs = frozenset({Ability.KILL, Ability.LINK})
    duration_key = "down_s"
    shares_targets = False

    def shapings(self) -> tuple[Shaping, ...]:
        """Both directions refuse connections."""
        return ((Direction.BOTH, Refuse()),)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Cut all links, then kill all processes."""
        shape_all(injection, fleet, self.shapings())
        for name in injection.targets:
            fleet.kill(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Clear all links, then start all processes."""
        clear_all(injection, fleet)
        start_all(injection, fleet)

    def requested(self) -> Mapping[str, Json]:
        return {"connections": 0}

    def look(self, window: EvidenceWindow) -> Found:
        """The end of each process, and what its link did meanwhile."""
        exited = window.exited
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None or not was_ended_by(exited, Signal.SIGKILL):
            return no_evidence(Code.NOT_KILLED, "was not killed")
        return worst([death(window, exited), _look_at_link(window)])


def _look_at_link(window: EvidenceWindow) -> Found:
    """Finding about its link: whether all counters and uses show it cut."""
    cut = window.first(LinkShaped)
    counted = window.of(LinkCounted)
    if cut is None:
        return no_evidence(Code.NOT_APPLIED, "had a link that was never cut")
    opened, carried = openings(window), _carried(counted)
    connections = counted[-1].payload.connections if counted else None
    is_dark = not (opened or carried or connections)
    return Found(
        code=Code.AS_ASKED if is_dark else Code.WORKED_MEANWHILE,
        text="had a dark link" if is_dark else "had a link that was still in use",
        measured={"connections": connections, "streams_opened": len(opened)},
        proof=(cut, *counted[-1:], *opened[:1]),
    )


def _carried(counted: list[Event[LinkCounted]]) -> bool:
    """Whether the link's own counters went on from the first count to the last."""
    return len({(event.payload.up_bytes, event.payload.down_bytes) for event in counted}) > 1
