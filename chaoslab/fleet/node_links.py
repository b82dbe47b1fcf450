"""Links of a fleet's nodes: made, reported when something is done to them, and missed when lost.

    Fleet.link ──► NodeLinks ──► Links.create, then the initial effects of the node
    faults ──► Fleet.links[name].shape ──► the link itself ──► LINK_SHAPED
    Fleet.poll ◄── observed ◄── LINK_STARTED, LINK_SHAPED, LINK_CLEARED, LINK_COUNTED,
                              LINK_REMADE, LINK_LOST

It knows no kind of links, no fault and no kind of fleet. A fleet enters `made_by` before its
first node and leaves it after its last one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import (
    LinkCleared,
    LinkCounted,
    LinkLost,
    LinkRemade,
    LinkShaped,
    LinkStarted,
    Payload,
)
from chaoslab.fleet.chores import Chores, taken_out
from chaoslab.links.base import Counters, Link, Links, NoLinks, Remakes
from chaoslab.links.effects import Direction, Effect, Shaping

HARNESS = "harness"
INITIAL = "initial"
"""Stands for an injection in effects that hold from the start, independent of faults."""
_LOOK_S = 0.5
"""Interval of the checks of what carries the links."""
_CARRIER = "the links"
"""Stands for a node in those checks, of which there is one at a time."""


@dataclass(slots=True, kw_only=True)
class NodeLinks:
    """All links of one fleet, by the name of their node."""

    clock: Clock
    made_by: Links = field(default_factory=NoLinks)
    initial_effects: Mapping[str, Sequence[Shaping]] = field(default_factory=dict)
    """Effects of each node's link from the start."""
    is_excused: Callable[[], bool] = lambda: False
    """Whether what is not as it was left is the janitor's work, and no loss."""
    _links: dict[str, "_Reported"] = field(default_factory=dict)
    _observed: list[Observation] = field(default_factory=list)
    _look_s: float = 0.0
    _is_lost: bool = False

    def create(self, name: str, upstream: str) -> Link:
        """A link, with the initial effects of its node on it."""
        link = _Reported(self, self.made_by.create(name, upstream))
        self._links[name] = link
        started = LinkStarted(
            link=name, kind=self.made_by.kind, address=link.address, upstream=upstream
        )
        self.report(started)
        for direction, effect in self.initial_effects.get(name, ()):
            link.shape(INITIAL, direction, effect)
        return link

    @property
    def links(self) -> Mapping[str, Link]:
        return dict(self._links)

    def count(self, name: str) -> None:
        """Report what the node's link has carried, if it has one that counts."""
        link = self._links.get(name)
        counters = self._counters(link) if link else None
        if counters is not None and any(value is not None for value in asdict(counters).values()):
            counted = LinkCounted(
                link=name, up_bytes=counters.up_bytes, down_bytes=counters.down_bytes,
                connections=counters.connections, opened=counters.opened,
                packets=counters.packets, dropped=counters.dropped,
            )  # fmt: skip
            self.report(counted)

    def observed(self, chores: Chores | None = None) -> list[Observation]:
        """Reports since the last call; a chore looks for a loss twice a second, in place if there
        are none. What it finds in the middle of a verb tells nothing.
        """
        chores = chores or Chores()
        if not self._is_lost and self.clock.now_s() >= self._look_s and chores.calm is not None:
            chores.begin([_CARRIER], lambda: self._look_in_calm(chores))
        if isinstance(self.made_by, Remakes):
            for remade in self.made_by.remade():
                streams, reason = remade.streams, remade.reason
                self.report(LinkRemade(link=remade.link, streams=streams, reason=reason))
        return taken_out(self._observed)

    def _look_in_calm(self, chores: Chores) -> None:
        self._look_s = self.clock.now_s() + _LOOK_S
        verbs_before = chores.calm
        troubles = self._troubles()
        if verbs_before is not None and verbs_before == chores.calm:
            self._note_loss(troubles)

    def look(self) -> bool:
        """Whether what carries the links is broken; reports it the first time."""
        return self._note_loss(self._troubles())

    def _troubles(self) -> Sequence[str]:
        return () if self._is_lost or self.is_excused() else self.made_by.troubles()

    def _note_loss(self, troubles: Sequence[str]) -> bool:
        if troubles and not self._is_lost:
            self._is_lost = True
            links, reason = tuple(sorted(self._links)), "; ".join(troubles)
            self.report(LinkLost(kind=self.made_by.kind, links=links, reason=reason))
        return self._is_lost

    def report(self, said: Payload) -> None:
        """Queue an observation about links."""
        self._observed.append(Observation.of(HARNESS, said))

    def _counters(self, link: "_Reported") -> Counters | None:
        try:
            return None if self._is_lost else link.counters()
        except FleetError:
            if self.look():  # it has just died, which is reported by itself
                return None
            raise


class _Reported:
    """A link that reports what is done to it."""

    def __init__(self, node_links: NodeLinks, link: Link) -> None:
        self._node_links, self._link = node_links, link
        self._shaped_by: set[str] = set()

    @property
    def name(self) -> str:
        return self._link.name

    @property
    def address(self) -> str:
        return self._link.address

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        """Shape a link, and report it once it holds."""
        self._link.shape(injection, direction, effect)
        self._shaped_by.add(injection)
        shaped = LinkShaped(
            link=self.name,
            injection=injection,
            direction=direction.value,
            effect=effect.kind,
            settings=asdict(effect),
        )
        self._node_links.report(shaped)

    def clear(self, injection: str) -> None:
        """Clear a link, unless its carrier is lost, and its effects with it."""
        try:
            self._link.clear(injection)
        except FleetError:
            if not self._node_links.look():
                raise
        if injection in self._shaped_by:
            self._shaped_by.discard(injection)
            self._node_links.report(LinkCleared(link=self.name, injection=injection))

    def counters(self) -> Counters:
        return self._link.counters()
