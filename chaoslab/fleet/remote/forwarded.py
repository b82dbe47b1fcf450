"""Verbs of faults on other hosts, each forwarded as it is to the host agents concerned.

pause("learner-0") ──► _forward("pause", "learner-0") ──► agent: the local fleet's own verb
"""

from abc import abstractmethod

from chaoslab.core.events import Json
from chaoslab.fleet.base import Damage
from chaoslab.fleet.nodes.arrivals import all_or_none
from chaoslab.fleet.protocols import (
    HasVolumes,
    Hookable,
    LosesPower,
    Notifiable,
    Pausable,
    Preparable,
    StoresFiles,
    Stressable,
    Wedgeable,
)
from chaoslab.fleet.remote.protocol.messages import from_stressor
from chaoslab.fleet.stressors import Stressor


class ForwardsVerbs(
    Pausable,
    Preparable,
    Wedgeable,
    Notifiable,
    Hookable,
    Stressable,
    StoresFiles,
    HasVolumes,
    LosesPower,
):
    """Verbs of an agent, as in `protocols`."""

    @abstractmethod
    def _forward(self, verb: str, /, *names: str, **settings: Json) -> None:
        """Have a verb carried out on the hosts of these nodes, side by side."""

    def prepare(self, *names: str, to_pause: bool = False) -> None:
        self._forward("prepare", *names, to_pause=to_pause)

    def unprepare(self, *names: str) -> None:
        self._forward("unprepare", *names)

    def pause(self, *names: str) -> None:
        all_or_none(lambda: self._forward("pause", *names), self.resume, names)

    def resume(self, name: str) -> None:
        self._forward("resume", name)

    def wedge(self, name: str) -> None:
        self._forward("wedge", name)

    def unwedge(self, name: str) -> None:
        self._forward("unwedge", name)

    def notice(self, name: str) -> None:
        self._forward("notice", name)

    def tell(self, name: str, do: str, **facts: Json) -> None:
        self._forward("tell", name, do=do, facts=facts)

    def stress(self, name: str, injection: str, stressor: Stressor) -> None:
        self._forward("stress", name, injection=injection, stressor=from_stressor(stressor))

    def relieve(self, name: str, injection: str) -> None:
        self._forward("relieve", name, injection=injection)

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:
        self._forward("damage", name, how=how.value, every=every)

    def fill_disk(self, name: str) -> None:
        self._forward("fill_disk", name)

    def free_disk(self, name: str) -> None:
        self._forward("free_disk", name)

    def cut_power(self, name: str) -> None:
        self._forward("cut_power", name)
