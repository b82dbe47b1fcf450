"""Nodes as containers: the fleet `docker`.

    start ──► lives ──► Container (one life) ──► engine
    kill, pause, signals … ──► holding ────────► engine     threads ─► queue ─► poll ─► observations
    what nodes print, how they end, what the engine reports ───────────────┘

Every life is a container of its own on the run's own network, under its node's name; what it keeps
is on a named volume that its next life finds again. A kill ends the whole container. The hooks are
signals to its first process, as with local nodes: SIGUSR1 hang, SIGUSR2 go on, SIGHUP notice,
SIGTERM please leave.

It is used from one thread. The others only carry bytes to the queue on which `poll` waits.
"""

import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.base import Ability, Damage, Fleet, Node, NodeSite, NodeSpec, probed
from chaoslab.fleet.docker import pausing
from chaoslab.fleet.docker.engine.engine import Engine, Limits
from chaoslab.fleet.docker.engine_events import EngineEvents
from chaoslab.fleet.docker.incarnations import Incarnations
from chaoslab.fleet.docker.run_context import CACHE, HEALTH, SHARED, Arrival, RunContext
from chaoslab.fleet.docker.run_resources import RunResources
from chaoslab.fleet.docker.storage import Storages
from chaoslab.fleet.docker.stress_drivers import drivers_of
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import (
    HasVolumes,
    Hookable,
    Networked,
    Notifiable,
    Pausable,
    StoresFiles,
    Stressable,
    Unpluggable,
    Upgradable,
    Wedgeable,
)
from chaoslab.fleet.storage.files import Storage
from chaoslab.fleet.stress.registry import StressRegistry
from chaoslab.fleet.stressors import Stressor
from chaoslab.links.base import Link
from chaoslab.undo.base import UndoLog

SYNCER_PORT: Final = 4600
_ANYWHERE: Final = ("0.0.0.0", "[::]")  # noqa: S104 - what a syncer says, not where we listen
_ARRIVALS_MOST: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What the containers of a run are made of."""

    image: str
    limits: Limits
    releases: Mapping[str, str] = field(default_factory=dict)
    """By the name that a plan uses: other images that a node may be upgraded to."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Folders of this machine that nodes may read, and where they see them."""


