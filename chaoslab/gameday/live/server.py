"""Server of the live page, on a thread of its own beside the run.

    with serving(plan, inbox, listen, operators=["Ann"]) as page:
        page.links ─► people        page.see(event) ◄─ the run

    its thread: event loop, uvicorn; if they die, the same anew

The socket, the cookies and the picture belong to `LivePage`, not to the server: one that dies
is started again on the same port, browsers connect again, and the run notices nothing. It installs
no signal handlers and writes no access log.

Connections are open to all who reach the port, and the harness needs its file descriptors itself:
of more than 200 connections those that come later are closed.
"""

import asyncio
import logging
import resource
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.events import Event
from chaoslab.gameday.live.access import Access, Address, Role, is_loopback
from chaoslab.gameday.live.app import LiveApp
from chaoslab.gameday.live.picture import Picture
from chaoslab.gameday.live.stream import Stream
from chaoslab.gameday.orders import Names
from chaoslab.plan.model import FaultPlan
from chaoslab.run.operators import Inbox

try:
    import uvicorn
except ImportError as error:
    raise AbilityError(
        "--serve needs starlette and uvicorn: pip install 'chaoslab[gameday]'"
    ) from error

_ANY: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # it is refused
_BACKLOG: Final = 128
_STARTED_S: Final = 10.0
"""Time limit of the server's first answer."""
_ENDED_S: Final = 5.0
_LAST_PICTURE_S: Final = 0.5
"""Time in which browsers are told of the end of the run."""
_AGAIN_S: Final = (0.1, 0.5, 2.0)
"""Before a server is started again; the last of them from then on."""
_CONNECTIONS_MOST: Final = 200
"""Most connections at the same time, with those that have not sent a request yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Address to serve on."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free."""
    certificate: Path | None = None
    """PEM file with the chain up to the authority; needed off this machine."""
    key: Path | None = None

    def __post_init__(self) -> None:
        if self.host in _ANY:
            raise PlanError(
                "--serve: write the one name or address that browsers are to use, such as "
                "gameday.example.org:8443"
            )
        if (self.certificate is None) != (self.key is None):
            raise PlanError("--tls-cert and --tls-key belong together: write both")
        if not is_loopback(self.host) and self.certificate is None:
            raise PlanError(
                f"--serve {self.host}: what others can reach needs TLS: add --tls-cert FILE and "
                "--tls-key FILE, or serve on 127.0.0.1 and let people come by `ssh -L`"
            )
        if self.certificate and self.key:
            try:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificate, self.key, password="")
            except (OSError, ValueError) as error:
                raise PlanError(f"--tls-cert, --tls-key: cannot be used: {error}") from error

    def bound(self) -> socket.socket:
        """A socket that listens there; PlanError if the address cannot be had."""
        try:
            family, _, _, _, where = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            return socket.create_server(where[:2], family=family, backlog=_BACKLOG)
        except OSError as error:
            raise PlanError(
                f"--serve {self.host}:{self.port}: {error.strerror or error}; choose another "
                "address or port"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Address that a participant opens to join."""

    role: Role
    name: str
    """Name of the operator; empty for viewers, who may share a link."""
    url: str


class LivePage:
    """The page of one run, and an observer of it. Use `serving`, which ends it, too."""

    def __init__(
        self,
        plan: FaultPlan,
        inbox: Inbox,
        listen: Listen,
        *,
        operators: Sequence[str],
    ) -> None:
        """PlanError if a name is invalid, or if the address is not available."""
        self._listen = listen
        self._access = Access()
        people = [*((Role.OPERATOR, name) for name in operators), (Role.VIEWER, "")]
        tokens = [(role, name, self._access.invite(role, name)) for role, name in people]
        self._socket = listen.bound()
        self.address = Address(
            host=listen.host,
            port=self._socket.getsockname()[1],
            has_tls=listen.certificate is not None,
        )
        self.links = tuple(
            Link(role=role, name=name, url=f"{self.address.url}/enter#{token}")
            for role, name, token in tokens
        )
        self.stream = Stream(Picture(plan, is_kept=inbox.keep))
        self._app = LiveApp(
            names=Names.of(plan),
            inbox=inbox,
            address=self.address,
            access=self._access,
            stream=self.stream,
        ).asgi()
        self._server: uvicorn.Server | None = None
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="live-server", daemon=True)

    def see(self, event: Event) -> None:
        """Take one event of the run; returns at once."""
        self.stream.see(event)

    def start(self) -> None:
        """Return when the page can be opened; FleetError if it cannot."""
        self._thread.start()
        clock = WallClock()
        while not (self._server and self._server.started):
            if clock.now_s() > _STARTED_S:
                self.close()
                raise FleetError("the live page's server does not start: see the log")
            self._is_ending.wait(0.01)

    def close(self) -> None:
        """End the server and its thread, after browsers were shown the latest picture."""
        self._is_ending.set()
        self._thread.join(_ENDED_S)
        self._socket.close()

    # ---------------------------------------------------------------- its thread

    def _serve(self) -> None:
        """Serve until the end is asked for; a server that dies is started again."""
        while True:
            self._server = uvicorn.Server(self._config())
            with asyncio.Runner() as runner:
                try:
                    runner.run(self._served(self._server))
                except Exception:
                    logging.getLogger(__name__).exception("the live page's server died")
                finally:
                    runner.run(_abandoned(self._server))
            if self._is_ending.wait(_AGAIN_S[min(self.stream.restarts, len(_AGAIN_S) - 1)]):
                return
            self.stream.restarts += 1

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            self._app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # else a header could claim any address
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
            ssl_certfile=self._listen.certificate,
            ssl_keyfile=self._listen.key,
        )

    async def _served(self, server: uvicorn.Server) -> None:
        """Until the end is asked for."""
        async with asyncio.TaskGroup() as tasks:
            pump = tasks.create_task(self.stream.pump())
            tasks.create_task(self._ended(server))
            await server.serve(sockets=[_LimitedListener(fileno=self._socket.dup().detach())])
            pump.cancel()

    async def _ended(self, server: uvicorn.Server) -> None:
        while not self._is_ending.is_set():
            await asyncio.sleep(0.1)
        await asyncio.sleep(_LAST_PICTURE_S if self.stream.viewers else 0.0)
        self.stream.close()
        server.should_exit = True


# ---------------------------------------------------------------- connections


class _LimitedListener(socket.socket):
    """A socket that listens, and closes what comes while too many connections are open."""

    def __init__(self, *, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self._inside: list[socket.socket] = []
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_low = files != resource.RLIM_INFINITY and files // 2 < _CONNECTIONS_MOST
        self._most = files // 2 if is_low else _CONNECTIONS_MOST

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one; ConnectionAbortedError, which event loops expect, if it was closed."""
        connection, address = super().accept()
        self._inside = [one for one in self._inside if one.fileno() >= 0]
        if len(self._inside) >= self._most:
            connection.close()
            raise ConnectionAbortedError
        self._inside.append(connection)
        return connection, address


async def _abandoned(server: uvicorn.Server) -> None:
    """Close what a server that died has left open, so that browsers notice."""
    for listener in getattr(server, "servers", ()):
        listener.close()
    for connection in list(server.server_state.connections):
        transport = getattr(connection, "transport", None)
        if transport is not None:
            transport.abort()
    await asyncio.sleep(0.01)  # transports close in the turns that follow


@contextmanager
def serving(
    plan: FaultPlan,
    inbox: Inbox,
    listen: Listen,
    *,
    operators: Sequence[str],
) -> Iterator[LivePage]:
    """Serve the page of a run until the block is left.

    `operators`: one link for each. PlanError if the address or a name cannot be used, FleetError if
    the server does not start.
    """
    page = LivePage(plan, inbox, listen, operators=operators)
    page.start()
    try:
        yield page
    finally:
        page.close()
