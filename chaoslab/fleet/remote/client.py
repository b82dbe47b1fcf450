"""Client of one host agent: calls with answers, observations in order, over connections that break.

    call ─► id ─► connection ─► agent        a connection breaks: the next one attaches after
    arrivals ◄── seen, by number ◄──┘        the last number, and sends again what has no answer

It runs on an event loop. `Connect` gives a new stream to the agent's socket, directly or through
ssh. Nothing is lost and nothing is done or told twice while the agent lives; when it does not come
back within `lost_s`, it is lost, and so are its nodes.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from chaoslab.core.errors import ChaoslabError, FleetError, HarnessBug
from chaoslab.core.events import Json, Observation, encode
from chaoslab.fleet.remote.contact import (
    GAP_S,
    AgentLost,
    Gap,
    OutOfReach,
    OwnStall,
    Silence,
)
from chaoslab.fleet.remote.protocol.messages import (
    Garbled,
    read_line,
    to_error,
    to_observation,
)
from chaoslab.fleet.remote.protocol.reach import LineReader, LineWriter, Streams

_log = logging.getLogger(__name__)
Connect: TypeAlias = Callable[[], Awaitable[Streams]]
"""Opens a new stream to the agent; OSError or FleetError if there is none now."""
_RENEWALS: Final = 6
"""Least number of renewals in the time of a lease."""
_RENEW_S: Final = 0.5
"""Longest time between two renewals, so that gaps are known well enough."""
_SILENT_SHARE: Final = 0.7
"""Share of a lease in which an agent that is there says something: it answers each renewal."""
_BACKOFF_S: Final = (0.05, 2.0)
"""The first delay before the next attempt to connect, and the longest."""
_END_S: Final = 0.5
"""Time limit of the end of a connection: callers stall the harness meanwhile."""
_PASS_S: Final = 0.05
"""Time in which what has arrived is read, after one in which this process stalled."""


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call without its answer."""

    line: bytes
    answer: "asyncio.Future[Json]"


