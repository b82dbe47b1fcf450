"""Nodes as containers: the fleet `docker`.

    start ──► Container (one incarnation) ──► engine
    kill, pause, signals … ─────────────────► engine     threads ─► queue ─► poll ─► observations
    what nodes print, how they end, what the engine reports ───────────────┘

Every incarnation is a container of its own on the run's own network, under its node's name; what a
node keeps is on a named volume that its next incarnation finds again. A kill ends the whole
container. The hooks are signals to its first process, as with local nodes: SIGUSR1 hang, SIGUSR2 go
on, SIGHUP notice, SIGTERM please leave.

Other threads only carry bytes to the queue on which `poll` waits.
"""

import queue
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Self

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import EngineReported
from chaoslab.fleet.base import Ability, NodeSite, NodeSpec
from chaoslab.fleet.docker import stress_drivers
from chaoslab.fleet.docker.container import Container
from chaoslab.fleet.docker.engine.engine import Engine
from chaoslab.fleet.docker.engine_events import EngineEvents, OfRun
from chaoslab.fleet.docker.run_context import CACHE, HEALTH, SHARED, RunContext, Setup
from chaoslab.fleet.docker.run_resources import RunResources
from chaoslab.fleet.docker.storage import VolumeFiles
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.nodes.arrivals import Arrival, observed, taken, together
from chaoslab.fleet.nodes.fleet import NodeFleet
from chaoslab.fleet.protocols import Disconnectable, Upgradable
from chaoslab.undo.base import UndoLog

SYNCER_PORT: Final = 4600
_ARRIVALS_MOST: Final = 2048


class DockerFleet(NodeFleet[Container], Disconnectable, Upgradable):
    """A fleet of containers; see `base.Fleet` and `protocols` for what each verb promises."""

    kind = "docker"
    lacking = frozenset({Ability.DUTY_CYCLE})
    """An engine's own limits are one, by the kernel."""
    node_site = NodeSite(
        python="python3",
        listen=f"0.0.0.0:{SYNCER_PORT}",
        snapshots=f"{SHARED}/snapshots",
        cache=CACHE,
        flags=(f"--health-file={HEALTH}",),
    )
    end_s_max = 20.0

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
        """Logs go below `run_directory`, undo entries to `undo_log`."""
        directory = run_directory.resolve()
        self._run_context = RunContext(
            run_directory=directory,
            clock=clock,
            undo_log=undo_log,
            run_resources=RunResources(engine=engine, run_directory=directory, undo_log=undo_log),
            setup=setup,
            arrivals=queue.Queue(_ARRIVALS_MOST),
        )
        super().__init__(self._run_context, node_links, stress_drivers.driver)
        self._engine = engine
        self._images: dict[str, str] = {}
        """Image of each node that was upgraded."""
        self._engine_events: EngineEvents | None = None

    def __enter__(self) -> Self:
        self._run_context.run_resources.open()
        context = self._run_context
        self._engine_events = EngineEvents(
            self._engine, context.arrivals, OfRun(context.run_resources)
        )
        return super().__enter__()

    @property
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        return (
            self._end_all,
            self._stress_registry.relieve_all,
            self._close_links,
            self._close_resources,
            self._close_engine,
        )

    def _end_all(self) -> list[str]:
        """End all containers; one that cannot be killed is removed with the run's resources."""
        try:
            super()._end_all()
        finally:
            for life in self._lives.values():
                life.abandon()
        return []

    def _close_resources(self) -> None:
        """Volumes are gone, and undone, once the resources of the run are."""
        self._run_context.run_resources.close()
        for storage in self._storages.values():
            storage.close()

    def _close_engine(self) -> None:
        if self._engine_events is not None:
            self._engine_events.close()
        self._engine.close()

    # ---------------------------------------------------------------- verbs

    def upgrade(self, name: str, release: str) -> None:
        """The next incarnations run another image."""
        self._specs[name]
        image = self._run_context.setup.releases.get(release, release)
        if self._engine.image_id(image) is None:
            raise FleetError(f"there is no image {image}: run `chaoslab doctor images build`")
        self._images[name] = image

    def disconnect(self, name: str) -> None:
        """Take it from the network; its open connections are not closed."""
        self._running(name).disconnect()

    def reconnect(self, name: str) -> None:
        """Connect it again, under its name."""
        if (life := self._latest(name)) is not None:
            life.reconnect()

    def _address(self, name: str) -> str:
        """Its name, by which the run's network knows it."""
        return name

    # ---------------------------------------------------------------- incarnations

    def _begin(self, spec: NodeSpec, incarnation: int) -> Container:
        image = self._images.get(spec.name, self._run_context.setup.image)
        return Container(spec, incarnation, image, self._run_context)

    def _listen(self, begun: Container) -> None:
        begun.follow()

    def _disk(self, spec: NodeSpec) -> VolumeFiles:
        is_tried = any(one.has_volume for one in tuple(self._storages.values()))
        return VolumeFiles(spec, self._run_context, is_tried=is_tried)

    def _signal(self, lives: Sequence[Container], name: str) -> None:
        together(lives, lambda life: life.signal(name))

    def _pause(self, lives: Sequence[Container]) -> None:
        """The engine freezes the whole containers."""
        together(lives, Container.pause)

    def _thaw(self, life: Container) -> None:
        life.resume()

    def _wait(self, limit_s: float) -> None:
        """Record what has arrived, after waiting for the first of it."""
        for arrival in taken(self._run_context.arrivals, limit_s):
            self._take(arrival)

    def _take(self, arrival: Arrival) -> None:
        found = observed(arrival, self._troubles, is_open=self._is_open)
        for seen in found:
            said = seen.payload
            if isinstance(said, EngineReported) and said.action == "oom":
                self._note_out_of_memory(said)
        self._record(found)

    def _note_out_of_memory(self, reported: EngineReported) -> None:
        """The engine may say so only after it has said that the container died."""
        life = self._lives.get(reported.node)
        if life is not None and life.incarnation == reported.incarnation:
            life.was_out_of_memory = True
