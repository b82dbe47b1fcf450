"""One proxied link: a listener, its connections, and the toxics that stand on it.

    learner ─► listener ─► dial the upstream ─► Connection ◄── stages of every toxic, per direction

Toxics act from the moment they are added, on open connections and on later ones. A disabled link
refuses connections; whoever made it may hold its port meanwhile.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from chaoslab.links.proxy.connection import Connection, close
from chaoslab.links.proxy.pump import Traffic
from chaoslab.links.proxy.toxics import DOWN, UP, Change, Json, Refused, Toxic

CONNECTIONS_MAX = 1024
"""Of one link at once; one more is broken off."""
_BACKLOG = 256
_DIAL_S = 10.0
"""How long the upstream may take to answer."""
_TIRED_S = 0.1
"""How long a process without file descriptors waits before it lets the next connection in."""


class ProxyLink:
    """A proxy, in Toxiproxy's words. Disabled when made."""

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
        """Whether it lets connections in."""
        return self._listener is not None

    def enable(self) -> None:
        """Listen. Refused if somebody else has the port."""
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
            raise Refused(f"{where} cannot be listened on: {error}", status=500) from error
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
        """Listen or lead elsewhere from now on; what is open ends. Enabled again by `enable`."""
        if (listen, upstream) != (self.listen, self.upstream):
            self.disable()
            self.listen, self.upstream = listen, upstream

    def reset(self) -> None:
        """A RST to both ends of every open connection; new ones are let in."""
        self._each(Connection.reset)

    # ---------------------------------------------------------------- toxics

    def add(self, toxic: Toxic) -> None:
        """It acts when this returns. Refused if there is one of its name."""
        if toxic.name in self.toxics:
            raise Refused(f"there is a toxic called {toxic.name!r} already", status=409)
        self.toxics[toxic.name] = toxic
        self._each(lambda connection: connection.meet(toxic))

    def change(self, toxic: Toxic, change: Change) -> None:
        """Other attributes, from now on."""
        toxic.change(change)
        self._each(lambda connection: connection.meet(toxic))

    def remove(self, toxic: Toxic) -> None:
        """It acts no more."""
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
        except OSError:  # no file descriptor is left: this one waits, the others go on
            self._loop.remove_reader(listener.fileno())
            self._loop.call_later(_TIRED_S, self._recover, listener)
            return
        self._opened += 1
        if len(self._connections) + len(self._dialling) >= CONNECTIONS_MAX:
            close(learner, is_reset=True)
            return
        task = self._loop.create_task(self._dial(learner, self._opened))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    def _recover(self, listener: socket.socket) -> None:
        if listener is self._listener:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    async def _dial(self, learner: socket.socket, number: int) -> None:
        """Reach the upstream for a learner, or break its connection off."""
        syncer = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            syncer.setblocking(False)
            async with asyncio.timeout(_DIAL_S):
                await self._loop.sock_connect(syncer, self.upstream)
        except (OSError, TimeoutError):
            close(learner, is_reset=True)
            syncer.close()
            return
        except asyncio.CancelledError:
            learner.close()
            syncer.close()
            raise
        self._open(learner, syncer, number)

    def _open(self, learner: socket.socket, syncer: socket.socket, number: int) -> None:
        for end in (learner, syncer):
            end.setblocking(False)
            with suppress(OSError):  # it is gone already, which its pump will meet
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

    # ---------------------------------------------------------------- what it shows

    def to_json(self) -> dict[str, Json]:
        """As Toxiproxy writes it."""
        return {
            "name": self.name,
            "listen": f"{self.listen[0]}:{self.listen[1]}",
            "upstream": f"{self.upstream[0]}:{self.upstream[1]}",
            "enabled": self.is_enabled,
            "toxics": self.toxics_to_json(),
        }

    def toxics_to_json(self) -> list[Json]:
        """In Toxiproxy's order: those of the downstream last, the oldest first."""
        ordered = sorted(self.toxics.values(), key=lambda toxic: toxic.stream == DOWN)
        return [toxic.to_json() for toxic in ordered]

    def counters(self) -> dict[str, Json]:
        """Live: bytes handed on, bytes lost, connections."""
        return {
            "upstream_bytes": self.traffic[UP].delivered,
            "downstream_bytes": self.traffic[DOWN].delivered,
            "upstream_lost_bytes": self.traffic[UP].lost,
            "downstream_lost_bytes": self.traffic[DOWN].lost,
            "connections": len(self._connections) + len(self._dialling),
            "opened": self._opened,
        }
