"""Simulated links as a plan names them: `fleet: {links: sim}`, the default of the sim fleet.

    Link.shape, clear ─► Wire of the learner ─► its pipes, its streams
    counters          ◄─┘

What acts on single packets is not simulated, and a plan that asks for it is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from chaoslab.core.errors import AbilityError, HarnessBug
from chaoslab.links.base import Counters, LinksByName
from chaoslab.links.effects import Direction, Effect, LinkAbility
from chaoslab.links.settings import LinksFactory
from chaoslab.sim.wires import Wire
from chaoslab.sim.world import Network

_PACKETS = frozenset(
    {LinkAbility.LOSS, LinkAbility.DUPLICATE, LinkAbility.REORDER, LinkAbility.CORRUPT}
)


@dataclass(frozen=True, slots=True)
class SimLink:
    """The path of one learner to the syncer, of a simulation."""

    name: str
    address: str
    wire: Wire

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        """See `Link.shape`."""
        self.wire.shape(injection, direction, effect)

    def clear(self, injection: str) -> None:
        """See `Link.clear`."""
        self.wire.clear(injection)

    def counters(self) -> Counters:
        """Bytes that arrived at either end."""
        return Counters(
            up_bytes=self.wire.up.carried_bytes,
            down_bytes=self.wire.down.carried_bytes,
            connections=self.wire.connections,
            opened=self.wire.opened,
        )


class SimLinks(LinksByName[SimLink]):
    """All links of a simulated fleet, which attaches its network before it makes one."""

    kind = "sim"
    abilities = frozenset(LinkAbility) - _PACKETS - {LinkAbility.JITTER_SHAPES}

    def __init__(self) -> None:
        super().__init__()
        self._network: Network | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was begun."""

    def attach(self, network: Network) -> None:
        """Attach the network of the fleet that has these links."""
        self._network = network

    def _make(self, name: str, upstream: str) -> SimLink:
        if self._network is None:
            raise HarnessBug("simulated links were asked for before there was a network")
        return SimLink(name, upstream, self._network.wire(name))

    def troubles(self) -> Sequence[str]:
        """Nothing is there that could break."""
        return ()

    def why_not(self, ability: LinkAbility) -> str:
        """Packets are not simulated, nor other distributions than uniform ones."""
        if ability in _PACKETS:
            return "single packets are not simulated; use links: netem on the docker fleet"
        return "delays are drawn uniformly in a simulation; use `distribution: uniform`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Simulated links, of the sim fleet alone."""

    def factory(self, seed: int) -> LinksFactory:  # noqa: ARG002 - the protocol's
        """AbilityError: there are no such links between processes. The sim fleet makes its own."""
        raise AbilityError("links: sim are those of the sim fleet: write `fleet: {kind: sim}`")
