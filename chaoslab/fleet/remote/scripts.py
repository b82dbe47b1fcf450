"""A script of the user's own that is started on hosts: each worker, or the launcher of all.

    commands, inventory ─► agent's program on each host ─► AbilityError: what is missing, and where
    start ──► agent of the node's host: begin_script, enlist, restart ─► a worker, or a launcher
                                                                          └─ its workers, found
    verbs, poll, leaving ──► as of any fleet of hosts

Files come to no host, and nothing but records comes back: `{folder}` is removed with the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, HarnessBug
from chaoslab.core.events import Json
from chaoslab.fleet.base import Fleet, Node, NodeSite, NodeSpec, not_started
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.remote.adopting import LIBRARIES
from chaoslab.fleet.remote.factory import HostFleets
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.host import Host
from chaoslab.fleet.remote.members import Placed
from chaoslab.fleet.remote.protocol.messages import as_json
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.settings import Reading
from chaoslab.plan.model.script import FOLDER, PYTHON
from chaoslab.undo.base import UndoLog

_SITE: Final = NodeSite(python=PYTHON, folder=FOLDER, is_here=False)
"""Filled in by the agent."""


class RemoteScriptFleet(RemoteFleet):
    """A fleet of hosts on which a script runs; see `base.Fleet` for what each verb promises."""

    _reading: Reading
    _workdir: str

    @property
    def node_site(self) -> NodeSite:
        return _SITE

    def use_script(self, reading: Reading, workdir: str) -> None:
        """Set what is read of it, and where it runs; called once, before the fleet is entered."""
        self._reading, self._workdir = reading, workdir
        self._launchers: dict[str, str] = {}
        """The launcher of each node that has one."""
        self._begun: set[str] = set()
        """Sessions of agents that read its files."""

    def enlist(self, spec: NodeSpec) -> Node:
        """See `Fleet.enlist`; workers of a launcher are on its host, and known there with it."""
        node = super().enlist(spec)
        for worker in spec.launches:
            members = self._placed[spec.name].members
            self._placed[worker.name] = Placed(
                spec=worker, node=not_started(worker), members=members
            )
            self._launchers[worker.name] = spec.name
        return node

    def restart(self, name: str) -> Node:
        """See `Fleet.restart`. An agent that is new starts the launcher before a worker of it."""
        above = self._launchers.get(name)
        if above is not None and not self._placed[name].first.is_known:
            self.restart(above)
        return super().restart(name)

    def _tell_all(self, one: Placed) -> None:
        """Tell the agent of its host, or of its launcher's, which reads its files from then on."""
        told = self._placed[self._launchers.get(one.spec.name, one.spec.name)]
        spec, host = told.spec, told.first.host
        known = {node.name for node in (spec, *spec.launches)} & self._placed.keys()
        first = max(self._placed[name].next_incarnation for name in known)
        if host.session not in self._begun:
            reading = as_json(self._on_host(host.name, is_all=bool(spec.launches)))
            self._call(host, "begin_script", reading=reading, workdir=self._workdir)
            self._begun.add(host.session)
        here = as_json(replace(spec, workdir=self._workdir))
        self._call(host, "enlist", spec=here, first=first)
        told.first.told = host.session

    def _on_host(self, host: str, *, is_all: bool) -> Reading:
        """What is read there: files of the workers of that host, or all of a launcher's."""

        def is_there(worker: str) -> bool:
            return is_all or self.ground.place(worker) == (host,)

        return replace(
            self._reading,
            sources={name: one for name, one in self._reading.sources.items() if is_there(name)},
            saves={name: one for name, one in self._reading.saves.items() if is_there(name)},
        )

    def _call(self, host: Host, verb: str, **settings: Json) -> None:
        self._calls.side_by_side([host], lambda one: one.set_up(verb, **settings))


class ScriptFleets(HostFleets):
    """Factory of fleets for a script: looks for it on the hosts, and makes a fleet for each run."""

    fleet = RemoteScriptFleet
    needs = LIBRARIES

    @property
    def addresses(self) -> Sequence[HostAddress]:
        """The hosts of what is started."""
        hosts = [host for name in self._request.commands for host in self.inventory.hosts_of(name)]
        return [HostAddress(address=host) for host in dict.fromkeys(hosts)]

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """Make the fleet of one run."""
        fleet = super().__call__(run_directory, clock, undo_log=undo_log, node_links=node_links)
        if not isinstance(fleet, RemoteScriptFleet) or self._request.reading is None:
            raise HarnessBug(f"{fleet!r} starts no script")
        fleet.use_script(self._request.reading, self._workdir)
        return fleet

    @property
    def _workdir(self) -> str:
        return self.inventory.workdir or str(Path.cwd())

    async def _facts(self, found: HostAddress) -> Mapping[str, Any]:
        """The same; AbilityError if a command cannot be started there."""
        here = [
            list(words)
            for name, words in self._request.commands.items()
            if self.inventory.hosts_of(name) == (found.address,)
        ]
        request: Json = {"workdir": self._workdir, "commands": here}
        facts = await self._answer(found, "startable", request)
        if facts["problem"]:
            raise AbilityError(f"{found.address}: {facts['problem']}")
        return facts
