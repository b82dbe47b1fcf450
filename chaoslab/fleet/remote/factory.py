"""Factory of fleets of hosts: reaches them, brings what they lack, and makes a fleet for each run.

abilities ─► every host, side by side: code, libraries ─► what all of them can do
a run ─────► Ground: its hosts and the places of its nodes ─► RemoteFleet
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, ChaoslabError
from chaoslab.core.event_loop import EventLoop, ResultT, first_error
from chaoslab.core.events import Json, encode
from chaoslab.fleet.base import Ability, Fleet, NodeSite
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import abilities_of
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.delivery.bootstrap import NEEDED
from chaoslab.fleet.remote.delivery.deliver import Program, deliver
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.ground import Ground
from chaoslab.fleet.remote.inventory import Inventory
from chaoslab.fleet.remote.protocol.names import AGENT
from chaoslab.fleet.remote.protocol.reach import HostAddress, Reach, asked
from chaoslab.fleet.remote.ssh.access import Access
from chaoslab.fleet.remote.ssh.connection import SshReach
from chaoslab.fleet.run_name import run_name
from chaoslab.fleet.settings import TRIAL_S, FleetRequest, problem_in
from chaoslab.undo.base import UndoLog

_READY_S: Final = 2400.0
"""Time limit of the delivery to hosts, libraries of an accelerator included."""


class HostFleets:
    """Makes the fleets of one plan; see `FleetFactory`."""

    kind = "ssh"
    fleet: ClassVar[type[RemoteFleet]] = RemoteFleet
    """Fleet that it makes."""
    adopts: ClassVar[bool] = False
    """Whether its nodes are those of a training that runs already."""
    needs: ClassVar[Sequence[str]] = NEEDED
    """Libraries that the interpreter of a host has to have."""

    def __init__(self, inventory: Inventory, request: FleetRequest, terms: Terms) -> None:
        self.inventory, self._request, self._terms = inventory, request, terms
        self._ready: dict[str, tuple[Access, Program]] = {}
        """Hosts that have all they need, by name."""

    @property
    def addresses(self) -> Sequence[HostAddress]:
        """The hosts that there are now."""
        return [HostAddress(address=host) for host in self.inventory.hosts]

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities on every host. AbilityError or FleetError if one cannot be used."""
        return abilities_of(self.fleet) - self._lacking

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """Make the fleet of one run."""
        run, loop = run_name(run_directory.resolve()), EventLoop()
        ground = Ground(
            loop=loop,
            hosts={},
            place=self.inventory.hosts_of,
            make_ready=self.make_ready,
            undo_facts=lambda host: undo_facts(*self._ready[host], run),
            news=SimpleQueue(),
            run=run,
            listen=self.inventory.listen,
            terms=self._terms,
            adopts=self.adopts,
        )
        try:
            lacking = self._lacking
            for reach, program in self._on_all(loop, self.make_ready):
                ground.add(reach, program)
        except BaseException:
            loop.close()
            raise
        return self.fleet(
            Place(run_directory=run_directory, clock=clock, undo_log=undo_log), ground,
            kind=self.kind, lacking=lacking, node_links=node_links,
        )  # fmt: skip

    async def make_ready(self, found: HostAddress) -> tuple[Reach, Program]:
        """Bring what a host lacks. AbilityError if it can never do; FleetError if not now."""
        access = replace(self.inventory.ssh.access(found.address), host_keys=found.host_keys)
        reach = SshReach(access)
        if self._ready.get(reach.name, (None,))[0] != access:
            try:
                program = await deliver(
                    reach, self.inventory.python, self.more(reach.name), self.needs
                )
                self._ready[reach.name] = (access, program)
            except ChaoslabError:
                await reach.close()
                raise
        return reach, self._ready[reach.name][1]

    def more(self, host: str) -> Sequence[str]:  # noqa: ARG002 - for hosts with accelerators
        """Further requirements of a host, as lines of a requirements file."""
        return ()

    # ---------------------------------------------------------------- what hosts can do

    @cached_property
    def _lacking(self) -> frozenset[Ability]:
        loop = EventLoop()
        try:
            facts = self._on_all(loop, self._facts)
            if problem := loop.run(self._tried(), within_s=_READY_S):
                raise AbilityError(f"training.task, tried on a host: {problem}")
        finally:
            loop.close()
        return frozenset(Ability(name) for one in facts for name in one["lacking"])

    async def _facts(self, found: HostAddress) -> Mapping[str, Any]:
        return await self._answer(found, "facts")

    async def _answer(
        self, found: HostAddress, command: str, request: Json = None
    ) -> Mapping[str, Any]:
        """Answer of a host to a command of its agent's program, without an agent."""
        reach, program = await self.make_ready(found)
        try:
            words = program.command("-m", AGENT, command)
            return await asked(reach, words, stdin=encode(request).encode())
        finally:
            await reach.close()

    async def _tried(self) -> str | None:
        """Mistake in a task of the plan's own, on the host of the last learner."""
        trial = self._request.trial(NodeSite(python="python"))
        if trial is None:
            return None
        reach, program = await self.make_ready(self.addresses[-1])
        assigned = [f"{name}={value}" for name, value in trial.environment.items()]
        command = ("env", *assigned, *program.command(*trial.argv[1:]))
        try:
            ran = await reach.run(command, within_s=TRIAL_S)
        finally:
            await reach.close()
        return problem_in(ran.stdout.decode(errors="replace"), ran.stderr.decode(errors="replace"))

    def _on_all(
        self, loop: EventLoop, work: Callable[[HostAddress], Coroutine[Any, Any, ResultT]]
    ) -> list[ResultT]:
        """Results of work on each host, side by side; the first error."""
        found = loop.together(map(work, self.addresses), within_s=_READY_S)
        first_error(found)
        return [one for one in found if not isinstance(one, BaseException)]


def undo_facts(access: Access, program: Program, run: str) -> Mapping[str, Json]:
    """Facts by which a later process ends the agent of a run: see `undo_verbs.AgentFacts`."""
    return {**asdict(access), **asdict(program), "run": run, "host_keys": list(access.host_keys)}
