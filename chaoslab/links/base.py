"""The path between a learner and the syncer: the `Link` interface, and the links that do nothing.

    learner ── dials link.address ──► Link ──► upstream: the syncer
                                       ▲
    faults ── shape(injection, direction, effect) / clear(injection)

`Links` makes one link for each learner and owns whatever carries them (a proxy process, rules of
the kernel). Effects are keyed by injection: two faults on one link never heal each other. A kind
of links declares what it can do; a plan that needs more is refused before anything starts. It knows
nothing of faults, plans or journals.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, Self, TypeVar, runtime_checkable

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.links.effects import Direction, Effect, LinkAbility

_HOST_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|\w[\w.-]*):[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of a link since it was made; None where its kind cannot count."""

    up_bytes: int | None = None
    """Handed on to the syncer."""
    down_bytes: int | None = None
    """Handed on to the learner."""
    connections: int | None = None
    """Open connections of learners."""
    opened: int | None = None
    """Connections of learners since the link was made."""
    packets: int | None = None
    """Packets that a Loss has examined; None without a Loss."""
    dropped: int | None = None
    """Packets that it dropped."""


class Link(Protocol):
    """One learner's path to the syncer.

    The verbs return when they are done: the effect holds for every byte that comes later. They
    raise FleetError when the world refuses, PlanError for a direction in which the effect cannot
    act, AbilityError for what the kind of link cannot do.
    """

    @property
    def name(self) -> str:
        """Usually the name of its learner."""
        ...

    @property
    def address(self) -> str:
        """host:port that the learner dials; the same as long as the link exists."""
        ...

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        """Put an effect on the link in that direction.

        The same injection, direction and kind of effect again: its strength changes, and nothing
        else. Another kind or another injection: both act, latencies add up, the least rate counts.
        """
        ...

    def clear(self, injection: str) -> None:
        """Take all effects of this injection away, and no other; safe to repeat."""
        ...

    def counters(self) -> Counters:
        """Counters up to now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Remade:
    """A link that was made anew, as it was to be, because what carried it was stuck."""

    link: str
    streams: int | None
    """Number of the learner's streams that this ended; None if it cannot be counted."""
    reason: str


@runtime_checkable
class Remakes(Protocol):
    """Links that are made anew rather than left stuck."""

    def remade(self) -> Sequence[Remade]:
        """Each time since the last call."""
        ...


class Links(Protocol):
    """All links of a run. A context manager: leaving it ends whatever carries them."""

    @property
    def kind(self) -> str:
        """embedded, toxiproxy, netem, none."""
        ...

    @property
    def abilities(self) -> frozenset[LinkAbility]:
        """Abilities of these links on this machine; known before they are entered."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def create(self, name: str, upstream: str) -> Link:
        """A link to host:port `upstream`, which need not listen yet. FleetError if refused."""
        ...

    @property
    def links(self) -> Mapping[str, Link]:
        """Every link made, by name."""
        ...

    def troubles(self) -> Sequence[str]:
        """One sentence for everything that is broken (the proxy has died); empty: all is well.

        Cheap enough to ask every second.
        """
        ...

    def why_not(self, ability: LinkAbility) -> str:
        """Why it is missing here and what to do about it, as a clause."""
        ...

    def caveats(self, effect: Effect) -> Sequence[str]:
        """Where these links differ from what the effect promises, a sentence each; for previews.

        AbilityError if they can do such a thing, but not with this strength.
        """
        ...


def require(links: Links, direction: Direction, effect: Effect) -> None:
    """AbilityError if these links cannot do it, PlanError if nobody can in that direction.

    Asks nobody and starts nothing, so it can be called before the links are entered.
    """
    if direction not in effect.directions:
        possible = " or ".join(sorted(effect.directions))
        raise PlanError(
            f"{effect.kind} cannot act in direction {direction} alone: use direction: {possible}"
        )
    for ability in sorted(effect.needs - links.abilities):
        raise AbilityError(
            f"links: {links.kind} cannot do {ability} here: {links.why_not(ability)}"
        )
    links.caveats(effect)


LinkT = TypeVar("LinkT", bound=Link)


class LinksByName(ABC, Generic[LinkT]):
    """The part that every kind of `Links` has: links by name, without caveats."""

    def __init__(self) -> None:
        self._links: dict[str, LinkT] = {}

    @property
    def links(self) -> Mapping[str, LinkT]:
        return dict(self._links)

    def create(self, name: str, upstream: str) -> LinkT:
        """See `Links.create`. FleetError if it exists, or `upstream` is not host:port."""
        if name in self._links:
            raise FleetError(f"there is a link for {name} already")
        if not _HOST_PORT.fullmatch(upstream):  # a node reported it, and kernel rules contain it
            raise FleetError(f"the upstream of {name} must be host:port, got {upstream!r}")
        self._links[name] = self._make(name, upstream)
        return self._links[name]

    @abstractmethod
    def _make(self, name: str, upstream: str) -> LinkT:
        """A new link of this name."""

    def caveats(self, effect: Effect) -> Sequence[str]:  # noqa: ARG002 - for those that have some
        """See `Links.caveats`."""
        return ()


# ---------------------------------------------------------------- the links that do nothing


@dataclass(frozen=True, slots=True)
class DirectLink:
    """The learner connects directly to the syncer: effects do nothing, and nobody counts."""

    name: str
    address: str

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        """Does nothing."""

    def clear(self, injection: str) -> None:
        """Does nothing."""

    def counters(self) -> Counters:
        """Counters; none of them is known."""
        return Counters()


class NoLinks(LinksByName[DirectLink]):
    """Learners connect directly to the syncer: no abilities."""

    kind = "none"
    abilities: frozenset[LinkAbility] = frozenset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was begun."""

    def _make(self, name: str, upstream: str) -> DirectLink:
        return DirectLink(name, upstream)

    def troubles(self) -> Sequence[str]:
        """Nothing is there that could break."""
        return ()

    def why_not(self, ability: LinkAbility) -> str:  # noqa: ARG002 - the protocol's signature
        """Nothing: there is no proxy between the learner and the syncer."""
        return "learners reach the syncer directly; use fleet.links: embedded"
