"""Simulated fleet: nodes are objects, time is a number, and `poll` lets the next event happen.

    run ── start, kill, pause, tell, … ──► SimFleet ──► Lives: Syncer, Learner, Evaluator ─┐
        ◄── poll(until) ── what was said ◄── World ◄── EventQueue: the next event ◄────────┘

It implements `fleet.base.Fleet` and those of `fleet.protocols` that have a meaning here, so that
runs, faults and checks need not know of it. Each node is what its command line says. What only a
kernel, a container engine or a cloud provider can do is missing or `lacking`, and a plan that needs
it is refused.
"""

import signal as signals
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import ClassVar, Self

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Json, Observation
from chaoslab.core.payloads import HostLost, NodeRelieved, NodeStressed
from chaoslab.fleet.base import (
    Ability,
    Node,
    NodeSite,
    NodeSpec,
    host_number,
    not_started,
    probed,
)
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.stressors import Slowness, Stressor
from chaoslab.links.base import Link
from chaoslab.sim.clock import EventQueue, SimClock
from chaoslab.sim.cores import Cores
from chaoslab.sim.costs import Costs
from chaoslab.sim.disk_faults import DiskFaults
from chaoslab.sim.learner import Learner
from chaoslab.sim.links import SimLinks
from chaoslab.sim.lives import Lives, Place
from chaoslab.sim.process import HOOK_S
from chaoslab.sim.world import Network, World


