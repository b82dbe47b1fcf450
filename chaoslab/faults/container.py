"""Faults that only a container engine can do: disconnect a node, replace it by another release.

Both are proved by two witnesses: what the node and the syncer show, and what the engine itself
reports of its containers, which no fault and no node can write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import EngineReported, LinkCounted, NodeStarted
from chaoslab.core.units import Duration, delay, elapsed
from chaoslab.faults.actions import AsksToLeave
from chaoslab.faults.base import BaseFault, Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import FRESH_S
from chaoslab.faults.evidence.silence import look_silent
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of
from chaoslab.faults.process import Signal
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import Disconnectable, Upgradable, able
from chaoslab.links.effects import Direction
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended, was_ended_by

_BEFORE_S: Final = 15.0
"""Time before a fault in which a script's traffic is measured; the engine counts once a second."""
_IDLE_BYTES_PER_S: Final = 100.0
"""What an interface that nobody uses carries: neighbours that look for each other, broadcasts."""
_FEW: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDisconnect(BaseFault):
    """Take the node off its network, as when a cable is pulled, and connect it again at the heal.

    No process is told: open connections fall silent, and go on if the cable is back soon enough.
    """

    name = "network.disconnect"
    summary = "disconnect the container from its network; open sockets receive nothing"
    layer = Layer.CONTAINER
    imitates = "a pulled cable or a failed network card"
    proof = "the engine's own report, traffic until then, and none afterwards"
    needs = frozenset({Ability.DISCONNECT})
    takes_away = True
    duration_key = "for_s"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Disconnect every target from its network."""
        for name in injection.targets:
            able(fleet, Disconnectable).disconnect(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Connect every target again."""
        for name in injection.targets:
            able(fleet, Disconnectable).reconnect(name)

    def requested(self) -> Mapping[str, Json]:
        return {"silent": Direction.BOTH.value}

    def look(self, window: EvidenceWindow) -> Found:
        """Silence both ways, and the engine's report of the disconnection."""
        disconnected = reported(window, "disconnect")
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if disconnected is None:
            text = "was not disconnected from a network, as far as the engine reports"
            return no_evidence(Code.NOT_APPLIED, text)
        if window.has_syncer:
            silent = look_silent(window, Direction.BOTH)
        else:
            silent = _look_unplugged(window, disconnected)
        return Found(
            code=silent.code,
            text=f"was disconnected from its network, as the engine reports, and {silent.text}",
            measured=silent.measured,
            proof=(disconnected, *silent.proof),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReplace(AsksToLeave):
    """Ask the node to leave and start its next life from another release: an upgrade.

    What it keeps is on its volume and goes with it.
    """

    image: str = "next"
    """The release: `next`, which `chaoslab doctor images build` makes, or the name of an image."""
    grace_s: Duration = 6.0
    """Time to leave by itself; its next life begins as soon as it has, or is made to."""

    name = "container.replace"
    summary = "leave in order, come back from another image"
    layer = Layer.CONTAINER
    imitates = "a rolling upgrade of the software"
    proof = "left with exit code 0; the next life's image is another, by the engine"
    needs = frozenset({Ability.KILL, Ability.UPGRADE})
    look_s: ClassVar[float] = 0.5

    def __post_init__(self) -> None:
        if not self.image:
            raise PlanError("`image` names a release: write next, or an image", key="image")
        self.require_grace()

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Ask every target to leave."""
        for name in injection.targets:
            able(fleet, Upgradable).upgrade(name, self.image)
        fleet.signal(*injection.targets, signal=Signal.SIGTERM)

    def requested(self) -> Mapping[str, Json]:
        return {"image": self.image}

    def look(self, window: EvidenceWindow) -> Found:
        """Its exit, and the image of its next life."""
        exited, restarted = window.exited, window.restarted
        before = next(reversed(of(window.before, NodeStarted)), None)
        if window.incarnation is None or before is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None or restarted is None:
            return no_evidence(Code.NOT_RESTARTED, "was not replaced before the fault ended")
        old, new = before.payload.image_id, restarted.payload.image_id
        if new is None or old == new:
            return no_evidence(Code.NO_EFFECT, "came back from the same image", image_id=new)
        if not any(was_ended_by(exited, signal) for signal in (Signal.SIGTERM, Signal.SIGKILL)):
            text = f"crashed ({how_it_ended(exited)}) instead of leaving"
            return no_evidence(Code.EXITED_INSTEAD, text)
        has_left = exited.payload.exit_code == 0
        return Found(
            code=Code.AS_ASKED if has_left else Code.NOT_ORDERLY,
            text=f"{'left in order' if has_left else f'ended ({how_it_ended(exited)})'} and came "
            f"back {delay(restarted.time_s - exited.time_s, '{} later')} from another image",
            measured={
                "image_id": new,
                "image_id_before": old,
                "left_by_itself": has_left,
                "down_s": restarted.time_s - exited.time_s,
            },
            proof=(before, exited, restarted, reported(window, "die")),
        )


def _look_unplugged(window: EvidenceWindow, disconnected: Event[EngineReported]) -> Found:
    """Silence of a script by the engine's counts of its container's network: they grew both ways
    until then, and then there was none, or none that grew.
    """
    ended = window.exited
    end_s = window.end_s if ended is None else ended.time_s
    since_s, settled_s = window.begin_s - _BEFORE_S, disconnected.time_s + FRESH_S
    counts = [e for e in (*window.before, *window.during) if e.kind is Kind.LINK_COUNTED]
    before = [e for e in of(counts, LinkCounted) if since_s <= e.time_s <= window.begin_s]
    after = [e for e in of(counts, LinkCounted) if settled_s < e.time_s <= end_s]
    if len(before) < _FEW:
        text = "had no counts of its network when the fault began"
        return no_evidence(Code.NO_BASELINE, text)
    took_s = before[-1].time_s - before[0].time_s
    grown = {way.value: _grown(before, way) / took_s for way in Direction.BOTH.ways}
    measured: dict[str, Json] = {f"usual_{way}_bytes_per_s": rate for way, rate in grown.items()}
    if min(grown.values()) < _IDLE_BYTES_PER_S:
        told = ", ".join(f"{rate:,.0f} {way}" for way, rate in grown.items())
        text = f"had carried next to nothing when the fault began ({told} bytes a second)"
        return no_evidence(Code.NO_TRAFFIC_BEFORE, text, **measured)
    if not after or end_s - after[-1].time_s > FRESH_S:
        return no_evidence(Code.NO_LINK_REPORT, "had no counts of its network at its end")
    if any(_grown(after, way) for way in Direction.BOTH.ways):
        return no_evidence(Code.NO_EFFECT, "sent or got bytes all the same", **measured)
    silent_s = end_s - disconnected.time_s
    return Found(
        code=window.lasted(silent_s),
        text=f"sent and got nothing for {elapsed(silent_s)}",
        measured={**measured, "silent_s": silent_s},
        proof=(before[-1], after[-1]),
    )


def _grown(counts: Sequence[Event[LinkCounted]], way: Direction) -> int:
    """Bytes between the first and the last count; one without an interface is none."""
    key = f"{way.value}_bytes"
    known = [found for e in counts if (found := getattr(e.payload, key)) is not None]
    return sum(max(0, later - earlier) for earlier, later in pairwise(known))


def reported(window: EvidenceWindow, action: str) -> Event[EngineReported] | None:
    """Events that the engine reported of the target during the fault."""
    return window.first(EngineReported, lambda e: e.payload.action == action)


def reported_of_life(window: EvidenceWindow, action: str) -> Event[EngineReported] | None:
    """The same of the life that the fault met: an earlier one of its pods may go meanwhile."""
    return window.first(
        EngineReported,
        lambda e: e.payload.action == action and e.payload.incarnation == window.incarnation,
    )
