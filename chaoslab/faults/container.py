"""Faults that only a container engine can do: unplug a node, replace it by another release.

Both are proved by two witnesses: what the node and the syncer show, and what the engine itself
reports of its containers, which no fault and no node can write.
"""

from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import EngineReported, NodeStarted
from chaoslab.faults.base import Layer, OneAct
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.silence import look_silent
from chaoslab.faults.evidence.window import (
    EvidenceWindow,
    Found,
    evidence_of_each,
    no_evidence,
    of,
)
from chaoslab.faults.process import start_all
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import Unpluggable, Upgradable, able
from chaoslab.links.base import Direction
from chaoslab.plan.model import Injection
from chaoslab.record.exits import has_code_0, how_it_ended, was_ended_by
from chaoslab.record.journal import History


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDisconnect(OneAct):
    """Take the node off its network, as when a cable is pulled, and plug it in again at the heal.

    Nobody is told: open connections fall silent, and go on if the cable is back soon enough.
    """

    name: ClassVar[str] = "network.disconnect"
    summary: ClassVar[str] = "the container is taken off its network; open sockets hear nothing"
    layer: ClassVar[Layer] = Layer.CONTAINER
    imitates: ClassVar[str] = "a pulled cable or a failed network card"
    proof: ClassVar[str] = "the engine's own report, traffic until then, and none afterwards"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.UNPLUG})
    takes_away: ClassVar[bool] = True

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Disconnect every target from its network."""
        for name in injection.targets:
            able(fleet, Unpluggable).unplug(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Plug every target in again."""
        for name in injection.targets:
            able(fleet, Unpluggable).plug(name)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """Silence both ways, and the engine's word."""
        requested: dict[str, Json] = {"silent": Direction.BOTH.value, "for_s": injection.for_s}
        return evidence_of_each(injection, history, _look_unplugged, requested)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReplace:
    """Ask the node to leave and start its next life from another release: an upgrade.

    What it keeps is on its volume and goes with it.
    """

    image: str = "next"
    """The release: `next`, which `chaoslab images build` makes, or the name of an image."""
    grace_s: float = 6.0
    """How long it has to leave by itself; its next life begins as soon as it has, or is made to."""

    name: ClassVar[str] = "container.replace"
    summary: ClassVar[str] = "leave in order, come back from another image"
    layer: ClassVar[Layer] = Layer.CONTAINER
    imitates: ClassVar[str] = "a rolling upgrade of the software"
    proof: ClassVar[str] = "left with exit code 0; the next life's image is another, by the engine"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.KILL, Ability.UPGRADE})
    takes_away: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.image:
            raise PlanError("`image` names a release: write next, or an image", key="image")
        if self.grace_s < _LOOK_S:
            raise PlanError(f"`grace` is a duration of at least {_LOOK_S:g}s", key="grace")

    def steps(self) -> tuple[float, ...]:
        """When it is looked whether it has left; last, when it must have."""
        looks = int(self.grace_s / _LOOK_S)
        return (*(_LOOK_S * look for look in range(1, looks)), self.grace_s)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Ask every target to leave."""
        for name in injection.targets:
            able(fleet, Upgradable).upgrade(name, self.image)
        fleet.signal(*injection.targets, signal="SIGTERM")

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """Start whoever has left from the other release; at the last step whoever has not, too."""
        is_last = step_index == len(self.steps()) - 1
        for name in injection.targets:
            if is_last or not fleet.nodes[name].is_alive:
                fleet.restart(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start a target that is not there; otherwise nothing is left to do."""
        start_all(injection, fleet)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """How it left, and what its next life runs."""
        return evidence_of_each(injection, history, self._look, {"image": self.image})

    def _look(self, window: EvidenceWindow) -> Found:
        exited, restarted = window.exited, window.restarted
        before = next(reversed(of(window.before, NodeStarted)), None)
        if window.incarnation is None or before is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None or restarted is None:
            return no_evidence(Code.NOT_RESTARTED, "was not replaced before the fault ended")
        old, new = before.payload.image_id, restarted.payload.image_id
        if new is None or old == new:
            return no_evidence(Code.NO_EFFECT, "came back from the same image", image_id=new)
        if not any(was_ended_by(exited, signal) for signal in ("SIGTERM", "SIGKILL")):
            text = f"crashed ({how_it_ended(exited)}) instead of leaving"
            return no_evidence(Code.EXITED_INSTEAD, text)
        has_left = has_code_0(exited)
        return Found(
            code=Code.AS_ASKED if has_left else Code.NOT_ORDERLY,
            text=f"{'left in order' if has_left else f'ended ({how_it_ended(exited)})'} and came "
            f"back {restarted.time_s - exited.time_s:.1f} s later from another image",
            measured={
                "image_id": new,
                "image_id_before": old,
                "left_by_itself": has_left,
                "down_s": restarted.time_s - exited.time_s,
            },
            proof=(before, exited, restarted, reported(window, "die")),
        )


_LOOK_S = 0.5
"""How often it is looked whether a node that was asked to leave has left."""


def reported(window: EvidenceWindow, action: str) -> Event[EngineReported] | None:
    """What the engine itself reported of the target while the fault was upon it."""
    return window.first(EngineReported, lambda e: e.payload.action == action)


def _look_unplugged(window: EvidenceWindow) -> Found:
    unplugged = reported(window, "disconnect")
    if window.incarnation is None:
        return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
    if unplugged is None:
        text = "was taken off no network, as far as the engine reports"
        return no_evidence(Code.NOT_APPLIED, text)
    silent = look_silent(window, Direction.BOTH)
    return Found(
        code=silent.code,
        text=f"was taken off its network, by the engine's word, and {silent.text}",
        measured=silent.measured,
        proof=(unplugged, *silent.proof),
    )
