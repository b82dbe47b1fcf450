"""Interface of all fleets, in which nodes run, and what passes through it.

    run ── start / restart / kill / probe ──► Fleet ──► processes, containers, VMs, a simulator
        ◄── poll(until): the reports of the nodes, their exits, the state of their links ──

A fleet starts nodes from `NodeSpec`s, acts on them by name, and is asked for news by `poll`, the
one blocking call of the harness. What it can do beside (`protocols`) are its abilities; a plan that
needs another one is refused before anything starts. It knows nothing of faults, plans or journals.
Whatever it does that outlives a call, it first writes down in an `UndoLog`, so that another process
can undo it.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import NodeProbed
from chaoslab.trainers.reading import Patterns
from chaoslab.undo.facts import is_loopback


class Ability(StrEnum):
    """Ability of a fleet."""

    KILL = "kill"
    PAUSE = "pause"
    WEDGE = "wedge"
    """Stop its training thread while its heartbeats go on."""
    NOTICE = "notice"
    """Tell it that it will be preempted, then ask it to end."""
    LINK = "link"
    """Let it reach another node by a link; what can be done to that is up to the links."""
    HOOKS = "hooks"
    """Ask something of it through its own test hooks, by `tell`."""
    STORAGE = "storage"
    """Damage the files that it keeps."""
    SLOW = "slow"
    """Slow it, by some mechanism; QUOTA and DUTY_CYCLE name one, and so does HOOKS."""
    QUOTA = "quota"
    """Give it no more than a part of the CPU time that it used."""
    DUTY_CYCLE = "duty_cycle"
    """Stop and continue it many times a second."""
    CROWD = "crowd"
    """Put processes beside it that compute or occupy memory."""
    MEMORY_LIMIT = "memory_limit"
    """Let the kernel kill it out of memory."""
    VOLUME = "volume"
    """Keep its files on a volume of its own, which can be full."""
    CUT_POWER = "cut_power"
    """Let it keep its files where a power cut loses what was not flushed."""
    DISCONNECT = "disconnect"
    """Take it from its network, and connect it again."""
    UPGRADE = "upgrade"
    """Let its next incarnation run another release."""
    HOSTS = "hosts"
    """End the process of one of its hosts."""
    SLICE = "slice"
    """Delete, stop or preempt the slice of a provider that it runs on, and get another."""
    POD = "pod"
    """Delete or evict the pod that it runs in."""
    JOB = "job"
    """Delete the Job that it runs in."""
    DRAIN = "drain"
    """Drain the machine of a cluster that it runs on."""


class Damage(StrEnum):
    """Damage to a file that a node keeps."""

    CORRUPT = "corrupt"
    """One byte of the file changes; length and name stay."""
    TRUNCATE = "truncate"
    """The second half of the file is removed."""
    LOSE = "lose"
    """The file is gone."""


class Role(StrEnum):
    """Program that a node runs."""

    SYNCER = "syncer"
    LEARNER = "learner"
    EVALUATOR = "evaluator"
    LAUNCHER = "launcher"
    """Starts the workers of a training that is not chaoslab's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSite:
    """Facts in a node's command line about its place."""

    python: str = sys.executable
    """The interpreter there."""
    listen: str = "127.0.0.1:0"
    """host:port where the syncer listens; port 0 takes a free one."""
    snapshots: str | None = None
    """A folder there that syncer and evaluator share; None: in the run's own record."""
    cache: str | None = None
    """The folder of compiled steps there; None: that of this machine."""
    folder: str | None = None
    """The folder there in which a script may keep files; None: in the run's own record."""
    flags: tuple[str, ...] = ()
    """More flags for the syncer and the learners."""
    is_here: bool = True
    """Whether the files of a training of the user's own are on this machine."""

    @property
    def needs_tls(self) -> bool:
        """Whether other machines may reach the syncer: everywhere but on loopback."""
        return not is_loopback(self.listen.rpartition(":")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Processes of a node of several hosts, each with devices of its own.

    On one machine the command of the node starts all of them. A fleet that has a machine for each
    starts the command once on each, with these flags and this variable beside.
    """

    count: int
    """Number of hosts, at least 2."""
    flags: tuple[str, ...]
    """Filled in: `{host}`, the number of this host, from 0, and `{meeting}`, host:port of a free
    port on the machine of host 0 that all of them reach."""
    secret: str
    """Name of the environment variable for what the processes of an incarnation share, and no
    other knows; the fleet draws it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """How to start a node.

    Filled in in its command: `{incarnation}`, `{directory}`, and `{private}`, the folder of its
    private files.
    """

    name: str
    role: Role
    command: tuple[str, ...]
    workdir: str = ""
    """Folder in which it is started; empty: that of the fleet's own process."""
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More of its environment, which no file and no command line may show."""
    private_files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files that it alone may read, such as keys, by name. They are there before it starts, outside
    the record, with mode 0600, and removed at the end of the run."""
    labels: Mapping[str, str] = field(default_factory=dict)
    hosts: Hosts | None = None
    """Hosts of the node, if there are several."""
    hears: bool = False
    """Whether its standard input stays open for `tell`; else it is empty."""
    reads: Patterns | None = None
    """Lines by which a training that is not chaoslab's own says where it is, on both of its
    streams; None: it prints events."""
    launches: tuple["NodeSpec", ...] = ()
    """Nodes that its program starts by itself, in the order of their ranks, without a command."""
    restarts: bool = False
    """Whether it also starts them again when they have ended."""
    keeps: str = ""
    """Folder, relative or absolute, whose files outlive each of its incarnations."""
    keeps_names: str = "*"
    """Pattern of the paths in that folder that belong to the node, each one state of it."""
    has_volume: bool = False
    """Whether that folder is a volume of its own, for `fill_disk`."""
    loses_power: bool = False
    """Whether it is on a file system of its own instead, for `cut_power`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the fleet knows it now."""

    name: str
    role: Role
    labels: Mapping[str, str]
    incarnation: int
    """1 at the first start, +1 at each further one; 0 before it."""
    is_alive: bool
    is_ending: bool = False
    """Whether others, such as a cluster, were asked to end it and have not done so yet."""


class Fleet(Protocol):
    """A group of nodes. A context manager: leaving it ends every node it started.

    What a fleet can do beside this are further protocols (`protocols`). Verbs on an unknown name
    raise KeyError; verbs the world refuses raise FleetError. While `poll` waits, other threads call
    verbs, at most one at a time for each node.
    """

    kind: str
    """The fleet's name in plans."""
    verb_s: float = 300.0
    """Longest time of a verb: longer than the limits of its own calls, whose errors say more. 0:
    verbs take no time, and are called in place."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def node_site(self) -> NodeSite:
        """Facts in command lines about the place in which nodes run."""
        ...

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node ever started or enlisted, by name."""
        ...

    def start(self, spec: NodeSpec) -> Node:
        """Start a node that has never run; a NODE_STARTED observation follows from `poll`."""
        ...

    def enlist(self, spec: NodeSpec) -> Node:
        """Know a node that is to run later: dead, of incarnation 0, until `restart` starts it.

        Nothing is seen of it before. FleetError if its name is known already.
        """
        ...

    def restart(self, name: str) -> Node:
        """Start the next incarnation of a dead node with the same command.

        A node that `kill` has hit and that is still ending is waited for, ended by force if it
        takes long, and then started. Any other living node is left as it is.
        """
        ...

    def kill(self, *names: str) -> None:
        """End the nodes' whole trees of processes by SIGKILL, as close together as possible."""
        ...

    def signal(self, *names: str, signal: str) -> None:
        """Send a signal that ends processes, such as SIGTERM, to the nodes' whole trees.

        FleetError if no signal has that name.
        """
        ...

    def probe(self, name: str) -> Observation:
        """A NODE_PROBED observation of its main process now, from outside the node.

        If it has a link that counts, a LINK_COUNTED observation of that follows from `poll`.
        """
        ...

    def poll(self, until_s: float) -> Sequence[Observation]:
        """News since the last call, in order; waits for some until the clock shows `until_s`."""
        ...


def host_number(spec: NodeSpec, host: int) -> int:
    """Number of a host of the node, from 0; -1 is the last. FleetError if it has no such host."""
    count = 1 if spec.hosts is None else spec.hosts.count
    if not -count <= host < count:
        raise FleetError(f"{spec.name} has no host {host}: it has {count}, counted from 0")
    return host % count


def not_started(spec: NodeSpec) -> Node:
    """A node that was enlisted and has not run yet."""
    return Node(name=spec.name, role=spec.role, labels=spec.labels, incarnation=0, is_alive=False)


def say_what_remains(
    remaining: Iterable[str], error: BaseException | None, troubles: Iterable[FleetError] = ()
) -> None:
    """After a fleet was left: FleetError names what could not be ended, and errors that were to be
    raised and were not yet; or a note on `error`.
    """
    said = [str(trouble) for trouble in troubles]
    if remaining := tuple(dict.fromkeys(remaining)):
        said.append(f"what could not be ended: {'; '.join(remaining)}")
    if not said:
        return
    left = FleetError("; ".join(said))
    if error is None:
        raise left
    error.add_note(str(left))


def known_already(spec: NodeSpec) -> FleetError:
    """Error for a node that is started or enlisted twice."""
    return FleetError(f"{spec.name} was started or enlisted before; use restart")


def probed(
    name: str,
    *,
    incarnation: int,
    pid: int,
    state: str = "gone",
    rss_bytes: int = 0,
    cpu_s: float = 0.0,
) -> Observation:
    """The NODE_PROBED observation of a process; by default of one that is gone."""
    return Observation.of(
        name,
        NodeProbed(
            node=name,
            incarnation=incarnation,
            pid=pid,
            state=state,
            rss_bytes=rss_bytes,
            cpu_s=cpu_s,
        ),
    )
