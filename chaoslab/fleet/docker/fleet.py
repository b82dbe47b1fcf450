"""Nodes as containers: the fleet `docker`.

    start ──► Container (one life) ──► engine
    kill, pause, signals … ──────────► engine          threads ─► queue ─► poll ─► sightings
    what nodes print, how they end, what the engine reports ──────┘

Every life is a container of its own on the run's own network, under its node's name; what it keeps
is on a named volume that its next life finds again. A kill ends the whole container. The hooks are
signals to its first process, as with local nodes: SIGUSR1 hang, SIGUSR2 go on, SIGHUP notice,
SIGTERM please leave.

It is used from one thread. The others only carry bytes to the queue on which `poll` waits.
"""

import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from chaoslab.clock import Clock
from chaoslab.errors import FleetError
from chaoslab.events import Json
from chaoslab.fleet.base import (
    Ability,
    Damage,
    Node,
    NodeSpec,
    ObligationLog,
    Premises,
    Role,
    Sighting,
    known_already,
    probed,
    unborn,
)
from chaoslab.fleet.burdened import Burdened
from chaoslab.fleet.burdens import Burden
from chaoslab.fleet.docker import verbs
from chaoslab.fleet.docker.bearers import bearers_of
from chaoslab.fleet.docker.container import CACHE, SHARED, Arrival, Container, Yard
from chaoslab.fleet.docker.engine import Engine, Limits, Missing
from chaoslab.fleet.docker.estate import Estate
from chaoslab.fleet.docker.witness import Witness
from chaoslab.fleet.linkage import Linkage
from chaoslab.links.base import Link

SYNCER_PORT: Final = 4600
ABILITIES: Final = frozenset(
    {
        Ability.KILL, Ability.PAUSE, Ability.WEDGE, Ability.NOTICE, Ability.LINK, Ability.HOOKS,
        Ability.SLOW, Ability.QUOTA, Ability.MEMORY_LIMIT, Ability.UNPLUG, Ability.UPGRADE,
    }
)  # fmt: skip
"""All but what needs files or processes of ours beside the node: see the README."""
_ANYWHERE: Final = ("0.0.0.0", "[::]")  # noqa: S104 - what a syncer says, not where we listen
_PATIENCE_S: Final = 0.5
"""How long `restart` lets a node that was told to end do so by itself."""
_LAST_S: Final = 20.0
_AT_ONCE: Final = 8
"""Verbs on several nodes are sent side by side, so that they arrive together."""
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