class SimFleet(DiskFaults):
    """Implements `fleet.base.Fleet` on a virtual clock."""

    kind = "sim"
    verb_s = 0.0
    lacking: ClassVar[frozenset[Ability]] = frozenset(
        {Ability.QUOTA, Ability.DUTY_CYCLE, Ability.CROWD, Ability.MEMORY_LIMIT}
    )
    node_site = NodeSite(python="python3", snapshots="snapshots", cache="cache")

    def __init__(
        self, clock: SimClock, *, costs: Costs, seed: int, node_links: NodeLinks | None = None
    ) -> None:
        self.clock = clock
        self._agenda = EventQueue(clock)
        network = Network(self._agenda, costs, seed)
        self._world = World(
            clock=clock,
            agenda=self._agenda,
            costs=costs,
            network=network,
            seed=seed,
            cores=Cores(self._agenda, costs.cores) if costs.cores else None,
        )
        self._lives = Lives(self._world)
        self._node_links = node_links or NodeLinks(clock=clock)
        if isinstance(self._node_links.made_by, SimLinks):
            self._node_links.made_by.attach(network)

    def __enter__(self) -> Self:
        self._node_links.made_by.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lives.end_all()
        self._node_links.made_by.__exit__(kind, error, trace)

    # ---------------------------------------------------------------- nodes

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._lives.nodes

    def start(self, spec: NodeSpec) -> Node:
        """See `Fleet.start`."""
        return self._lives.begin(self._lives.know(spec))

    def enlist(self, spec: NodeSpec) -> Node:
        """See `Fleet.enlist`."""
        self._lives.know(spec)
        return not_started(spec)

    def restart(self, name: str) -> Node:
        """See `Fleet.restart`."""
        place = self._lives.place(name)
        return place.node if place.process is not None else self._lives.begin(place)

    # ---------------------------------------------------------------- signals and hooks

    def kill(self, *names: str) -> None:
        """See `Fleet.kill`."""
        self.signal(*names, signal="SIGKILL")

    def take_down(self, *names: str) -> None:
        """See `StoresFiles.take_down`."""
        self.kill(*names)

    def signal(self, *names: str, signal: str) -> None:
        """See `Fleet.signal`."""
        name = str(getattr(signal, "value", signal))
        if name not in signals.Signals.__members__:
            raise FleetError(f"there is no signal {name!r}")
        for place in [self._lives.place(node) for node in names]:
            if place.process is None:
                continue
            place.sent.append(name)
            if name != "SIGTERM" or not place.process.ask_to_end():
                self._lives.end(place, signal=name)

    def pause(self, *names: str) -> None:
        """See `Pausable.pause`."""
        for process in [self._lives.living(name) for name in names]:
            process.stop()

    def resume(self, name: str) -> None:
        """See `Pausable.resume`."""
        process = self._lives.place(name).process
        if process is not None:
            process.resume()

    def wedge(self, name: str) -> None:
        """See `Wedgeable.wedge`."""
        self._lives.learner(name).wedge()

    def unwedge(self, name: str) -> None:
        """See `Wedgeable.unwedge`."""
        process = self._lives.place(name).process
        if isinstance(process, Learner):
            process.unwedge()

    def notice(self, name: str) -> None:
        """See `Notifiable.notice`."""
        learner, place = self._lives.learner(name), self._lives.place(name)
        place.sent.append("SIGHUP")
        if not learner.note_preemption():
            self._lives.end(place, signal="SIGHUP")

    def tell(self, name: str, do: str, **facts: Json) -> None:
        """See `Hookable.tell`."""
        process = self._lives.living(name)
        if not process.spec.hears:
            raise FleetError(f"{name} was started without test hooks")
        process.tell(do, facts)

    # ---------------------------------------------------------------- hosts

    def kill_host(self, name: str, host: int) -> None:
        """See `HasHosts.kill_host`."""
        self._lives.living(name)
        place = self._lives.place(name)
        index = host_number(place.spec, host)
        place.sent.append("SIGKILL")
        if place.spec.hosts is None:
            self._lives.end(place, signal="SIGKILL")
        else:
            self._lose_host(place, index, "SIGKILL")

    def fail_chip(self, name: str, host: int) -> None:
        """See `HasHosts.fail_chip`."""
        self._lives.living(name)
        place = self._lives.place(name)
        index = host_number(place.spec, host)
        if not place.spec.hears:
            raise FleetError(f"{name} was started without test hooks")
        place.sent.append("SIGABRT")
        self._lose_host(place, index, "SIGABRT")

    def _lose_host(self, place: Place, host: int, signal: str) -> None:
        """By a test hook, which is not read while the learner is stopped. A learner of several
        hosts is one process here, which ends with each of them.
        """
        process = place.process
        if process is None:
            return

        def lose() -> None:
            if place.spec.hosts is not None:
                lost = HostLost(
                    learner=process.name,
                    incarnation=process.incarnation,
                    host=host,
                    reason=f"ended by {signal}",
                    signal=signal,
                )
                process.say(lost)
            self._lives.end(place, signal=signal)

        process.later_beside(HOOK_S, lose)

    # ---------------------------------------------------------------- stress

    def stress(self, name: str, injection: str, stressor: Stressor) -> None:
        """See `Stressable.stress`. Other kinds than `Slowness` are refused before a run."""
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

    # ---------------------------------------------------------------- links

    def link(self, name: str, upstream: str) -> Link:
        """See `Networked.link`."""
        self._agenda.catch_up()
        return self._node_links.create(name, upstream)

    @property
    def links(self) -> Mapping[str, Link]:
        self._agenda.catch_up()
        return self._node_links.links

    # ---------------------------------------------------------------- what is seen

    def probe(self, name: str) -> Observation:
        """See `Fleet.probe`."""
        place = self._lives.place(name)
        self._node_links.count(name)
        process = place.process
        if process is None:
            return probed(name, incarnation=place.incarnation, pid=place.pid)
        return probed(
            name,
            incarnation=place.incarnation,
            pid=place.pid,
            state="T" if process.is_stopped else "S",
            cpu_s=round(process.cpu_s, 6),
        )

    def poll(self, until_s: float) -> Sequence[Observation]:
        """The next things that are said; the clock then shows when, or `until_s`."""
        agenda, world = self._agenda, self._world
        agenda.catch_up()
        seen = self._node_links.observed()
        if not seen:
            agenda.run_until(until_s, world.seen)
        seen += world.seen
        world.seen = []
        if not seen:
            self.clock.sleep_until(until_s)
        self.clock.keep_pace()
        return seen


def _slow(place: Place) -> None:
    """Each step takes longer by the largest factor in force."""
    if place.process is not None:
        factor = max(place.slowness.values(), default=1.0)
        place.process.tell("slow", {"factor": factor})
