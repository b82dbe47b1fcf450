"""Attached nodes that are containers of a Docker Compose project.

    com.docker.compose.project=NAME ─┬─ containers that run chaoslab's programs ──► Found
                                     └─ those of services: workers of a script ───► Found
    the engine's log of a container ─► a thread ─► the bytes that `read` takes

The engine keeps what a container printed, by any of its logging drivers that can be read.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.core.payloads import LinkCounted
from chaoslab.fleet.attached.fleet import AttachedFleet
from chaoslab.fleet.attached.found import Found, command_of, of_script, training_of
from chaoslab.fleet.attached.node import AttachedNode, AttachedPlace
from chaoslab.fleet.attached.past import Past
from chaoslab.fleet.attached.restoring import ContainerRecipe, written
from chaoslab.fleet.attached.restoring_containers import beside, connect, put_back, restore
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.docker.container import EngineContainer, ending_of
from chaoslab.fleet.docker.engine.container_facts import epoch_s
from chaoslab.fleet.docker.engine.engine import Engine, Seen
from chaoslab.fleet.docker.engine.usage import Meter
from chaoslab.fleet.docker.engine_events import ENGINE, EngineEvents, Reported
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.nodes.arrivals import Arrivals, drained, news, together
from chaoslab.fleet.protocols import Disconnectable
from chaoslab.fleet.settings import FleetRequest
from chaoslab.fleet.storage.files import Reach
from chaoslab.trainers.reading import plain_lines

PROJECT: Final = "com.docker.compose.project"
"""Label of what belongs to a Compose project."""
SERVICE: Final = "com.docker.compose.service"
_TAIL_LINES: Final = 2000
"""Last lines of a container from which the patterns of a script are recognised."""
_ASK_S: Final = 0.5
"""Longest interval of the questions to the engine about a container that prints no more."""
_ASK_S_LEAST: Final = 0.02
_ENDED_S: Final = 10.0
"""Longest time from the end of a container's output to its own end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A Compose project on an engine; with `services` those of a training of the user's own."""

    engine: Engine
    name: str
    services: Sequence[str] = ()

    def close(self) -> None:
        """Close the connection to the engine."""
        self.engine.close()

    def find(self) -> Sequence[Found]:
        """Its nodes that run; AbilityError if they are no training."""
        return self._workers() if self.services else self._training()

    def _training(self) -> Sequence[Found]:
        nodes = []
        for name in sorted(self.engine.names({PROJECT: self.name})):
            command = command_of(self.engine.made_as(name).command)
            if command is not None and self.engine.inspect(name).is_alive:
                nodes.append(
                    Found(
                        name=command.name,
                        role=command.role,
                        where=f"container {name}",
                        handle=name,
                        command=command,
                    )
                )
        none = "none of its containers runs a syncer or learner; `docker compose ls` lists projects"
        return training_of(nodes, f"compose:{self.name}", none)

    def _workers(self) -> Sequence[Found]:
        """The containers of its services, in the order of the numbers in their names."""
        workers: list[Found] = []
        for service in self.services:
            names = self.engine.names({PROJECT: self.name, SERVICE: service})
            running = [name for name in names if self.engine.inspect(name).is_alive]
            if not running:
                there = sorted({one[SERVICE] for one in self.engine.names({PROJECT: self.name})
                                .values() if SERVICE in one})  # fmt: skip
                raise AbilityError(
                    f"compose:{self.name}: no container of the service {service!r} runs; its "
                    f"services: {', '.join(there) or 'none'}"
                )
            for name in sorted(running, key=lambda name: (len(name), name)):
                workers.append(of_script(f"worker-{len(workers)}", f"container {name}", name))
        return workers

    def printed(self, nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:
        """The last lines that each node has printed."""
        return {
            node.name: plain_lines(self.engine.said(node.handle, last=_TAIL_LINES).encode())
            for node in nodes
        }


def recipe_of(
    engine: Engine, found: Found, *, is_ours_to_start: bool, keeps: str = ""
) -> ContainerRecipe:
    """Recipe that brings a container back; `keeps`: its folder of checkpoints."""
    made = engine.made_as(found.handle)
    return ContainerRecipe(
        node=found.name,
        engine=engine.url,
        container=found.handle,
        networks=made.networks,
        addresses=made.addresses,
        is_ours_to_start=is_ours_to_start,
        keeps=keeps,
    )


def past_of(engine: Engine, found: Found, until_s: float) -> Past:
    """Output of a container until a time of the engine's clock."""
    past = Past()
    for chunk in engine.printed(found.handle, until_s=until_s):
        past.take(chunk)
    return past


