"""Base of faults on links: effects that an injection puts on and takes away.

    inject ──► fleet.links[target].shape(injection, direction, effect)   for each shaping and target
    heal   ──► fleet.links[target].clear(injection)                      for each target

Effects are keyed by the injection, so several such faults may be open on one link and heal apart.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from chaoslab.core.events import Json
from chaoslab.faults.base import OneAct
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.window import EvidenceWindow, Found, evidence_of_each
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import Networked, able
from chaoslab.links.base import Shaping
from chaoslab.plan.model import Injection
from chaoslab.record.journal import History


class LinkFault(OneAct, ABC):
    """A fault on the links of its targets. Subclasses say what they put on and how it is proved."""

    __slots__ = ()

    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.LINK})
    shares_targets: ClassVar[bool] = True

    @abstractmethod
    def shapings(self) -> tuple[Shaping, ...]:
        """What it puts on each link."""

    @abstractmethod
    def requested(self) -> dict[str, Json]:
        """What was asked, in the units and under the keys of what is measured."""

    @abstractmethod
    def look(self, window: EvidenceWindow) -> Found:
        """What the record shows of one target."""

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Shape every target's link."""
        shape_all(injection, fleet, self.shapings())

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Clear every target's link of this injection."""
        clear_all(injection, fleet)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """One piece for each target."""
        requested = {**self.requested(), "for_s": injection.for_s}
        return evidence_of_each(injection, history, self.look, requested)


def shape_all(injection: Injection, fleet: Fleet, shapings: Sequence[Shaping]) -> None:
    """Put all of it on the link of every target, the targets as close together as possible."""
    for direction, effect in shapings:
        for name in injection.targets:
            able(fleet, Networked).links[name].shape(injection.id, direction, effect)


def clear_all(injection: Injection, fleet: Fleet) -> None:
    """Take everything of this injection from the link of every target; safe to repeat."""
    for name in injection.targets:
        able(fleet, Networked).links[name].clear(injection.id)
