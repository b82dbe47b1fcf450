"""One host of a remote fleet: its host agent, started, left, started again when lost.

Host ─ start: agent start RUN ─► agent ◄─ AgentClient ── calls
└ arrived, lost ──► the fleet's queue
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from chaoslab.core.errors import ChaoslabError, FleetError, HarnessBug
from chaoslab.core.event_loop import ResultT
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.remote.client import AgentClient
from chaoslab.fleet.remote.contact import Gap, Terms
from chaoslab.fleet.remote.protocol.names import ADOPTS, AGENT
from chaoslab.fleet.remote.protocol.reach import Reach, asked

_START_S: Final = 90.0
"""Longer than a host agent may take to come up."""
_END_S: Final = 60.0


class Runs(Protocol):
    """Command that runs chaoslab on a host; `delivery.deliver.Program` is one."""

    def command(self, *words: str) -> tuple[str, ...]:
        """A command line that runs its interpreter with these words."""
        ...


@dataclass(slots=True, kw_only=True)
class Host:
    """One host. All methods run on the loop."""

    reach: Reach
    run: str
    """Name of the run there."""
    program: Runs
    """Command that runs chaoslab there."""
    arrived: Callable[["Host", Observation, int], object]
    back: Callable[["Host", Gap], object]
    lost: Callable[["Host", ChaoslabError], object]
    terms: Terms = field(default_factory=Terms)
    adopts: bool = False
    """Whether its nodes are those of a training that runs there already."""
    folder: str = ""
    """Folder of the run there, once the agent was started."""
    _client: AgentClient | None = None

    @property
    def name(self) -> str:
        return self.reach.name

    @property
    def agent(self) -> AgentClient:
        """The client of its agent; HarnessBug before it was started."""
        if self._client is None:
            raise HarnessBug(f"the host agent of {self.name} was not started")
        return self._client

    @property
    def is_up(self) -> bool:
        """Whether its agent was started and is not lost."""
        return self._client is not None and not self._client.is_lost

    @property
    def is_silent(self) -> bool:
        """Whether it was not heard for half of the time after which calls are given up."""
        return not self.is_up or self.agent.silent_s > self.terms.answer_s / 2

    @property
    def contact(self) -> tuple[str, int] | None:
        """The present connection to its agent: session and number; None without one."""
        if not self.is_up or not self.agent.is_connected:
            return None
        return self.agent.session, self.agent.cuts

    @property
    def session(self) -> str:
        """Session of its agent, which does not know earlier ones' calls; empty: none is up."""
        return self.agent.session if self.is_up else ""

    def _agent(self, command: str, *flags: str) -> tuple[str, ...]:
        return self.program.command("-m", AGENT, command, self.run, *flags)

    async def start(self) -> None:
        """Start the agent and connect to it. FleetError if it does not come up.

        One that was lost is ended first: what it still does is of no run any more.
        """
        if self._client is not None:
            await self.halt()
        flags = ("--lease-s", repr(self.terms.lease_s), *((ADOPTS,) if self.adopts else ()))
        found = await asked(self.reach, self._agent("start", *flags), within_s=_START_S)
        socket, self.folder = str(found["socket"]), str(found["folder"])
        client = AgentClient(
            host=self.name,
            connect=lambda: self.reach.connect(socket),
            arrived=lambda seen, number: self.arrived(self, seen, number),
            back=lambda gap: self.back(self, gap),
            lost=lambda error: self.lost(self, error),
            lease_s=self.terms.lease_s,
            lost_s=self.terms.lost_s,
        )
        await client.open()
        self._client = client

    def take(self, number: int) -> None:
        """Note that everything up to this number was taken in: its agent drops it. Any thread."""
        if self._client is not None:
            self._client.taken = number

    async def give_up(self, why: str) -> None:
        """Treat its agent as lost, whatever it answers; `lost` is told."""
        if self._client is not None:
            await self._client.give_up(why)

    async def call(self, verb: str, /, *names: str, due_s: Json = None, **settings: Json) -> Json:
        """Have its agent carry out a verb, whose effect is due in `due_s`. OutOfReach if the agent
        is silent meanwhile, AgentLost if it is lost.
        """
        answer_s = self.terms.answer_s
        return await self.agent.call(verb, *names, due_s=due_s, answer_s=answer_s, **settings)

    async def set_up(self, verb: str, /, *names: str, **settings: Json) -> Json:
        """As `call`, and wait until the agent answers or is lost: for what is done before training,
        or must not be done twice.
        """
        return await self.agent.call(verb, *names, due_s=None, answer_s=math.inf, **settings)

    async def within_reach(self, work: Callable[[], ResultT]) -> ResultT:
        """Result of work that needs a way to this host, on a thread of its own. OutOfReach if
        the agent is silent meanwhile: the work is not waited for any longer.
        """
        working = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            await self.agent.wait_for(working, self.terms.answer_s)
            return await working
        finally:
            working.cancel()

    async def leave(self) -> str:
        """End all of its nodes; what remains, in words."""
        if self._client is None:
            return ""
        return str(await self._client.call("leave"))

    async def dismiss(self) -> None:
        """End the agent, which has left its fleet, and the connection to it."""
        if self._client is None:
            return
        await self._client.call("dismiss")
        await self._client.close()
        self._client = None

    async def halt(self) -> None:
        """End the agent, whatever it does, and undo what is left. FleetError names the rest."""
        if self._client is not None:
            await self._client.close()
        self._client = None
        await asked(self.reach, self._agent("halt"), within_s=_END_S)

    async def fetch(self) -> bytes:
        """Output and ends of the nodes, as a tar file."""
        ran = await self.reach.run(self._agent("record"))
        if ran.code != 0:
            raise FleetError(f"{self.name}: its records cannot be fetched: {ran.stderr[-300:]!r}")
        return ran.stdout

    async def remove(self) -> None:
        """Remove the folder of the run."""
        await asked(self.reach, self._agent("remove"))