class AttachedContainer(EngineContainer, AttachedNode):
    """A container, found or started again."""

    def __init__(
        self,
        spec: NodeSpec,
        incarnation: int,
        place: AttachedPlace,
        *,
        engine: Engine,
        recipe: ContainerRecipe,
        since_s: float,
    ) -> None:
        """Reads its output from `since_s` of the engine's clock on."""
        self.engine, self._recipe, self.name = engine, recipe, recipe.container
        self._seen = engine.inspect(self.name)
        super().__init__(spec, incarnation, place)
        self._chunks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_closing, self._is_dead = False, False
        self._last_seen: Seen | None = None
        """State at its end, if the engine still has that."""
        self._broken: FleetError | AbilityError | None = None
        """Error for which its log can no longer be read."""
        self._meter, self._counted_s = Meter(engine, self.name), 0.0
        threading.Thread(
            target=self._follow, args=(since_s,), name=f"log of {self.name}", daemon=True
        ).start()

    def _follow(self, since_s: float) -> None:
        """Follow the log until it ends, on a thread and a connection of its own."""
        broken: FleetError | AbilityError | None = None
        try:
            with closing(Engine.connect(self.engine.url)) as engine:
                for chunk in engine.printed(
                    self.name, since_s=since_s, follow=True, with_errors=bool(self.spec.reads)
                ):
                    if self._is_closing:
                        return
                    self._chunks.put(chunk)
        except (FleetError, AbilityError) as error:
            broken = error
        self._look_for_end(broken)

    def _look_for_end(self, broken: FleetError | AbilityError | None) -> None:
        """Ask the engine until it has ended, ever less often; `broken`: why its log is not read."""
        silent_s = time.monotonic()
        while not (self._is_closing or self._is_dead):
            try:
                self._last_seen = seen = self.look()
                is_same = seen is not None and seen.started_at == self._seen.started_at
                self._is_dead = seen is None or not (seen.is_alive and is_same)
            except FleetError as error:
                broken = error
            silent_for_s = time.monotonic() - silent_s
            if broken is None and silent_for_s > _ENDED_S:
                broken = FleetError("the engine ended its log, and the container still runs")
            self._broken = broken
            if not self._is_dead:
                time.sleep(max(_ASK_S_LEAST, min(_ASK_S, silent_for_s)))

    @property
    def has_exited(self) -> bool:
        return self.is_over or self._is_dead

    def signal_all(self, name: str) -> None:
        """Signal its first process; the kernel ends all others with that."""
        if not self.is_over:
            self.engine.kill(self.name, name)

    def signal(self, name: str) -> None:
        self.note_sent(name)
        self.signal_all(name)

    def disconnect(self) -> None:
        """Take it from its networks; its open connections hear nothing."""
        for network in self.engine.made_as(self.name).networks:
            self.engine.disconnect(network, self.name)

    def reconnect(self) -> None:
        """Connect it to them again."""
        connect(self.engine, self._recipe)

    def _printed(self) -> bytes:
        if self._broken is not None and not self.has_exited:
            raise FleetError(f"the output of {self.spec.name} cannot be read: {self._broken}")
        return drained(self._chunks)

    def counted(self) -> list[Observation]:
        """What its network has carried, once for each report of the engine; null without one."""
        used = None if self.is_over else self._meter.usage
        if used is None or used.at_s == self._counted_s:
            return []
        self._counted_s = used.at_s
        counted = LinkCounted(
            link=self.spec.name, up_bytes=used.sent_bytes, down_bytes=used.received_bytes
        )
        return [Observation.of(ENGINE, counted)]

    def _ending(self) -> dict[str, Json]:
        """Exit by the engine's report, unless the container has begun another life since."""
        seen = self._last_seen
        if seen is not None and not seen.is_alive:
            return ending_of(seen)
        return {"exit_code": None, "signal": next(reversed(self._sent), None), "is_seen": False}

    def _detach(self) -> None:
        self._is_closing = True
        self._meter.close()


def clock_s(engine: Engine) -> float:
    """Seconds since the epoch by the engine's clock."""
    stamp = str(engine.facts().get("SystemTime"))
    if not (now_s := epoch_s(stamp)):
        raise AbilityError(f"the Docker engine at {engine.url} says that it is {stamp!r}")
    return now_s


# ---------------------------------------------------------------- all of them