@dataclass(slots=True, kw_only=True)
class AgentClient:
    """The harness's end of one agent. All methods but those that say so run on the loop."""

    host: str
    """Name of the host, for messages."""
    connect: Connect
    arrived: Callable[[Observation, int], object]
    """Told of each observation, once and in order, with its number."""
    back: Callable[[Gap], object]
    """Told after each gap, when all that was seen in it has arrived."""
    lost: Callable[[ChaoslabError], object]
    """Told once, when the agent is lost."""
    lease_s: float
    lost_s: float
    """Silence after which an agent counts as lost."""
    has: int = 0
    """Number of the newest observation that arrived."""
    taken: int = 0
    """Number of the newest that the receiver has taken in; set from another thread."""
    cuts: int = 0
    """Number of broken connections."""
    session: str = ""
    """Identifies the agent: a new one does not know what an earlier one was told."""
    _calls: dict[str, _Call] = field(default_factory=dict)
    _waiting: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    """Answers that wait for the observations before them."""
    _writer: LineWriter | None = None
    _task: "asyncio.Task[None] | None" = None
    _is_closed: bool = False
    _why_lost: ChaoslabError | None = None
    _heard_s: float = -math.inf
    _silence: Silence = field(default_factory=Silence)
    _gap: tuple[Gap, int] | None = None
    """The last one, and the number up to which observations come late."""
    _prefix: str = field(default_factory=lambda: secrets.token_hex(6))
    _next: int = 0

    @property
    def is_lost(self) -> bool:
        """Whether it was given up: it answers no call any more."""
        return self._why_lost is not None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._writer is not None

    @property
    def silent_s(self) -> float:
        """Time since its last message."""
        return time.monotonic() - self._heard_s

    async def open(self) -> None:
        """Connect for the first time; FleetError if that cannot be."""
        attached = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(attached))
        await attached

    async def call(
        self,
        verb: str,
        /,
        *names: str,
        due_s: Json = None,
        answer_s: float = math.inf,
        **settings: Json,
    ) -> Json:
        """Have a verb carried out once: its value, or the error that it raises.

        What it does is to be undone in `due_s`, should no other process get to it. OutOfReach if
        there is no answer and the agent has been silent for `answer_s`.
        """
        if self._why_lost is not None:
            raise self._why_lost
        if self._is_closed:
            raise AgentLost(f"{self.host}: the connection to its host agent was ended")
        self._next += 1
        name = f"{self._prefix}-{self._next}"
        message: Json = {"id": name, "do": verb, "names": list(names), "with": settings,
                         "due_s": due_s}  # fmt: skip
        line = encode({"call": message}).encode() + b"\n"
        call = _Call(line=line, answer=asyncio.get_running_loop().create_future())
        self._calls[name] = call
        self._write(line)
        try:
            await self.wait_for(call.answer, answer_s)
            return await call.answer
        finally:
            self._calls.pop(name, None)

    async def wait_for(self, answer: "asyncio.Future[Any]", answer_s: float) -> None:
        """Wait for the answer; OutOfReach if the agent is silent for this long."""
        wait_s = _PASS_S
        while not (await asyncio.wait([answer], timeout=wait_s))[0]:
            wait_s = min(answer_s - self.silent_s, self.lost_s)
            if wait_s <= 0:
                raise OutOfReach(f"{self.host} is out of reach: its host agent is silent")

    async def close(self) -> None:
        """End the connection; the agent goes on until its lease is over, unless dismissed.

        What does not end at once, such as an attempt to connect that a library goes on with, ends
        later and is not waited for.
        """
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_END_S)

    async def give_up(self, why: str) -> None:
        """Count the agent as lost now, and tell so."""
        await self.close()
        if self._why_lost is None:
            self._lose(AgentLost(f"{self.host}: {why}"))

    # ---------------------------------------------------------------- connections

    async def _live(self, attached: "asyncio.Future[None]") -> None:
        """Run until it is closed or lost; calls never wait for a connection that is not made."""
        try:
            async with OwnStall(lease_s=self.lease_s).measured() as stall:
                await self._stay_connected(attached, stall)
        except Exception as error:  # noqa: BLE001 - told to all that wait for an answer
            bug = HarnessBug(f"{self.host}: the client of its host agent failed: {error!r}")
            bug.__cause__ = error
            self._give_up(bug, attached)

    async def _stay_connected(self, attached: "asyncio.Future[None]", stall: OwnStall) -> None:
        """Make one connection after the other."""
        self._heard_s, delay_s = time.monotonic(), _BACKOFF_S[0]
        while not self._is_closed:
            try:
                async with asyncio.timeout(self._left_s(attached)):
                    reader, writer = await self.connect()
                try:
                    if not self._is_closed:
                        await self._converse(reader, writer, attached)
                finally:
                    self._writer = None
                    writer.close()
                self.cuts += 1
                delay_s = _BACKOFF_S[0]
            except (AgentLost, HarnessBug) as error:
                self._give_up(error, attached)
                return
            except (OSError, FleetError) as error:
                if self.silent_s > self.lost_s or stall.has_lapsed or not attached.done():
                    self._give_up(stall.loss(self.host, self.lost_s, error), attached)
                    return
                _log.info("%s: not connected (%s), tried again in %g s", self.host, error, delay_s)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, _BACKOFF_S[1])

    def _left_s(self, attached: "asyncio.Future[None]") -> float:
        """Time limit of an attempt to connect: no longer than until the agent is lost."""
        return max(_PASS_S, self.lost_s - self.silent_s) if attached.done() else self.lost_s

    async def _converse(
        self,
        reader: LineReader,
        writer: LineWriter,
        attached: "asyncio.Future[None]",
    ) -> None:
        """Use this connection until it ends; OSError if it ended before there was a greeting."""
        writer.write(encode({"attach": {"after": self.has}}).encode() + b"\n")
        renewal = asyncio.create_task(self._renew(writer))
        try:
            before_s = self._heard_s
            if not (greeting := await self._read(reader)):
                raise ConnectionResetError("it ended without a greeting")
            self._greet(read_line(greeting), before_s)
            self._silence = Silence()  # that before the greeting is told as a gap
            self._writer = writer
            for call in tuple(self._calls.values()):
                writer.write(call.line)
            if not attached.done():
                attached.set_result(None)
            await self._hear(reader)
        except Garbled as error:  # it would come again
            raise AgentLost(f"{self.host}: {error}") from error
        finally:
            renewal.cancel()

    async def _hear(self, reader: LineReader) -> None:
        """Take in what comes, until the connection ends."""
        try:
            while line := await self._read(reader):
                self._take(read_line(line))
        except OSError as error:
            _log.info("%s: the connection broke: %s", self.host, error)

    async def _read(self, reader: LineReader) -> bytes:
        """The next line; empty at the end. OSError; Garbled if a line is too long."""
        try:
            async with asyncio.timeout(_SILENT_SHARE * self.lease_s):
                line = await reader.readline()
        except ValueError as error:
            raise Garbled(f"{self.host}: a line without an end: {error}") from error
        if not line.endswith(b"\n"):
            return b""
        before_s, self._heard_s = self._heard_s, time.monotonic()
        self._silence.end(self._heard_s - before_s, self._renewal_s)
        return line

    @property
    def _renewal_s(self) -> float:
        """Interval of the lease's renewals."""
        return min(_RENEW_S, self.lease_s / _RENEWALS)

    async def _renew(self, writer: LineWriter) -> None:
        """Renew the lease, and say what need not be kept any more."""
        while True:
            await asyncio.sleep(self._renewal_s)
            with suppress(OSError):
                writer.write(encode({"renew": {"has": self.taken}}).encode() + b"\n")
                self._silence.ask()

    def _write(self, line: bytes) -> None:
        if self._writer is not None:
            with suppress(OSError):  # the next connection sends it again
                self._writer.write(line)

    def _give_up(self, error: ChaoslabError, attached: "asyncio.Future[None]") -> None:
        if attached.done():
            self._lose(error)
        else:
            self._why_lost = error
            attached.set_exception(error)

    def _lose(self, error: ChaoslabError) -> None:
        """No call is answered any more."""
        self._why_lost = error
        for call in tuple(self._calls.values()):
            if not call.answer.done():
                call.answer.set_exception(error)
        self.lost(error)

    # ---------------------------------------------------------------- messages

    def _greet(self, message: Mapping[str, Any], before_s: float) -> None:
        """Whether it is the agent from before, and what it has to tell of the time since then."""
        match message:
            case {"hello": {"session": str() as session, "last": int() as last, "undone": undone}}:
                if self.session not in ("", session):
                    raise AgentLost(f"{self.host}: its host agent was replaced by another one")
                if self.session:
                    gap = Gap(for_s=self._heard_s - before_s, undone=tuple(map(str, undone)))
                    self._gap = (gap, last)
                self.session = session
                self._tell_of_gap()
            case {"refused": why}:
                raise AgentLost(f"{self.host}: its host agent refuses: {why}")
            case _:
                raise Garbled(f"{self.host}: {str(message)[:200]!r} is no greeting")

    def _tell_of_gap(self) -> None:
        if self._gap is not None and self.has >= self._gap[1]:
            gap, self._gap = self._gap[0], None
            self.back(gap)

    def _take(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"seen": {"number": int() as number, **seen}}:
                self._see(number, seen)
            case {"answer": {"id": str() as name, "number": int() as number, **answer}}:
                self._waiting.append((number, partial(self._answer, name, answer)))
            case {"renewed": {}}:
                if (for_s := self._silence.take()) >= GAP_S:
                    self.back(Gap(for_s=for_s))
                return
            case {"refused": why}:
                raise AgentLost(f"{self.host}: its host agent refuses: {why}")
            case _:
                raise Garbled(f"{self.host}: {str(message)[:200]!r} is no message of a host agent")
        self._settle()

    def _see(self, number: int, seen: Mapping[Any, Any]) -> None:
        if number <= self.has:
            return
        if number != self.has + 1:
            raise HarnessBug(f"{self.host}: observation {number} came after {self.has}")
        self.has = number
        self.arrived(to_observation(seen), number)
        self._tell_of_gap()

    def _settle(self) -> None:
        """Return the answers whose observations have arrived."""
        due = [answer for number, answer in self._waiting if number <= self.has]
        self._waiting = [one for one in self._waiting if one[0] > self.has]
        for answer in due:
            answer()

    def _answer(self, name: str, answer: Mapping[Any, Any]) -> None:
        call = self._calls.get(name)
        if call is None or call.answer.done():
            return
        if "error" in answer:
            call.answer.set_exception(to_error(answer["error"], self.host))
        else:
            call.answer.set_result(answer.get("value"))
