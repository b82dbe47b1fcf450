"""Where nodes run: the `Fleet` interface, what it can do, and the fleet that does nothing.

    run ── start / kill / pause / … ──► Fleet ──► processes, containers, VMs, a simulator
        ◄── poll(until): the reports of the nodes and their exits ──

A fleet starts nodes from `NodeSpec`s, acts on them by name, and is asked for news by `poll`, the
one blocking call of the harness. It declares its abilities; a plan that needs another one is
refused before anything starts. It knows nothing of faults, plans or journals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from chaoslab.clock import Clock
from chaoslab.events import Json, Kind


class Ability(StrEnum):
    """What a fleet may be able to do to a node."""

    KILL = "kill"
    PAUSE = "pause"
    WEDGE = "wedge"
    """Stop its training thread while its heartbeats go on."""
    NOTICE = "notice"
    """Tell it that it will be preempted, then ask it to end."""


class Role(StrEnum):
    """What a node runs."""

    SYNCER = "syncer"
    LEARNER = "learner"
    EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """How to start a node. `{incarnation}` and `{directory}` in the command are filled in."""

    name: str
    role: Role
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the fleet knows it now."""

    name: str
    role: Role
    labels: Mapping[str, str]
    incarnation: int
    """Which life this is; 1 at the first start, +1 at each further one."""
    is_alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Something a node said or that happened to it; `run` stamps it into the journal."""

    source: str
    kind: Kind
    data: Mapping[str, Json]
    node_s: float | None = None


class Fleet(Protocol):
    """A group of nodes. A context manager: leaving it ends every node it started.

    Verbs on an unknown name raise KeyError; verbs the world refuses raise FleetError; verbs on a
    node that is already in that state do nothing.
    """

    kind: str
    abilities: frozenset[Ability]

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node ever started, by name."""
        ...

    def start(self, spec: NodeSpec) -> Node:
        """Start a node that has never run; a NODE_STARTED sighting follows from `poll`."""
        ...

    def restart(self, name: str) -> Node:
        """Start the next incarnation of a dead node with the same command."""
        ...

    def kill(self, name: str, *, signal: str = "SIGKILL") -> None:
        """Send a signal to the node's whole tree of processes."""
        ...

    def pause(self, name: str) -> None:
        """Stop the whole tree (as SIGSTOP does): alive, silent, sockets open."""
        ...

    def resume(self, name: str) -> None:
        """Let a paused node go on."""
        ...

    def wedge(self, name: str) -> None:
        """Hang its training thread; its heartbeats go on."""
        ...

    def unwedge(self, name: str) -> None:
        """Release a wedged training thread."""
        ...

    def notice(self, name: str) -> None:
        """Tell the node that it will be preempted soon."""
        ...

    def probe(self, name: str) -> Sighting:
        """A NODE_PROBED sighting of its main process now, from outside the node."""
        ...

    def poll(self, until_s: float) -> Sequence[Sighting]:
        """News since the last call, in order; waits for some until the clock shows `until_s`."""
        ...


class NoFleet:
    """The fleet that has no nodes: every verb is accepted, nothing ever happens but time."""

    kind = "none"
    abilities = frozenset(Ability)

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._nodes: dict[str, Node] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None
