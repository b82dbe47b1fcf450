"""Nodes on other hosts: a fleet that forwards each verb to the host agents concerned.

    start, kill, pause … ──► Host of each node, side by side ──► agent: a local fleet there
    poll ◄── queue ◄── observations of all agents, in the order in which they arrived

What an agent does is what the local fleet does, by the same code. Here is only what no single host
can know: which node is where, and that a host is lost. A lost host takes its nodes with it; they
can be started again when it can be reached again.

The thread that makes a fleet reads by `poll`; others carry out verbs meanwhile. Connections are on
a thread of their own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.base import (
    Ability,
    Fleet,
    Node,
    NodeSite,
    NodeSpec,
    host_number,
    known_already,
    not_started,
    say_what_remains,
)
from chaoslab.fleet.chores import Chores, Workers, taken_out
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import BringsRecords, HasChores, HasHosts, Networked
from chaoslab.fleet.remote.calls import HostCalls
from chaoslab.fleet.remote.forwarded import ForwardsVerbs
from chaoslab.fleet.remote.ground import Ground, HostSite
from chaoslab.fleet.remote.host import Host
from chaoslab.fleet.remote.host_manager import HostManager
from chaoslab.fleet.remote.links import HostLinks
from chaoslab.fleet.remote.members import Member, Placed
from chaoslab.fleet.remote.protocol.messages import as_json, read_as
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.remote.reports import Reports
from chaoslab.links.base import Link

_BATCH: Final = 2048
"""Most observations that are taken in before `poll` returns."""
_LOOK_S: Final = 0.1
"""Interval of the looks for what is due, while something will be."""


class RemoteFleet(ForwardsVerbs, Fleet, HasHosts, Networked, HasChores, BringsRecords):
    """A fleet of hosts; see `base.Fleet` and `protocols` for what each verb promises."""

    def __init__(
        self,
        place: Place,
        ground: Ground,
        *,
        kind: str,
        lacking: frozenset[Ability] = frozenset(),
        node_links: NodeLinks | None = None,
    ) -> None:
        """Records of the nodes come to `place.run_directory` when the fleet is left."""
        self.kind, self.lacking = kind, lacking
        self._clock, self.ground = place.clock, ground
        self._node_links = node_links or NodeLinks(clock=place.clock)
        made_by = self._node_links.made_by
        self._host_links = made_by if isinstance(made_by, HostLinks) else None
        if self._host_links is not None:
            self._host_links.use(ground.loop, self._host_of)
        self._placed: dict[str, Placed] = {}
        self._observed: list[Observation] = []
        self._manager = HostManager(ground, place)
        self._reports = Reports(ground, place, self._placed)
        self._calls = HostCalls(ground.loop, place.undo_log)
        self._is_open = True
        self._chores = Chores()

    # ---------------------------------------------------------------- begin and end

    def __enter__(self) -> Self:
        """Start an agent on every host that there is."""
        try:
            self._manager.start(tuple(self.ground.hosts.values()))
            self._node_links.made_by.__enter__()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all nodes, fetch their records and end the agents; FleetError names what remains."""
        if not self._is_open:
            return
        remaining = self._close_links()
        self._is_open = False
        self._calls.close()
        remaining += self._manager.part_with_all(self.is_gone_for_good)
        for one in self._placed.values():
            one.end()
        self.ground.loop.close()
        say_what_remains(remaining, error)

    def is_gone_for_good(self, host: str) -> bool:  # noqa: ARG002 - by a provider's word
        """Whether a host that cannot be reached will never be there again."""
        return False

    def _close_links(self) -> list[str]:
        """Their proxies end with their agents at the latest."""
        try:
            self._node_links.made_by.__exit__(None, None, None)
        except FleetError as refusal:
            return [str(refusal)]
        return []

    # ---------------------------------------------------------------- nodes

    @property
    def node_site(self) -> NodeSite:
        return HostSite(listen=self.ground.listen)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node ever started or enlisted; `is_alive` until `poll` has told of its exit."""
        return {name: one.node for name, one in tuple(self._placed.items())}

    def start(self, spec: NodeSpec) -> Node:
        self.enlist(spec)
        return self.restart(spec.name)

    def enlist(self, spec: NodeSpec) -> Node:
        """See `Fleet.enlist`. Its hosts are told once they are up, before it starts."""
        if spec.name in self._placed:
            raise known_already(spec)
        hosts = [self.ground.hosts[name] for name in self.ground.place(spec.name)]
        count = 1 if spec.hosts is None else spec.hosts.count
        if len(hosts) not in (1, count):
            raise FleetError(f"{spec.name} has {count} processes and {len(hosts)} hosts")
        one = Placed(
            spec=spec, node=not_started(spec), members=[Member(host=host) for host in hosts]
        )
        self._placed[spec.name] = one
        if not one.is_spread and one.first.host.is_up:
            self._tell_all(one)
        return one.node

    def restart(self, name: str) -> Node:
        """See `Fleet.restart`; its link is where it is. FleetError while a host is out of reach.

        On one that was lost an agent is started first, in the background: FleetError until it is
        up.
        """
        one = self._placed[name]
        if one.is_spread and one.is_whole:
            return one.node
        self._manager.require([member.host for member in one.members])
        if self._host_links is not None:
            self._host_links.follow(name)
        if one.is_spread:
            self._end_members(one)
        if one.is_spread or not one.first.is_known:
            self._tell_all(one)
        hosts = [member.host for member in one.members]
        begin = Host.call if one.node.incarnation else Host.set_up
        begun = self._calls.side_by_side(hosts, lambda host: begin(host, "restart", name))
        one.begin(read_as(Node, begun[0]))
        return one.node

    def _end_members(self, one: Placed) -> None:
        """All of them, before the first one starts again: they are incarnations of one node."""
        known = [member.host for member in one.members if member.is_known]
        self._calls.side_by_side(known, lambda host: host.call("end", one.spec.name))

    def _tell_all(self, one: Placed) -> None:
        """Enlist a node on its hosts, where its next incarnation follows those elsewhere."""
        first, meeting = one.next_incarnation, ""
        if one.is_spread:
            port = self._set_up(one.first.host, "free_port")
            meeting = f"{one.first.host.name}:{port}"
        for member, spec in zip(one.members, one.specs(meeting, token_hex(32)), strict=True):
            self._set_up(member.host, "enlist", spec=as_json(spec), first=first)
            member.told = member.host.session

    def kill(self, *names: str) -> None:
        self.signal(*names, signal="SIGKILL")

    def take_down(self, *names: str) -> None:
        self.kill(*names)

    def signal(self, *names: str, signal: str) -> None:
        for one in [self._placed[name] for name in names]:
            one.tell_end(range(len(one.members)))
        self._forward("signal", *names, signal=str(signal))

    def kill_host(self, name: str, host: int) -> None:
        one = self._placed[name]
        number = host_number(one.spec, host)
        if one.is_spread:
            self._require_alive(one)
            self._calls.kill_members(one, [number])
        else:
            self._forward("kill_host", name, host=number)

    def fail_chip(self, name: str, host: int) -> None:
        one = self._placed[name]
        number = host_number(one.spec, host)
        if one.is_spread:
            self._require_alive(one)
            one.tell_end([number])
            failing = one.members[number].host
            self._calls.side_by_side([failing], lambda host: host.call("fail_chip", name, host=0))
        else:
            self._forward("fail_chip", name, host=number)

    # ---------------------------------------------------------------- observations

    def probe(self, name: str) -> Observation:
        one = self._placed[name]
        seen = self._calls.probe(one)
        if self._is_open and one.first.is_known:
            self._node_links.count(name)
        return seen

    def link(self, name: str, upstream: str) -> Link:
        return self._node_links.create(name, upstream)

    @property
    def links(self) -> Mapping[str, Link]:
        return self._node_links.links

    def poll(self, until_s: float) -> Sequence[Observation]:
        self._observed += self._node_links.observed(self._chores)
        while not self._observed:
            if errors := self._chores.failed():
                raise errors[0]
            for name in [name for name, one in tuple(self._placed.items()) if one.waits]:
                self._chores.begin([name], partial(self._kill_rest, name))
            left_s = until_s - self._clock.now_s()
            if not self._take(self._wait_s(left_s)) and (left_s <= 0 or not self._is_open):
                break
        while len(self._observed) < _BATCH and self._take(0.0):
            continue
        return taken_out(self._observed)

    def bring_records(self) -> None:
        self._manager.bring_records()

    def acting(self, nodes: Iterable[str]) -> AbstractContextManager[None]:
        return self._chores.acting(nodes)

    def use_workers(self, workers: Workers) -> None:
        self._chores.workers = workers

    def _kill_rest(self, name: str) -> None:
        self._calls.kill_rest([self._placed[name]], self._clock.now_s())

    # ---------------------------------------------------------------- hosts that go and come

    def lost(self, name: str, why: str) -> None:
        """The hosts of a node are gone, as another source says: it is reported as ended."""
        hosts = [member.host for member in self._placed[name].members]
        self._calls.side_by_side(hosts, lambda one: one.give_up(why))

    def take_in(self, hosts: Sequence[HostAddress]) -> Callable[[], None]:
        """Write down that these hosts will be used; returns what starts their agents.

        That takes seconds, and any thread may call it. `rehost` does what was not done before.
        """
        return partial(self._manager.occupy, [self._manager.take_in(found) for found in hosts])

    def rehost(self, name: str, hosts: Sequence[HostAddress]) -> None:
        """The node is on these hosts from now on; `restart` starts it there.

        Nothing where it is there already. FleetError if it lives elsewhere, or one of them cannot
        be reached. Its old hosts are gone for good.
        """
        one = self._placed[name]
        old = [member.host for member in one.members]
        if [host.name for host in old if host.is_up] == [found.address for found in hosts]:
            return
        if one.node.is_alive:
            raise FleetError(f"{name} lives on {old[0].name}: it cannot be moved")
        new = [self._manager.take_in(found) for found in hosts]
        self._manager.occupy(new)
        for host in old:
            if all(host is not one for one in new):
                self._manager.forget(host)
        one.members = [Member(host=host) for host in new]

    def hosts_of(self, name: str) -> list[str]:
        """Names of the hosts of a node, that of its first process first."""
        return [member.host.name for member in self._placed[name].members]

    # ---------------------------------------------------------------- inside

    def _host_of(self, node: str) -> Host:
        """Host of a node, present or future. KeyError if it has no place."""
        one = self._placed.get(node)
        return one.first.host if one is not None else self.ground.hosts[self.ground.place(node)[0]]

    def _wait_s(self, left_s: float) -> float:
        """Time to wait for news."""
        if not self._is_open:
            return 0.0
        has_to_look = any(one.waits for one in tuple(self._placed.values()))
        return max(0.0, min(left_s, _LOOK_S) if has_to_look else left_s)

    def _take(self, limit_s: float) -> bool:
        """Take one piece of news in, after waiting for it; whether there was any."""
        told = self._reports.take(limit_s)
        self._observed += told or ()
        return told is not None

    def _set_up(self, host: Host, verb: str, /, **settings: Json) -> Json:
        value: Json
        (value,) = self._calls.side_by_side([host], lambda one: one.set_up(verb, **settings))
        return value

    def _require_alive(self, one: Placed) -> None:
        if not one.node.is_alive:
            raise FleetError(f"{one.spec.name} is not running")

    def _forward(self, verb: str, /, *names: str, **settings: Json) -> None:
        self._calls.forward([self._placed[name] for name in names], verb, **settings)