class ComposeFleet(AttachedFleet[AttachedContainer], Disconnectable):
    """A training whose nodes are the containers of a Docker Compose project."""

    kind = "compose"

    def __init__(
        self,
        place: Place,
        request: FleetRequest,
        *,
        project: Project,
        restarts: bool = True,
    ) -> None:
        super().__init__(place, request, restarts=restarts)
        self._engine, self._project = project.engine, project
        self._counts_bytes = request.reading is not None and request.reading.counts_bytes
        self._recipes: dict[str, ContainerRecipe] = {}
        self._ids: dict[str, str] = {}
        """Node by the id of its container."""
        self._arrivals: Arrivals = queue.Queue()
        self._engine_events: EngineEvents | None = None

    def __enter__(self) -> Self:
        self._engine_events = EngineEvents(self._engine, self._arrivals, self._node_of)
        return super().__enter__()

    @property
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        return (*super()._leaving, self._close_engine)

    def _close_engine(self) -> None:
        if self._engine_events is not None:
            self._engine_events.close()
        self._engine.close()

    def _node_of(self, reported: Reported) -> tuple[str, int] | None:
        """Called by another thread."""
        node = self._ids.get(reported.container)
        life = None if node is None else self._lives.get(node)
        return None if life is None else (life.spec.name, life.incarnation)

    def _news(self) -> list[Observation]:
        """Reports of the engine."""
        reports = news(self._arrivals, self._troubles, is_open=self._is_open)
        if self._counts_bytes:
            for life in self._lives.values():
                reports += life.counted()
        return reports

    def _find(self) -> Sequence[Found]:
        return self._project.find()

    def _identity(self, nodes: Sequence[Found]) -> str:  # noqa: ARG002 - the base's signature
        """Identity by its project and its engine, independent of the way to the engine."""
        engine = self._engine.facts().get("ID") or self._engine.url
        return f"compose {engine} {self._project.name}"

    def _recipe(self, found: Found) -> bytes:
        recipe = recipe_of(
            self._engine, found, is_ours_to_start=self._restarts, keeps=self._folder(found.name)
        )
        self._recipes[found.name] = recipe
        self._ids[self._engine.made_as(found.handle).id] = found.name
        return written(recipe)

    def _adopted(self, spec: NodeSpec, found: Found) -> AttachedContainer:
        since_s = clock_s(self._engine)
        if spec.reads is not None:
            return self._life(spec, 1, since_s)
        past = past_of(self._engine, found, since_s)
        past.require_complete(spec.name, spec.role)
        life = self._life(spec, past.incarnation or 1, since_s)
        life.past = past
        return life

    def _begun(self, spec: NodeSpec, incarnation: int) -> AttachedContainer:
        since_s, recipe = clock_s(self._engine), self._recipes[spec.name]
        connect(self._engine, recipe)
        seen = self._engine.inspect(recipe.container)
        if seen.is_alive:
            since_s = seen.started_s
        elif self._restarts:
            self._engine.start(recipe.container)
        else:
            raise FleetError(f"{spec.name} has ended as soon as it was started")
        return self._life(spec, incarnation, since_s)

    def _life(self, spec: NodeSpec, incarnation: int, since_s: float) -> AttachedContainer:
        return AttachedContainer(
            spec, incarnation, self._place,
            engine=self._engine, recipe=self._recipes[spec.name], since_s=since_s,
        )  # fmt: skip

    def _runs_again(self, name: str) -> bool:
        with suppress(FleetError):
            return self._engine.inspect(self._recipes[name].container).is_alive
        return False

    def _restore(self, name: str) -> None:
        restore(self._recipes[name])

    def _reach(self, spec: NodeSpec) -> Reach:
        recipe = self._recipes[spec.name]
        return Reach(
            run=partial(beside, self._engine, recipe),
            put_back=partial(put_back, recipe),
            undo_facts=lambda: self._lives[spec.name].undo_facts,
        )

    def _pause(self, lives: Sequence[AttachedContainer]) -> None:
        """Pause by the engine, which freezes whole containers."""
        together(lives, AttachedContainer.pause)

    def disconnect(self, name: str) -> None:
        """Take it from its networks; its open connections are not closed."""
        life = self._running(name)
        life.open_undo(life.undo_pause)
        life.disconnect()

    def reconnect(self, name: str) -> None:
        """Connect it to them again, under its names."""
        if (life := self._latest(name)) is not None and not life.is_over:
            life.reconnect()
            life.pending_undos.close(life.undo_pause)
