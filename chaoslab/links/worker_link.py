"""The link of a script's worker: both of its ends, where what it carries is measured.

    worker ─► near ends, one for each port ─► Link ─► far end ─► upstream of the port
    round trips ────────────────────────────► Link ─► far end, which sends them back

A connection through the link begins with a byte that names its port; the far end returns it once it
is connected to the upstream. Each end counts and times what arrives there from the link, so what is
known of it does not depend on what carries it. Round trips begin with the first connection of the
worker, and each end tells how long ago it was given something to carry: on a link that training
does not use a fault proves nothing.

For the thread of one event loop, except for `reports`.
"""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final, TypeAlias

from chaoslab.core.link_meter import NOTHING_QUEUED, PING_S, Meter
from chaoslab.core.payloads import LifeFields, LinkClosed, LinkMeasured, LinkOpened
from chaoslab.links.proxy.link import DIAL_S, ProxyLink
from chaoslab.links.proxy.stages import Stage
from chaoslab.links.proxy.toxics import DOWN, UP, Latency, Toxic

_HERE: Final = "127.0.0.1"
_ROUND_TRIPS: Final = b"\0"
"""Value of the byte that would name a port."""
_LOST_S: Final = 5.0
"""A round trip that takes longer ends its connection."""
PAUSE_S: Final = 0.5
"""Between two connections for round trips."""
_PIECE_BYTES: Final = 16_384
"""First bytes of a payload, which are not timed: they arrive at once, whatever the rate."""
_APART_S: Final = 1.0
"""Gap between two payloads."""

Address: TypeAlias = tuple[str, int]
Report: TypeAlias = LinkOpened | LinkClosed | LinkMeasured
"""An event of one end; the incarnation of the worker is for the reader to say."""


class _Passing(Toxic):
    """Traffic of one end, over all connections, counted by a toxic that changes nothing.

    A payload is what arrives from the link until something is sent the other way, or nothing has
    come for a second.
    """

    def __init__(self, way: str) -> None:
        """`way`: that of the bytes which arrive, `upstream` or `downstream`."""
        super().__init__("passing", "both", Latency(), named=frozenset())
        self.meter = Meter()
        self.ends: list[ProxyLink] = []
        self._back = DOWN if way == UP else UP
        self._given_s: float | None = None
        self._sent_back = self._payload_bytes = 0
        self._last_s = 0.0

    def stage(self, way: str, link: str, connection: int) -> Stage:  # noqa: ARG002 - the base's
        """Stage that counts."""
        return _Counted(self.give if way == self._back else self.take)

    def give(self, size: int = 0) -> None:  # noqa: ARG002 - as of `take`
        """The link has been given something to carry now: bytes, or a connection."""
        self._given_s = self.meter.now()

    @property
    def unused_s(self) -> float | None:
        """Time since then; None: never."""
        return None if self._given_s is None else round(self.meter.now() - self._given_s, 6)

    def take(self, size: int) -> None:
        """Count and time bytes that have arrived now."""
        now_s, completed = self.meter.now(), 0
        sent_back = sum(end.traffic[self._back].received for end in self.ends)
        if sent_back != self._sent_back or now_s - self._last_s > _APART_S:
            completed, self._payload_bytes, self._sent_back = self._payload_bytes, 0, sent_back
        is_timed = self._payload_bytes >= _PIECE_BYTES
        self._payload_bytes += size
        self.meter.arrived(
            now_s,
            size,
            timed_bytes=size if is_timed else 0,
            timed_s=now_s - self._last_s if is_timed else 0.0,
            payload_bytes=completed if completed > _PIECE_BYTES else 0,
        )
        self._last_s = now_s


class _Counted(Stage):
    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count

    def pass_at(self, size: int, arrives_s: float) -> float:
        """Time of arrival: nothing is delayed."""
        self._count(size)
        return arrives_s


class _End(ProxyLink):
    """One end of connections: a proxy on a free port, whose toxic counts."""

    def __init__(self, name: str, upstream: Address, passing: _Passing) -> None:
        super().__init__(name, (_HERE, 0), upstream)
        self.passing = passing
        self.add(passing)
        passing.ends.append(self)
        self.enable()


class _FarEnd(_End):
    """The end at the upstreams of all ports."""

    def __init__(self, name: str, upstreams: Mapping[bytes, Address], passing: _Passing) -> None:
        super().__init__(name, (_HERE, 0), passing)
        self._upstreams = upstreams

    async def _connect(self, learner: socket.socket, syncer: socket.socket) -> None:
        port = await self._loop.sock_recv(learner, 1)
        if port == _ROUND_TRIPS:
            while sent := await self._loop.sock_recv(learner, 64):
                self.passing.meter.arrived(self.passing.meter.now(), len(sent))
                await self._loop.sock_sendall(learner, sent)
        if port not in self._upstreams:
            raise ConnectionError
        async with asyncio.timeout(DIAL_S):
            await self._loop.sock_connect(syncer, self._upstreams[port])
        await self._loop.sock_sendall(learner, port)


