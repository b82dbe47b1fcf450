"""A training of the user's own that runs on hosts already: found, broken, and left running there.

    adopt ──► agent of each host: find ─► worker-0, worker-1, … ─► adopt: a ScriptFleet there
    verbs, poll ──► as of any fleet of hosts
    leaving, a lease that ends ──► each agent leaves its nodes as it found them

What an agent does is what `attach` does on this machine, by the same code. Here is only which node
is on which host. Nodes of a host whose agent was lost count as ended until `restart` has found them
again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, FleetError, HarnessBug
from chaoslab.core.event_loop import EventLoop
from chaoslab.core.events import Json
from chaoslab.fleet.attached.found import Found, numbered, refuse_others
from chaoslab.fleet.attached.script_fleet import ScriptFleet
from chaoslab.fleet.base import Ability, Fleet, Node, NodeSite, NodeSpec, not_started
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import Attached, abilities_of
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.factory import HostFleets
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.host import Host
from chaoslab.fleet.remote.inventory import HostAccess, Inventory, WorkerPlace
from chaoslab.fleet.remote.members import Member, Placed
from chaoslab.fleet.remote.protocol.messages import as_json, read_as
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.settings import FleetRequest, Reading
from chaoslab.undo.base import UndoLog

LIBRARIES: Final = ("msgspec", "psutil")
"""All that an agent needs which starts no nodes of chaoslab's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for on the hosts, and how it is read."""

    pattern: str
    hosts: int
    """Number of hosts."""
    learners: Sequence[str]
    """Names of the workers that a plan asks for; none: all that there are."""
    reading: Reading | None

    @property
    def on_host(self) -> dict[str, Json]:
        """Arguments of `find` on a host."""
        workers = max(1, len(self.learners))
        return {"pattern": self.pattern, "workers": workers, "is_part": self.hosts > 1}

    def of_all(self, by_host: Mapping[str, Sequence[Found]]) -> Sequence[Found]:
        """All nodes, with names for the whole training."""
        found = [
            replace(one, where=f"{host}, {one.where}", handle=f"{one.handle}@{host}")
            for host, nodes in by_host.items()
            for one in nodes
        ]
        return numbered(found, f"pattern:{self.pattern}") if self.hosts > 1 else found


class AdoptingFleet(RemoteFleet, Attached):
    """A fleet of nodes that were found on hosts; see `base.Fleet` for what each verb promises."""

    _search: Search

    @property
    def node_site(self) -> NodeSite:
        return NodeSite(is_here=False)

    def use_search(self, search: Search) -> None:
        """Set what is looked for; called once, before the fleet is entered."""
        self._search = search

    def adopt(self, labels: Mapping[str, Mapping[str, str]]) -> Sequence[Node]:
        """Find the nodes and take them up; NODE_STARTED of each follows from `poll`."""
        hosts = tuple(self.ground.hosts.values())
        by_host = dict(zip((host.name for host in hosts), self._find_on(hosts), strict=True))
        found = self._search.of_all(by_host)
        refuse_others(found, self._search.learners)
        for one in found:
            host = self.ground.hosts[one.handle.partition("@")[2]]
            spec = NodeSpec(
                name=one.name, role=one.role, command=(), labels=labels.get(one.name, {})
            )
            self._placed[one.name] = Placed(
                spec=spec, node=not_started(spec), members=[Member(host=host)]
            )
        self._take_up(hosts, {one.name: one for one in found})
        return tuple(self.nodes.values())

    @property
    def refused_lines(self) -> Mapping[str, int]:
        """None: a script reports no events."""
        return {}

    def _find_on(self, hosts: Sequence[Host]) -> list[Sequence[Found]]:
        asked = self._search.on_host
        said = self._calls.side_by_side(hosts, lambda host: host.set_up("find", **asked))
        return [[read_as(Found, one) for one in answer] for answer in said]

    def _take_up(self, hosts: Sequence[Host], found: Mapping[str, Found]) -> None:
        """Have agents take up the nodes that are on their hosts."""
        if (reading := self._search.reading) is None:
            raise HarnessBug("a training on hosts is read as a script")
        here = {host.name: self._names_on(host) for host in hosts}
        adopted = self._calls.side_by_side(
            hosts,
            lambda host: host.set_up(
                "adopt",
                nodes=[as_json(_on_host(found[name])) for name in here[host.name]],
                reading=as_json(reading),
                labels={name: {**self._placed[name].spec.labels} for name in here[host.name]},
                first={name: self._placed[name].next_incarnation for name in here[host.name]},
            ),
        )
        for host, nodes in zip(hosts, adopted, strict=True):
            for node in (read_as(Node, one) for one in nodes):
                self._placed[node.name].begin(node)
                self._placed[node.name].first.told = host.session

    def _names_on(self, host: Host) -> list[str]:
        """Names of the nodes of a host, in the order in which they are found there."""
        return [name for name, one in self._placed.items() if one.first.host is host]

    def _tell_all(self, one: Placed) -> None:
        """Find all nodes of a host again, whose agent was lost. FleetError until all run."""
        host, names = one.first.host, self._names_on(one.first.host)
        (found,) = self._find_on([host])
        if len(found) != len(names):
            raise FleetError(f"{host.name}: of {', '.join(names)} only {len(found)} run")
        named = zip(names, sorted(found, key=lambda one: one.rank or 0), strict=True)
        self._take_up([host], {name: replace(one, name=name) for name, one in named})