class DockerFleet:
    """A fleet of containers; see `fleet.base.Fleet` for what each verb promises."""

    kind = "docker"
    abilities = ABILITIES
    premises = Premises(
        python="python3",
        listen=f"0.0.0.0:{SYNCER_PORT}",
        snapshots=f"{SHARED}/snapshots",
        cache=CACHE,
        flags=("--private-network",),
    )

    def __init__(
        self,
        run_directory: Path,
        clock: Clock,
        *,
        obligations: ObligationLog,
        engine: Engine,
        setup: Setup,
        linkage: Linkage | None = None,
    ) -> None:
        """Logs go below `run_directory`; how to undo is written to `obligations`."""
        self._engine, self._setup, self._clock = engine, setup, clock
        self._linkage = linkage or Linkage(clock=clock)
        self._arrivals: queue.Queue[Arrival] = queue.Queue(_ARRIVALS_MOST)
        self._yard = Yard(
            estate=Estate(
                engine=engine, run_directory=run_directory.resolve(), obligations=obligations
            ),
            clock=clock,
            limits=setup.limits,
            mounts=setup.mounts,
            arrivals=self._arrivals,
        )
        self._specs: dict[str, NodeSpec] = {}
        self._images: dict[str, str] = {}
        self._lives: dict[str, Container] = {}
        self._burdened = Burdened(clock=clock, bearer=bearers_of(clock))
        self._news: list[Sighting] = []
        self._witness: Witness | None = None
        self._is_open = True

    def __enter__(self) -> Self:
        self._yard.estate.open()
        self._witness = Witness(self._yard.estate, self._arrivals)
        self._linkage.__enter__()
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
        self._is_open = False
        refused = [
            str(problem)
            for leave in (
                self._end_all,
                lambda: self._linkage.__exit__(kind, error, trace),
                self._yard.estate.close,
            )
            if (problem := _tried(leave)) is not None
        ]
        if self._witness is not None:
            self._witness.close()
        self._engine.close()
        if not refused:
            return
        left = FleetError(f"what could not be ended: {'; '.join(dict.fromkeys(refused))}")
        if error is None:
            raise left
        error.add_note(str(left))

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node ever started or enlisted; `is_alive` until `poll` has noticed its exit."""
        return {name: self._node(name) for name in self._specs}

    # ---------------------------------------------------------------- lives

    def start(self, spec: NodeSpec) -> Node:
        """Start the first incarnation."""
        self.enlist(spec)
        return self.restart(spec.name)

    def enlist(self, spec: NodeSpec) -> Node:
        """Keep how to start it."""
        if spec.name in self._specs:
            raise known_already(spec)
        self._specs[spec.name] = spec
        return self._node(spec.name)

    def restart(self, name: str) -> Node:
        """Create and start the next incarnation's container."""
        life = self._life(name)
        if life is not None and not life.is_over:
            if not life.is_ending and not life.has_exited:
                return self._node(name)
            self._await_end(life)
        incarnation = life.incarnation + 1 if life else 1
        image = self._images.get(name, self._setup.image)
        self._lives[name] = Container(self._specs[name], incarnation, image, self._yard)
        self._news.append(self._lives[name].started())
        return self._node(name)

    def upgrade(self, name: str, release: str) -> None:
        """The next lives run another image."""
        self._specs[name]
        image = self._setup.releases.get(release, release)
        if self._engine.image_id(image) is None:
            raise FleetError(f"there is no image {image}: build it with `chaoslab images build`")
        self._images[name] = image

    # ---------------------------------------------------------------- what ends and holds it

    def kill(self, *names: str, signal: str = "SIGKILL") -> None:
        """By the engine; SIGKILL ends all that runs in the container."""
        lives = [life for name in names if (life := self._life(name)) is not None]
        for life in lives:
            life.is_ending = True
        _together(lives, lambda life: life.signal(signal))

    def pause(self, *names: str) -> None:
        """The engine freezes the whole container; none if one of them is not running."""
        lives = [self._running(name) for name in names]
        for life in lives:
            life.owe(verbs.UNPAUSE)
        try:
            _together(lives, lambda life: self._engine.pause(life.name))
        except FleetError:
            for life in lives:
                with suppress(FleetError):
                    self.resume(life.spec.name)
            raise
        for life in lives:
            life.is_paused = True

    def resume(self, name: str) -> None:
        """Thaw it."""
        life = self._life(name)
        if life is not None and not life.is_over:
            with suppress(Missing):
                self._engine.unpause(life.name)
            life.is_paused = False
            life.debts.settle(verbs.UNPAUSE)

    def wedge(self, name: str) -> None:
        """SIGUSR1."""
        life = self._running(name)
        life.owe(verbs.UNWEDGE)
        life.signal("SIGUSR1")

    def unwedge(self, name: str) -> None:
        """SIGUSR2."""
        life = self._life(name)
        if life is not None:
            life.signal("SIGUSR2")
            life.debts.settle(verbs.UNWEDGE)

    def notice(self, name: str) -> None:
        """SIGHUP."""
        self._running(name).signal("SIGHUP")

    def tell(self, name: str, do: str, **facts: Json) -> None:
        """One line on its standard input."""
        self._running(name).tell({"do": do, **facts})

    def unplug(self, name: str) -> None:
        """Take it from the network; what it has open hears nothing of that."""
        life = self._running(name)
        seen = self._engine.inspect(life.name)
        if seen.address:
            estate = self._yard.estate
            life.owe(verbs.PLUG, network=estate.network, aliases=[name], address=seen.address)
            self._engine.disconnect(estate.network, life.name)

    def plug(self, name: str) -> None:
        """Connect it again, under its name."""
        life = self._life(name)
        if life is None or life.has_exited:
            return
        if not self._engine.inspect(life.name).address:
            self._engine.reconnect(self._yard.estate.network, life.name, [name], "")
        life.debts.settle(verbs.PLUG)

    def burden(self, name: str, injection: str, burden: Burden) -> None:
        """By the limits of its container, changed while it runs, or by its own hook."""
        self._burdened.put(self._running(name), injection, burden)

    def relieve(self, name: str, injection: str) -> None:
        """It has its limits back."""
        self._specs[name]
        self._burdened.relieve(name, injection)

    # ---------------------------------------------------------------- what it cannot

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:  # noqa: ARG002
        """FleetError: what a container keeps is on the engine's machine."""
        raise self._cannot(name, "damage files on a volume")

    def fill_disk(self, name: str) -> None:
        """FleetError: volumes of an engine have no size."""
        raise self._cannot(name, "fill a volume")

    def free_disk(self, name: str) -> None:
        """Nothing: it was never full."""
        self._specs[name]

    def _cannot(self, name: str, what: str) -> FleetError:
        self._specs[name]
        return FleetError(f"the docker fleet cannot {what} ({name})")

    # ---------------------------------------------------------------- seeing

    def probe(self, name: str) -> Sighting:
        """The engine's view of the container."""
        life = self._life(name)
        seen = probed(name, incarnation=0, pid=0) if life is None else life.probe()
        self._linkage.count(name)
        self._burdened.count(name)
        return seen

    def link(self, name: str, upstream: str) -> Link:
        """By the links that this fleet was given; the syncer is reached by its name."""
        host, _, port = upstream.rpartition(":")
        if host in _ANYWHERE:
            syncers = [spec.name for spec in self._specs.values() if spec.role is Role.SYNCER]
            upstream = f"{syncers[0]}:{port}" if syncers else upstream
        return self._linkage.create(name, upstream)

    @property
    def links(self) -> Mapping[str, Link]:
        """Every link made."""
        return self._linkage.links

    def poll(self, until_s: float) -> Sequence[Sighting]:
        """What nodes reported, which ended, and what the engine says; last lines before the exit.

        FleetError when the engine is gone.
        """
        self._news += self._linkage.news()
        self._news += self._burdened.news(self._lives.values())
        while self._is_open and not self._news:
            left_s = until_s - self._clock.now_s()
            self._wait(max(0.0, left_s))
            if left_s <= 0:
                break
        news, self._news = self._news, []
        return news

    # ---------------------------------------------------------------- inside

    def _life(self, name: str) -> Container | None:
        """KeyError for a name that is not known; None for a node that has not lived."""
        self._specs[name]
        return self._lives.get(name)

    def _running(self, name: str) -> Container:
        life = self._life(name)
        if life is None or life.has_exited:
            raise FleetError(f"{name} is not running")
        return life

    def _node(self, name: str) -> Node:
        spec, life = self._specs[name], self._lives.get(name)
        known = unborn(spec)
        if life is None:
            return known
        return replace(known, incarnation=life.incarnation, is_alive=not life.is_over)

    def _await_end(self, life: Container) -> None:
        """Let a node that was told to end do so, then end it; its last words become news."""
        with suppress(Missing):
            self._engine.unpause(life.name)
        self._wait_for([life], _PATIENCE_S)
        if not life.is_over:
            life.signal("SIGKILL")
            self._wait_for([life], _LAST_S)
        if not life.is_over:
            raise FleetError(f"{life.spec.name} (container {life.name}) cannot be ended")

    def _end_all(self) -> None:
        alive = [life for life in self._lives.values() if not life.is_over]
        try:
            _together(alive, lambda life: life.signal("SIGKILL"))
            self._wait_for(alive, _LAST_S)
        finally:
            for life in self._lives.values():
                life.abandon()

    def _wait_for(self, lives: Sequence[Container], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while any(not life.is_over for life in lives) and time.monotonic() < deadline:
            self._wait(0.05)

    def _wait(self, limit_s: float) -> None:
        """Take in what is there, after waiting for the first of it."""
        try:
            arrival = (
                self._arrivals.get(timeout=limit_s) if limit_s else self._arrivals.get_nowait()
            )
        except queue.Empty:
            return
        for _ in range(_ARRIVALS_MOST):
            self._take(arrival)
            try:
                arrival = self._arrivals.get_nowait()
            except queue.Empty:
                return
        self._take(arrival)

    def _take(self, arrival: Arrival) -> None:
        if arrival.error is not None and self._is_open:
            raise arrival.error
        if arrival.report is not None:
            self._news.append(arrival.report)
        if arrival.life is not None:
            life = arrival.life
            said = life.finish() if arrival.chunk is None else life.take(arrival.chunk)
            self._burdened.hear(said)
            self._news += said


def _together(lives: Iterable[Container], verb: Callable[[Container], None]) -> None:
    """Side by side; the first FleetError is raised when all are done."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        done = [pool.submit(verb, life) for life in lives]
    for one in done:
        one.result()


def _tried(leave: Callable[[], None]) -> FleetError | None:
    """What was in the way of one part of leaving; the others are tried all the same."""
    try:
        leave()
    except FleetError as error:
        return error
    return None
