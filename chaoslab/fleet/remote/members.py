"""A node on hosts: one process, or one on each of several hosts, which are one node to all others.

    member 0 ── starts, exits ──┐                ┌─ node.started, then host.started of each
    member 1 ── starts, exits ──┴─► Placed.see ──┴─ host.lost of the first that was lost,
                                                    node.exited once all of them have ended

When one of its processes ends, so do the others, and the node with them: see `hosts_life`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from chaoslab.core.events import Kind, Observation
from chaoslab.core.payloads import NodeExited, NodeStarted
from chaoslab.fleet.base import Node, NodeSpec
from chaoslab.fleet.hosts_life import HostsLife, of_one_host
from chaoslab.fleet.remote.host import Host

_OF_FIRST: Final = frozenset({Kind.NODE_STRESSED, Kind.NODE_RELIEVED, Kind.NODE_COUNTED})
"""Events that all members report alike, and the first one reports for all."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One process of a node, with its agent."""

    host: Host
    told: str = ""
    """Session of the agent that knows the node; empty: none does."""

    @property
    def is_known(self) -> bool:
        """Whether the agent that is there now knows the node."""
        return bool(self.told) and self.told == self.host.session


@dataclass(slots=True, kw_only=True)
class Placed:
    """A node, its members, and what is known of it."""

    spec: NodeSpec
    node: Node
    members: list[Member]
    pid: int = 0
    _lives: dict[int, HostsLife] = field(default_factory=dict)
    _changing: Lock = field(default_factory=Lock)
    """Held while `node` changes: a verb starts it, and `poll` reads that it has ended."""

    @property
    def is_spread(self) -> bool:
        """Whether it has a process on each of several hosts."""
        return len(self.members) > 1

    @property
    def first(self) -> Member:
        """The member that speaks for the node."""
        return self.members[0]

    @property
    def is_whole(self) -> bool:
        """Whether it lives and nothing was done that ends it."""
        life = self._lives.get(self.node.incarnation)
        return self.node.is_alive and not (life is not None and (life.is_told or life.exits))

    @property
    def next_incarnation(self) -> int:
        """Number of the next one: after all that were begun, also by some of its members alone."""
        return 1 + max(self.node.incarnation, *self._lives, 0)

    def specs(self, meeting: str, secret: str) -> Iterator[NodeSpec]:
        """Specification of each member; `meeting` is where all of them meet."""
        for number in range(len(self.members)):
            yield (
                of_one_host(self.spec, str(number), meeting, secret)
                if self.is_spread
                else self.spec
            )

    def begin(self, node: Node) -> None:
        """It runs as this node."""
        with self._changing:
            self.node = node

    def _live(self, incarnation: int) -> None:
        """It lives, as others may have started it."""
        with self._changing:
            if incarnation > self.node.incarnation:
                self.node = replace(self.node, incarnation=incarnation, is_alive=True)

    def end(self, incarnation: int | None = None) -> None:
        """It has ended, unless another incarnation runs than this one."""
        with self._changing:
            if incarnation in (None, self.node.incarnation):
                self.node = replace(self.node, is_alive=False)

    def tell_end(self, numbers: Sequence[int]) -> None:
        """These members are told to end now."""
        self._life(self.node.incarnation).tell_end(numbers)

    # ---------------------------------------------------------------- observations

    def see(self, host: Host, seen: Observation, now_s: float) -> list[Observation]:
        """Events that follow from an observation of the agent of one of its hosts."""
        number = next((n for n, one in enumerate(self.members) if one.host is host), None)
        if number is None:  # of a host that it has left
            return []
        said = seen.payload
        if isinstance(said, NodeStarted):
            return self._started(number, said)
        if isinstance(said, NodeExited):
            return self._exited(number, said, now_s)
        return [] if number and seen.kind in _OF_FIRST else [seen]

    def _started(self, number: int, said: NodeStarted) -> list[Observation]:
        if number == 0:
            self.pid = said.pid
            self._live(said.incarnation)
        started = Observation.of(self.spec.name, said)
        if not self.is_spread:
            return [started]
        life = self._life(said.incarnation)
        life.pids[number] = said.pid
        if number == 0:
            hosts = (life.host_started(one, said.incarnation) for one in sorted(life.pids))
            return [started, *hosts]
        return [life.host_started(number, said.incarnation)] if 0 in life.pids else []

    def _exited(self, number: int, said: NodeExited, now_s: float) -> list[Observation]:
        told = [Observation.of(self.spec.name, said)]
        if self.is_spread:
            told = self._life(said.incarnation).exited(number, said, now_s)
        has_ended = any(one.kind is Kind.NODE_EXITED for one in told)
        if has_ended:
            self.end(said.incarnation)
        return told

    # ---------------------------------------------------------------- ends

    @property
    def waits(self) -> bool:
        """Whether some of its members will have to be killed."""
        life = self._lives.get(self.node.incarnation)
        return life is not None and life.waits

    def due(self, now_s: float) -> list[int]:
        """Members that are to be killed now, because another one has ended."""
        life = self._lives.get(self.node.incarnation)
        return [] if life is None else life.due(now_s)

    def exits_of_host(
        self, host: Host, why: str, now_s: float, *, by_lease: bool = False
    ) -> list[Observation]:
        """Exits of its member on a host that is lost."""
        numbers = [n for n, one in enumerate(self.members) if one.host is host]
        if not self.node.is_alive or not numbers:
            return []
        life = self._life(self.node.incarnation)
        if numbers[0] in life.exits:
            return []
        pid = life.pids.get(numbers[0], self.pid)
        exited = NodeExited(
            node=self.spec.name,
            incarnation=self.node.incarnation,
            pid=pid,
            sent=(),
            host_lost=True,
            lease_over=by_lease,
            last_words=why,
        )
        return self._exited(numbers[0], exited, now_s)

    def _life(self, incarnation: int) -> HostsLife:
        life = HostsLife(node=self.spec.name, count=len(self.members))
        return self._lives.setdefault(incarnation, life)