class _NearEnd(_End):
    """The end at the worker, of one port."""

    def __init__(self, link: "WorkerLink", port: bytes, upstream: Address) -> None:
        super().__init__(link.name, upstream, link.down)
        self._link, self._port = link, port

    async def _connect(self, learner: socket.socket, syncer: socket.socket) -> None:
        self.passing.give()
        await super()._connect(learner, syncer)
        await self._loop.sock_sendall(syncer, self._port)
        if not await self._loop.sock_recv(syncer, 1):
            raise ConnectionError
        self._link.measure_round_trips()


class WorkerLink:
    """Both ends; `open` begins, `close` ends."""

    def __init__(self, name: str, upstreams: Mapping[str, Address]) -> None:
        """`name` is the worker's; `upstreams` where each port leads, by name."""
        self.name = name
        self._whose: LifeFields = {"learner": name, "incarnation": 0}
        self.up, self.down = _Passing(UP), _Passing(DOWN)
        self._ports = {port: bytes([index]) for index, port in enumerate(upstreams, start=1)}
        where = {self._ports[port]: upstream for port, upstream in upstreams.items()}
        self._far = _FarEnd(name, where, self.up)
        self._address: Address = (_HERE, 0)
        self._said: deque[Report] = deque()
        self._loop = asyncio.get_running_loop()
        self._round_trips: asyncio.Task[None] | None = None
        self._opened_s: float | None = None
        """Time at which the first byte came back on their connection."""

    @property
    def upstream(self) -> str:
        """host:port of the far end, to which the link leads."""
        return f"{_HERE}:{self._far.listen[1]}"

    def open(self, address: str) -> Mapping[str, int]:
        """Open the near ends, which connect to the link at host:port; their ports by name."""
        host, _, number = address.rpartition(":")
        self._address = host, int(number)
        near = {name: _NearEnd(self, port, self._address) for name, port in self._ports.items()}
        return {name: end.listen[1] for name, end in near.items()}

    def close(self) -> None:
        """Close all connections; what is on its way is lost."""
        if self._round_trips is not None:
            self._round_trips.cancel()
        for end in (*self.down.ends, *self.up.ends):
            end.disable()

    def reports(self) -> list[Report]:
        """Connections for round trips that opened and ended since the last call."""
        return [self._said.popleft() for _ in range(len(self._said))]

    def measured(self) -> list[Report]:
        """Measurements of each end since the last call."""
        return [
            LinkMeasured.of(
                end.meter.read(),
                self._whose,
                direction=way,
                queued=NOTHING_QUEUED,
                unused_s=end.unused_s,
                connections=connections,
            )
            for way, end, connections in (
                ("down", self.down, sum(near.connections for near in self.down.ends)),
                ("up", self.up, None),
            )
        ]

    # ---------------------------------------------------------------- round trips

    def measure_round_trips(self) -> None:
        """Begin to, unless that has begun."""
        if self._round_trips is None:
            self._round_trips = self._loop.create_task(self._measure_round_trips())

    async def _measure_round_trips(self) -> None:
        alone_s, attempts = time.monotonic(), 0
        while True:
            attempts, self._opened_s, reason = attempts + 1, None, "the link ended it"
            try:
                await self._converse(attempts, alone_s)
            except TimeoutError:
                reason = f"no answer for {_LOST_S:g} s"
            except (OSError, EOFError) as error:
                reason = str(error) or reason
            now_s, opened_s = time.monotonic(), self._opened_s
            open_s = 0.0 if opened_s is None else round(now_s - opened_s, 6)
            was_open = opened_s is not None
            closed = LinkClosed(
                **self._whose, was_open=was_open, open_s=open_s, attempts=attempts, reason=reason
            )
            self._said.append(closed)
            alone_s, attempts = (alone_s, attempts) if opened_s is None else (now_s, 0)
            await asyncio.sleep(PAUSE_S)

    async def _converse(self, attempts: int, alone_s: float) -> None:
        """Send a byte and wait for it, again and again, on one connection until that ends."""
        meter = self.down.meter
        async with asyncio.timeout(_LOST_S):
            reader, writer = await asyncio.open_connection(*self._address)
        with closing(writer):
            writer.write(_ROUND_TRIPS)
            while True:
                sent_s = time.monotonic()
                writer.write(b".")
                meter.pinged()
                async with asyncio.timeout(_LOST_S):
                    await reader.readexactly(1)
                now_s = time.monotonic()
                rtt_s = now_s - sent_s
                meter.arrived(now_s, 1)
                meter.answered(rtt_s)
                meter.probed(rtt_s)
                if self._opened_s is None:
                    self._opened_s = now_s
                    after_s = round(now_s - alone_s, 6)
                    opened = LinkOpened(**self._whose, attempts=attempts, after_s=after_s)
                    self._said.append(opened)
                await asyncio.sleep(max(0.0, PING_S - rtt_s))