class DockerFleet(
    Fleet,
    Pausable,
    Wedgeable,
    Notifiable,
    Hookable,
    Stressable,
    StoresFiles,
    HasVolumes,
    Networked,
    Unpluggable,
    Upgradable,
):
    """A fleet of containers; see `base.Fleet` and `protocols` for what each verb promises."""

    kind = "docker"
    lacking = frozenset({Ability.DUTY_CYCLE})
    """An engine's own limits are one, by the kernel."""
    node_site = NodeSite(
        python="python3",
        listen=f"0.0.0.0:{SYNCER_PORT}",
        snapshots=f"{SHARED}/snapshots",
        tokens=f"{SHARED}/tokens",
        cache=CACHE,
        flags=("--private-network", f"--health-file={HEALTH}"),
    )

    def __init__(
        self,
        run_directory: Path,
        clock: Clock,
        *,
        undo_log: UndoLog,
        engine: Engine,
        setup: Setup,
        node_links: NodeLinks | None = None,
    ) -> None:
        """Logs go below `run_directory`; how to undo is written to `obligations`."""
        self._engine, self._setup, self._clock = engine, setup, clock
        self._node_links = node_links or NodeLinks(clock=clock)
        self._arrivals: queue.Queue[Arrival] = queue.Queue(_ARRIVALS_MOST)
        self._run_context = RunContext(
            run_resources=RunResources(
                engine=engine, run_directory=run_directory.resolve(), undo_log=undo_log
            ),
            clock=clock,
            limits=setup.limits,
            mounts=setup.mounts,
            arrivals=self._arrivals,
        )
        self._stress_registry = StressRegistry(clock=clock, driver=drivers_of(clock))
        self._lives = Incarnations(self._run_context, setup.image, self._stress_registry.hear)
        self._storages = Storages(self._run_context, setup.image)
        self._engine_events: EngineEvents | None = None
        self._is_open = True

    def __enter__(self) -> Self:
        self._run_context.run_resources.open()
        self._engine_events = EngineEvents(self._run_context.run_resources, self._arrivals)
        self._node_links.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End and remove all that was made; FleetError names what could not be."""
        if not self._is_open:
            return
        self._is_open, self._lives.is_closing = False, True
        refused = [
            str(problem)
            for leave in (
                self._lives.end_all,
                self._relieve_all,
                lambda: self._node_links.__exit__(kind, error, trace),
                self._close_estate,
            )
            if (problem := _tried(leave)) is not None
        ]
        if self._engine_events is not None:
            self._engine_events.close()
        self._engine.close()
        if not refused:
            return
        left = FleetError(f"what could not be ended: {'; '.join(dict.fromkeys(refused))}")
        if error is None:
            raise left
        error.add_note(str(left))

    def _relieve_all(self) -> None:
        if failed := self._stress_registry.relieve_all():
            raise FleetError("; ".join(failed))

    def _close_estate(self) -> None:
        self._run_context.run_resources.close()
        self._storages.close()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node ever started or enlisted; `is_alive` until `poll` has noticed its exit."""
        return self._lives.nodes

    # ---------------------------------------------------------------- lives

    def start(self, spec: NodeSpec) -> Node:
        """Start the first incarnation."""
        self.enlist(spec)
        return self.restart(spec.name)

    def enlist(self, spec: NodeSpec) -> Node:
        """Keep how to start it."""
        return self._lives.enlist(spec)

    def restart(self, name: str) -> Node:
        """Create and start the next incarnation's container."""
        self._storage(name)
        return self._lives.restart(name)

    def upgrade(self, name: str, release: str) -> None:
        """The next lives run another image."""
        self._lives.spec(name)
        image = self._setup.releases.get(release, release)
        if self._engine.image_id(image) is None:
            raise FleetError(f"there is no image {image}: build it with `chaoslab images build`")
        self._lives.upgrade(name, image)

    # ---------------------------------------------------------------- what ends and holds it

    def kill(self, *names: str) -> None:
        """All that runs in the containers."""
        self.signal(*names, signal="SIGKILL")

    def signal(self, *names: str, signal: str) -> None:
        """By the engine."""
        lives = [life for name in names if (life := self._lives.latest(name)) is not None]
        for life in lives:
            life.is_ending = True
        pausing.together(lives, lambda life: life.signal(signal))

    def pause(self, *names: str) -> None:
        """The engine freezes the whole container; none if one of them is not running."""
        pausing.pause([self._lives.running(name) for name in names])

    def resume(self, name: str) -> None:
        """Thaw it."""
        if (life := self._lives.latest(name)) is not None:
            pausing.resume(life)

    def wedge(self, name: str) -> None:
        """SIGUSR1."""
        pausing.wedge(self._lives.running(name))

    def unwedge(self, name: str) -> None:
        """SIGUSR2."""
        if (life := self._lives.latest(name)) is not None:
            pausing.unwedge(life)

    def notice(self, name: str) -> None:
        """SIGHUP."""
        self._lives.running(name).signal("SIGHUP")

    def tell(self, name: str, do: str, **facts: Json) -> None:
        """One line on its standard input."""
        self._lives.running(name).tell({"do": do, **facts})

    def unplug(self, name: str) -> None:
        """Take it from the network; what it has open hears nothing of that."""
        pausing.unplug(self._lives.running(name), self._run_context.run_resources)

    def plug(self, name: str) -> None:
        """Connect it again, under its name."""
        if (life := self._lives.latest(name)) is not None:
            pausing.plug(life, self._run_context.run_resources)

    def stress(self, name: str, injection: str, stressor: Stressor) -> None:
        """By the limits of its container, changed while it runs, or by its own hook."""
        self._stress_registry.put(self._lives.running(name), injection, stressor)

    def relieve(self, name: str, injection: str) -> None:
        """It has its limits back."""
        self._lives.spec(name)
        self._stress_registry.relieve(name, injection)

    # ---------------------------------------------------------------- what it keeps

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:
        """In the files on its volume."""
        life = self._lives.latest(name)
        if life is not None and life.is_ending and not life.is_over:
            self._lives.await_end(life)
        self._lives.recorder += self._storage(name).damage(how, every=every)

    def fill_disk(self, name: str) -> None:
        """By the limit of its volume."""
        self._lives.recorder.append(self._storage(name).fill())

    def free_disk(self, name: str) -> None:
        """By the limit of its volume."""
        self._lives.recorder += self._storage(name).free()

    def _storage(self, name: str) -> Storage:
        return self._storages.of(self._lives.spec(name))

    # ---------------------------------------------------------------- seeing

    def probe(self, name: str) -> Observation:
        """The engine's view of the container."""
        life = self._lives.latest(name)
        seen = probed(name, incarnation=0, pid=0) if life is None else life.probe()
        self._node_links.count(name)
        self._stress_registry.count(name)
        return seen

    def link(self, name: str, upstream: str) -> Link:
        """By the links that this fleet was given; the syncer is reached by its name."""
        host, _, port = upstream.rpartition(":")
        if host in _ANYWHERE:
            upstream = f"{self._lives.syncer}:{port}" if self._lives.syncer else upstream
        return self._node_links.create(name, upstream)

    @property
    def links(self) -> Mapping[str, Link]:
        """Every link made."""
        return self._node_links.links

    def poll(self, until_s: float) -> Sequence[Observation]:
        """What nodes reported, which ended, and what the engine says; last lines before the exit.

        FleetError when the engine is gone.
        """
        lives = self._lives
        lives.recorder += self._node_links.recorder()
        lives.recorder += self._stress_registry.recorder(lives.begun)
        while self._is_open and not lives.recorder:
            left_s = until_s - self._clock.now_s()
            lives.wait(max(0.0, left_s))
            if left_s <= 0:
                break
        recorder, lives.recorder = lives.recorder, []
        return recorder


def _tried(leave: Callable[[], None]) -> FleetError | None:
    """What was in the way of one part of leaving; the others are tried all the same."""
    try:
        leave()
    except FleetError as error:
        return error
    return None
