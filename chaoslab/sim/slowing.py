"""Slowness of simulated nodes: each step takes longer by the largest factor in force."""

from dataclasses import asdict

from chaoslab.core.errors import HarnessBug
from chaoslab.core.payloads import NodeRelieved, NodeStressed
from chaoslab.fleet.stressors import Slowness, Stressor
from chaoslab.sim.lives import Lives, Place
from chaoslab.sim.world import World


class Slowing:
    """Stressors of one fleet; other kinds than `Slowness` are refused before a run."""

    def __init__(self, world: World, lives: Lives) -> None:
        self._world, self._lives = world, lives

    def stress(self, name: str, injection: str, stressor: Stressor) -> None:
        """See `Stressable.stress`."""
        self._lives.living(name)
        if not isinstance(stressor, Slowness):
            raise HarnessBug(f"{stressor.kind} is not simulated, and it was not asked for before")
        place = self._lives.place(name)
        place.slowness[injection] = stressor.factor
        _slow(place)
        stressed = NodeStressed(
            node=name,
            incarnation=place.incarnation,
            injection=injection,
            stressor=stressor.kind,
            mechanism="simulated: each step takes longer",
            settings=asdict(stressor),
        )
        self._world.report(name, stressed)

    def relieve(self, name: str, injection: str) -> None:
        """See `Stressable.relieve`."""
        place = self._lives.place(name)
        if place.slowness.pop(injection, None) is None:
            return
        _slow(place)
        relieved = NodeRelieved(
            node=name,
            incarnation=place.incarnation,
            injection=injection,
            stressor=Slowness.kind,
            because="",
        )
        self._world.report(name, relieved)


def _slow(place: Place) -> None:
    if place.process is not None:
        factor = max(place.slowness.values(), default=1.0)
        place.process.tell("slow", {"factor": factor})
