"""The book of a run's nodes: each with its latest life, and what has arrived from all of them.

    restart ─► Container (the next life) ─ bytes, ends ─┐
    what the engine reports ────────────────────────────┴► queue ─► wait ─► news

It is used from one thread. The others only carry bytes to the queue on which `wait` waits.
"""

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.fleet.base import Node, NodeSpec, Role, gone, known_already
from chaoslab.fleet.docker.container import Container
from chaoslab.fleet.docker.engine.engine import Missing
from chaoslab.fleet.docker.pausing import together
from chaoslab.fleet.docker.run_context import Arrival, RunContext

_PATIENCE_S: Final = 0.5
"""How long `restart` lets a node that was told to end do so by itself."""
_LAST_S: Final = 20.0
_BATCH: Final = 2048
"""So many arrivals are taken in before somebody else has a turn."""


class Incarnations:
    """All nodes, by name. Verbs on an unknown name raise KeyError."""

    def __init__(
        self, run_context: RunContext, image: str, hear: Callable[[Sequence[Observation]], None]
    ) -> None:
        """`hear` is told at once what nodes say."""
        self.recorder: list[Observation] = []
        """What nobody was told yet."""
        self.is_closing = False
        """That the engine breaks off is no surprise any more."""
        self._run_context, self._image, self._hear = run_context, image, hear
        self._specs: dict[str, NodeSpec] = {}
        self._images: dict[str, str] = {}
        self._latest: dict[str, Container] = {}

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node ever enlisted; `is_alive` until its exit was noticed."""
        return {name: self.node(name) for name in self._specs}

    @property
    def begun(self) -> Sequence[Container]:
        """The latest life of everybody who has lived."""
        return tuple(self._latest.values())

    @property
    def syncer(self) -> str:
        """The name of the syncer; empty if there is none."""
        found = (spec.name for spec in self._specs.values() if spec.role is Role.SYNCER)
        return next(found, "")

    def node(self, name: str) -> Node:
        """A node as it is known now."""
        spec, life = self._specs[name], self._latest.get(name)
        known = gone(spec)
        if life is None:
            return known
        return replace(known, incarnation=life.incarnation, is_alive=not life.is_over)

    def spec(self, name: str) -> NodeSpec:
        """How it is started."""
        return self._specs[name]

    def latest(self, name: str) -> Container | None:
        """Its latest life; None for a node that has not lived."""
        self._specs[name]
        return self._latest.get(name)

    def running(self, name: str) -> Container:
        """FleetError if it is not."""
        life = self.latest(name)
        if life is None or life.has_exited:
            raise FleetError(f"{name} is not running")
        return life

    # ---------------------------------------------------------------- beginning and ending

    def enlist(self, spec: NodeSpec) -> Node:
        """Keep how to start it."""
        if spec.name in self._specs:
            raise known_already(spec)
        self._specs[spec.name] = spec
        return self.node(spec.name)

    def restart(self, name: str) -> Node:
        """Create and start the next incarnation's container, unless it lives and is to live."""
        life = self.latest(name)
        if life is not None and not life.is_over:
            if not life.is_ending and not life.has_exited:
                return self.node(name)
            self.await_end(life)
        incarnation = life.incarnation + 1 if life else 1
        image = self._images.get(name, self._image)
        self._latest[name] = Container(self._specs[name], incarnation, image, self._run_context)
        self.recorder.append(self._latest[name].started())
        return self.node(name)

    def upgrade(self, name: str, image: str) -> None:
        """Its next lives run another image."""
        self._specs[name]
        self._images[name] = image

    def await_end(self, life: Container) -> None:
        """Let a node that was told to end do so, then end it; its last words become news."""
        with suppress(Missing):
            life.engine.unpause(life.name)
        self._wait_for([life], _PATIENCE_S)
        if not life.is_over:
            life.signal("SIGKILL")
            self._wait_for([life], _LAST_S)
        if not life.is_over:
            raise FleetError(f"{life.spec.name} (container {life.name}) cannot be ended")

    def end_all(self) -> None:
        """Kill everybody, and take in their last words."""
        alive = [life for life in self.begun if not life.is_over]
        try:
            together(alive, lambda life: life.signal("SIGKILL"))
            self._wait_for(alive, _LAST_S)
        finally:
            for life in self.begun:
                life.abandon()

    # ---------------------------------------------------------------- waiting

    def wait(self, limit_s: float) -> None:
        """Take in what is there, after waiting for the first of it. FleetError: no engine."""
        arrivals = self._run_context.arrivals
        try:
            arrival = arrivals.get(timeout=limit_s) if limit_s else arrivals.get_nowait()
        except queue.Empty:
            return
        for _ in range(_BATCH):
            self._take(arrival)
            try:
                arrival = arrivals.get_nowait()
            except queue.Empty:
                return
        self._take(arrival)

    def _wait_for(self, lives: Sequence[Container], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while any(not life.is_over for life in lives) and time.monotonic() < deadline:
            self.wait(0.05)

    def _take(self, arrival: Arrival) -> None:
        if arrival.error is not None and not self.is_closing:
            raise arrival.error
        said = arrival.observe()
        self._hear(said)
        self.recorder += said
