"""A fleet without processes: it keeps names, incarnations and who should be alive, and never
observes anything. It remembers who was acted upon, and what its links were told.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.fleet.base import (
    Ability,
    Node,
    NodeSite,
    NodeSpec,
    known_already,
    not_started,
    probed,
)
from chaoslab.links.effects import Direction, Effect
from tests.fake_links import ListedLink
from tests.virtual_clock import VirtualClock


class WatchedLink(ListedLink):
    def __init__(self, name: str, upstream: str, touched: set[str]) -> None:
        super().__init__(name, upstream)
        self._touched = touched

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        assert direction in effect.directions
        self._touched.add(self.name)
        super().shape(injection, direction, effect)


class NoFleet:
    """Implements `fleet.base.Fleet`; `touched` are the nodes that a fault acted upon, `held` what
    was done to them and not undone.
    """

    kind = "none"
    verb_s = 0.0
    abilities = frozenset(Ability)
    node_site = NodeSite()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nodes: dict[str, Node] = {}
        self._links: dict[str, WatchedLink] = {}
        self.touched: set[str] = set()
        self.held: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self._nodes)

    @property
    def nodes(self) -> Mapping[str, Node]:
        return dict(self._nodes)

    @property
    def links(self) -> Mapping[str, WatchedLink]:
        return dict(self._links)

    def link(self, name: str, upstream: str) -> WatchedLink:
        self._links[name] = WatchedLink(name, upstream, self.touched)
        return self._links[name]

    def enlist(self, spec: NodeSpec) -> Node:
        if spec.name in self._nodes:
            raise known_already(spec)
        self._nodes[spec.name] = not_started(spec)
        return self._nodes[spec.name]

    def start(self, spec: NodeSpec) -> Node:
        self.enlist(spec)
        return self.restart(spec.name)

    def restart(self, name: str) -> Node:
        node = self._nodes[name]
        self.touched.add(name)
        if not node.is_alive:
            self._nodes[name] = replace(node, incarnation=node.incarnation + 1, is_alive=True)
        return self._nodes[name]

    def signal(self, *names: str, signal: str) -> None:
        self.kill(*names)

    def kill(self, *names: str) -> None:
        for name in names:
            self._nodes[name] = replace(self._nodes[name], is_alive=False)
            self.touched.add(name)

    delete_pod = evict_pod = delete_job = kill

    def drain(self, injection: str, *names: str) -> None:
        self.kill(*names)

    def kill_host(self, name: str, host: int) -> None:
        self.notice(name)
        self.kill(name)

    fail_chip = kill_host

    def notice(self, *names: str) -> None:
        """FleetError if one should not be alive."""
        for name in names:
            if not self._nodes[name].is_alive:
                raise FleetError(f"{name} is not running")
            self.touched.add(name)

    def tell(self, name: str, *_: object, **__: object) -> None:
        self.notice(name)

    def take_down(self, *names: str) -> None:
        self.kill(*names)

    def damage(self, name: str, *_: object, **__: object) -> None:
        self._nodes[name]
        self.touched.add(name)

    cut_power = damage

    def pause(self, *names: str) -> None:
        self._hold("paused", *names)

    def wedge(self, *names: str) -> None:
        self._hold("wedged", *names)

    def disconnect(self, *names: str) -> None:
        self._hold("unplugged", *names)

    def stress(self, name: str, *_: object, **__: object) -> None:
        self._hold("stressed", name)

    def fill_disk(self, name: str, *_: object, **__: object) -> None:
        self.damage(name)
        self.held.add(("full", name))

    def _hold(self, what: str, *names: str) -> None:
        self.notice(*names)
        self.held |= {(what, name) for name in names}

    def resume(self, name: str, *_: str) -> None:
        self._let_go("paused", name)

    def unwedge(self, name: str, *_: str) -> None:
        self._let_go("wedged", name)

    def reconnect(self, name: str, *_: str) -> None:
        self._let_go("unplugged", name)

    def relieve(self, name: str, *_: str) -> None:
        self._let_go("stressed", name)

    def free_disk(self, name: str, *_: str) -> None:
        self._let_go("full", name)

    def _let_go(self, what: str, name: str) -> None:
        """KeyError if there is no such node."""
        self._nodes[name]
        self.held.discard((what, name))

    def upgrade(self, name: str, *_: str) -> None:
        """KeyError if there is no such node."""
        self._nodes[name]

    def uncordon(self, injection: str) -> None:
        """Of an injection nothing is kept."""

    def beside(self, *names: str) -> Sequence[str]:
        return names

    def act_on_slices(self, _: str, *names: str) -> None:
        self.kill(*names)

    def repair_slice(self, name: str, *, is_preempted: bool = False) -> None:
        if not self._nodes[name].is_alive:
            self.restart(name)

    def probe(self, name: str) -> Observation:
        return probed(name, incarnation=self._nodes[name].incarnation, pid=0)

    def poll(self, until_s: float) -> Sequence[Observation]:
        """Nothing, once the clock shows `until_s`."""
        if isinstance(self._clock, VirtualClock):
            self._clock.advance_to(max(until_s, self._clock.now_s()))
        else:
            time.sleep(max(0.0, until_s - self._clock.now_s()))
        return ()
