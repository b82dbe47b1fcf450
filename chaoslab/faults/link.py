"""Base of faults on links: effects that an injection puts on and takes away.

    inject ──► fleet.links[target].shape(injection, direction, effect)   for each shaping and target
    heal   ──► fleet.links[target].clear(injection)                      for each target

Effects are keyed by the injection, so several such faults may be open on one link and heal apart.
"""

from abc import abstractmethod
from collections.abc import Sequence

from chaoslab.faults.base import BaseFault, Layer
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import Networked, able
from chaoslab.links.base import Direction, Effect, Shaping
from chaoslab.plan.model import Injection


class LinkFault(BaseFault):
    """A fault on the links of its targets. Subclasses say what they put on and how it is proved."""

    __slots__ = ()

    layer = Layer.STREAM
    needs = frozenset({Ability.LINK})
    shares_targets = True
    duration_key = "for_s"

    def __post_init__(self) -> None:
        self.shapings()  # an effect that cannot be is refused when the plan is read

    @abstractmethod
    def shapings(self) -> tuple[Shaping, ...]:
        """What it puts on each link."""

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Shape every target's link."""
        shape_all(injection, fleet, self.shapings())

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Clear every target's link of this injection."""
        clear_all(injection, fleet)


class OneEffect(LinkFault):
    """A fault that puts one effect on each link, in each direction that is asked for."""

    __slots__ = ()
    direction: Direction

    @property
    @abstractmethod
    def effect(self) -> Effect:
        """The effect; PlanError for settings of which none can be made."""

    def shapings(self) -> tuple[Shaping, ...]:
        """The effect, each way that is asked for."""
        return ((self.direction, self.effect),)


def shape_all(injection: Injection, fleet: Fleet, shapings: Sequence[Shaping]) -> None:
    """Put all of it on the link of every target, the targets as close together as possible."""
    for direction, effect in shapings:
        for name in injection.targets:
            able(fleet, Networked).links[name].shape(injection.id, direction, effect)


def clear_all(injection: Injection, fleet: Fleet) -> None:
    """Take everything of this injection from the link of every target; safe to repeat."""
    for name in injection.targets:
        able(fleet, Networked).links[name].clear(injection.id)