def _on_host(one: Found) -> Found:
    """The same as its own host knows it."""
    return replace(one, handle=one.handle.partition("@")[0])


class AdoptedFleets(HostFleets):
    """Factory of fleets for a training on hosts: finds it, and makes a fleet for each run."""

    kind = "hosts"
    fleet = AdoptingFleet
    adopts = True
    needs = LIBRARIES

    def __init__(
        self,
        access: HostAccess,
        hosts: Sequence[str],
        pattern: str,
        request: FleetRequest,
        terms: Terms,
    ) -> None:
        inventory = Inventory(
            ssh=access.ssh,
            python=access.python,
            workers={host: WorkerPlace(host=host) for host in hosts},
        )
        super().__init__(inventory, request, terms)
        self._search = Search(
            pattern=pattern,
            hosts=len(hosts),
            learners=tuple(request.learners),
            reading=request.reading,
        )

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """Make the fleet of one run."""
        fleet = super().__call__(run_directory, clock, undo_log=undo_log, node_links=node_links)
        if not isinstance(fleet, AdoptingFleet):
            raise HarnessBug(f"{fleet!r} finds no nodes")
        fleet.use_search(self._search)
        return fleet

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities of processes that others have started; AbilityError or FleetError if a host
        cannot be used.
        """
        return super().abilities & abilities_of(ScriptFleet)

    def find(self) -> Sequence[Found]:
        """The nodes that run now. AbilityError if there are none, or a host cannot be asked."""
        said = self._asked("find", lambda _: self._search.on_host)
        return self._search.of_all(
            {host: [read_as(Found, one) for one in one["nodes"]] for host, one in said.items()}
        )

    def printed(self, nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:
        """The last lines that each node has printed to a file of its host."""

        def on(host: str) -> Json:
            here = [one for one in nodes if one.handle.endswith(f"@{host}")]
            return [as_json(_on_host(one)) for one in here]

        said = self._asked("printed", on)
        return {name: lines for one in said.values() for name, lines in one["printed"].items()}

    def _asked(
        self, command: str, request: Callable[[str], Json]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Answers of all hosts, by name."""
        loop = EventLoop()

        async def ask(found: HostAddress) -> Mapping[str, Any]:
            return await self._answer(found, command, request(found.address))

        try:
            answers = self._on_all(loop, ask)
        except FleetError as error:
            raise AbilityError(str(error)) from error
        finally:
            loop.close()
        return {one.address: said for one, said in zip(self.addresses, answers, strict=True)}
