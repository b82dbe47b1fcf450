"""The fleet that does nothing: it keeps the books, and no process ever runs.

It keeps every promise of `fleet.base.Fleet` that can be kept without one. For what needs a fleet
and must touch nothing.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from chaoslab.core.clock import Clock, VirtualClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.base import (
    Ability,
    Damage,
    Node,
    NodeSite,
    NodeSpec,
    gone,
    known_already,
    probed,
)
from chaoslab.fleet.stressors import Stressor
from chaoslab.links.base import Link, NoLinks


class NoFleet:
    """The fleet that has no nodes: every verb is accepted, nothing ever happens but time.

    It keeps the books (names, incarnations, who should be alive) and never has news.
    """

    kind = "none"
    abilities = frozenset(Ability)
    node_site = NodeSite()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nodes: dict[str, Node] = {}
        self._links = NoLinks()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill(*self._nodes)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node that was asked for."""
        return dict(self._nodes)

    def start(self, spec: NodeSpec) -> Node:
        """Write the name down; FleetError if it is there already."""
        node = replace(self.enlist(spec), incarnation=1, is_alive=True)
        self._nodes[spec.name] = node
        return node

    def enlist(self, spec: NodeSpec) -> Node:
        """Write the name down as one that should be dead; FleetError if it is there already."""
        if spec.name in self._nodes:
            raise known_already(spec)
        self._nodes[spec.name] = gone(spec)
        return self._nodes[spec.name]

    def restart(self, name: str) -> Node:
        """Count one incarnation more, unless it should be alive."""
        node = self._nodes[name]
        if not node.is_alive:
            self._nodes[name] = replace(node, incarnation=node.incarnation + 1, is_alive=True)
        return self._nodes[name]

    def kill(self, *names: str, signal: str = "SIGKILL") -> None:  # noqa: ARG002 - the protocol's
        """Write down that they should be dead."""
        for name in names:
            self._nodes[name] = replace(self._nodes[name], is_alive=False)

    def pause(self, *names: str) -> None:
        """Nothing, to nodes that should be alive."""
        for name in names:
            self._require_alive(name)

    def resume(self, name: str) -> None:
        """Nothing."""
        self._nodes[name]

    def wedge(self, name: str) -> None:
        """Nothing, to a node that should be alive."""
        self._require_alive(name)

    def unwedge(self, name: str) -> None:
        """Nothing."""
        self._nodes[name]

    def notice(self, name: str) -> None:
        """Nothing, to a node that should be alive."""
        self._require_alive(name)

    def tell(self, name: str, do: str, **facts: Json) -> None:  # noqa: ARG002 - the protocol's
        """Nothing, to a node that should be alive."""
        self._require_alive(name)

    def stressor(self, name: str, injection: str, stressor: Stressor) -> None:  # noqa: ARG002
        """Nothing, to a node that should be alive."""
        self._require_alive(name)

    def relieve(self, name: str, injection: str) -> None:  # noqa: ARG002
        """Nothing."""
        self._nodes[name]

    def unplug(self, name: str) -> None:
        """Nothing, to a node that should be alive."""
        self._require_alive(name)

    def plug(self, name: str) -> None:
        """Nothing."""
        self._nodes[name]

    def upgrade(self, name: str, release: str) -> None:  # noqa: ARG002 - the protocol's
        """Nothing."""
        self._nodes[name]

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:  # noqa: ARG002
        """Nothing: there are no files."""
        self._nodes[name]

    def fill_disk(self, name: str) -> None:
        """Nothing."""
        self._nodes[name]

    def free_disk(self, name: str) -> None:
        """Nothing."""
        self._nodes[name]

    def cut_power(self, name: str) -> None:
        """Nothing: there are no files."""
        self._nodes[name]

    def probe(self, name: str) -> Observation:
        """There is no process, so its state is `gone`."""
        return probed(name, incarnation=self._nodes[name].incarnation, pid=0)

    def link(self, name: str, upstream: str) -> Link:
        """None: the node dials `upstream` itself."""
        return self._links.create(name, upstream)

    @property
    def links(self) -> Mapping[str, Link]:
        """Every link that was asked for."""
        return self._links.links

    def poll(self, until_s: float) -> Sequence[Observation]:
        """No news, ever; the clock shows `until_s` afterwards, or more."""
        left_s = until_s - self._clock.now_s()
        if left_s <= 0:
            return ()
        if isinstance(self._clock, VirtualClock):
            self._clock.advance_to(until_s)
        else:
            time.sleep(left_s)
        return ()

    def _require_alive(self, name: str) -> None:
        if not self._nodes[name].is_alive:
            raise FleetError(f"{name} is not running")
