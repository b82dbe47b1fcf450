"""One link of the proxy: its listener, its connections and its toxics.

    learner ─► listener ─► dial the upstream ─► Connection ◄── stages of every toxic, per direction

Toxics act from the moment they are added, on open and on later connections. A disabled link refuses
connections; the creator may reserve its port meanwhile.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from chaoslab.links.proxy.connection import Connection, close
from chaoslab.links.proxy.pump import Traffic
from chaoslab.links.proxy.toxics import DOWN, UP, Change, Json, Refused, Toxic

CONNECTIONS_MAX = 1024
"""Most connections of one link; further ones are reset."""
_BACKLOG = 256
DIAL_S = 10.0
"""Seconds that connecting to the upstream may take."""
_TIRED_S = 0.1
"""Pause in s before the next accept while there are no file descriptors."""


class ProxyLink:
    """A proxy in Toxiproxy's terms. Disabled when created."""

    def __init__(self, name: str, listen: tuple[str, int], upstream: tuple[str, int]) -> None:
        self.name = name
        self.toxics: dict[str, Toxic] = {}
        self._loop = asyncio.get_running_loop()
        self.listen, self.upstream = listen, upstream
        self._listener: socket.socket | None = None
        self._connections: set[Connection] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self.traffic = {UP: Traffic(), DOWN: Traffic()}
        self._opened = 0

    # ---------------------------------------------------------------- open and closed

    @property
    def is_enabled(self) -> bool:
        """Whether it accepts connections."""
        return self._listener is not None

    def enable(self) -> None:
        """Listen. Refused if the port is in use."""
        if self._listener is not None:
            return
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind(self.listen)
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            where = f"{self.listen[0]}:{self.listen[1]}"
            raise Refused(f"{where}: cannot listen: {error}", status=500) from error
        host, port = listener.getsockname()
        self.listen = (host, port)
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._accept, listener)

    def disable(self) -> None:
        """Refuse new connections and end the open ones."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        for task in self._dialling:
            task.cancel()
        self._each(Connection.close)

    def move(self, listen: tuple[str, int], upstream: tuple[str, int]) -> None:
        """Change its addresses; closes open connections. It must be enabled again."""
        if (listen, upstream) != (self.listen, self.upstream):
            self.disable()
            self.listen, self.upstream = listen, upstream

    def reset(self) -> None:
        """Reset every open connection with a RST to both ends; new ones are accepted."""
        self._each(Connection.reset)

    # ---------------------------------------------------------------- toxics

    def add(self, toxic: Toxic) -> None:
        """Add a toxic, which acts when this returns. Refused if the name is in use."""
        if toxic.name in self.toxics:
            raise Refused(f"toxic {toxic.name!r}: exists already", status=409)
        self.toxics[toxic.name] = toxic
        self._each(lambda connection: connection.meet(toxic))

    def change(self, toxic: Toxic, change: Change) -> None:
        """Change the attributes of a toxic, effective at once."""
        toxic.change(change)
        self._each(lambda connection: connection.meet(toxic))

    def remove(self, toxic: Toxic) -> None:
        """Remove a toxic, effective at once."""
        del self.toxics[toxic.name]
        self._each(lambda connection: connection.part(toxic))

    def _each(self, verb: Callable[[Connection], None]) -> None:
        for connection in tuple(self._connections):
            verb(connection)

    # ---------------------------------------------------------------- connections

    def _accept(self, listener: socket.socket) -> None:
        try:
            learner, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # out of file descriptors: pause, other connections continue
            self._loop.remove_reader(listener.fileno())
            self._loop.call_later(_TIRED_S, self._recover, listener)
            return
        self._opened += 1
        if self.connections >= CONNECTIONS_MAX:
            close(learner, is_reset=True)
            return
        task = self._loop.create_task(self._dial(learner, self._opened))
        self._dialling.add(task)
        task.add_done_callback(partial(self._dialled, learner))

    def _dialled(self, learner: socket.socket, task: "asyncio.Task[None]") -> None:
        self._dialling.discard(task)
        if task.cancelled():  # perhaps before it began
            learner.close()

    def _recover(self, listener: socket.socket) -> None:
        if listener is self._listener:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    async def _dial(self, learner: socket.socket, number: int) -> None:
        """Connect to the upstream for a learner, or reset its connection."""
        syncer = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            for end in (learner, syncer):
                end.setblocking(False)
            await self._connect(learner, syncer)
        except (OSError, TimeoutError):
            close(learner, is_reset=True)
            syncer.close()
            return
        except asyncio.CancelledError:
            syncer.close()
            raise
        self._open(learner, syncer, number)

    async def _connect(self, _learner: socket.socket, syncer: socket.socket) -> None:
        """OSError or TimeoutError: there is no connection for the learner."""
        async with asyncio.timeout(DIAL_S):
            await self._loop.sock_connect(syncer, self.upstream)

    def _open(self, learner: socket.socket, syncer: socket.socket, number: int) -> None:
        for end in (learner, syncer):
            with suppress(OSError):  # already gone, which its pump will notice
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(
            self._loop,
            (self.name, number),
            (learner, syncer),
            self.traffic,
            self._connections.discard,
        )
        self._connections.add(connection)
        connection.begin(self.toxics.values())

    # ---------------------------------------------------------------- output

    def to_json(self) -> dict[str, Json]:
        """The link in Toxiproxy's JSON."""
        return {
            "name": self.name,
            "listen": f"{self.listen[0]}:{self.listen[1]}",
            "upstream": f"{self.upstream[0]}:{self.upstream[1]}",
            "enabled": self.is_enabled,
            "toxics": self.toxics_to_json(),
        }

    def toxics_to_json(self) -> list[Json]:
        """Toxics in Toxiproxy's order: upstream before downstream, the oldest first."""
        ordered = sorted(self.toxics.values(), key=lambda toxic: toxic.stream == DOWN)
        return [toxic.to_json() for toxic in ordered]

    @property
    def connections(self) -> int:
        """Connections that are open or being opened."""
        return len(self._connections) + len(self._dialling)

    def counters(self) -> dict[str, Json]:
        """Bytes delivered, bytes lost and connections, up to now."""
        return {
            "upstream_bytes": self.traffic[UP].delivered,
            "downstream_bytes": self.traffic[DOWN].delivered,
            "upstream_lost_bytes": self.traffic[UP].lost,
            "downstream_lost_bytes": self.traffic[DOWN].lost,
            "connections": self.connections,
            "opened": self._opened,
        }
