"""A host reached by ssh: commands, streams to Unix sockets, forwarded ports, over one connection.

    SshReach ── connect, at most every so often, until a deadline ──► [jump host ──►] sshd
       run, connect, forward ── channels of that connection; when it is gone, the next one is made

The key of the host must be known: there is no way to pass over that. No word of a command is read
by a shell, because each is quoted.
"""

import asyncio
import getpass
import logging
import os
import shlex
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

import asyncssh

from chaoslab.core.errors import FleetError
from chaoslab.fleet.remote.protocol.messages import LINE_BYTES_MOST
from chaoslab.fleet.remote.protocol.reach import RUN_S, Ran, Streams, Unreached
from chaoslab.fleet.remote.ssh.access import Access, expanded

ResultT = TypeVar("ResultT")
_REFUSALS: Final = (
    asyncssh.HostKeyNotVerifiable,
    asyncssh.PermissionDenied,
    asyncssh.KeyImportError,
    asyncssh.KeyEncryptionError,
)
"""Errors that another attempt does not change."""
_log = logging.getLogger(__name__)
_CONNECT_S: Final = 10.0
"""Time limit of one attempt."""
_TRY_S: Final = 30.0
"""Time limit of all attempts."""
_PAUSE_S: Final = 0.5
_PIECE_BYTES: Final = 1 << 16
_WINDOW_BYTES: Final = LINE_BYTES_MOST + (1 << 20)
"""Bytes that a host may send before it is read: asyncssh tears a line that is longer."""
_CLOSE_S: Final = 2.0
"""Time limit of the end of a connection."""
_ALIVE_S: Final = 5.0
"""Interval of keep-alives on a silent connection; three without an answer end it."""


class SshReach:
    """A way to one host; see `reach.Reach`."""

    def __init__(self, access: Access, *, try_s: float = _TRY_S) -> None:
        """Nothing is connected before the first use."""
        self.access, self._try_s = access, try_s
        self.name = access.host
        self._connection: asyncssh.SSHClientConnection | None = None
        self._jump: asyncssh.SSHClientConnection | None = None
        self._lock = asyncio.Lock()
        self._servers: list[asyncio.Server] = []

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", within_s: float = RUN_S
    ) -> Ran:
        """Run a command to its end. Unreached if it takes longer or the connection breaks."""
        line = shlex.join(command)
        try:
            connection = await self._connected()
            async with asyncio.timeout(within_s):
                done = await connection.run(line, input=stdin, encoding=None, check=False)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise Unreached(f"{self.name}: {command[:4]} was cut off: {error!r}") from error
        return Ran(
            code=-1 if done.returncode is None else done.returncode,
            stdout=_bytes(done.stdout),
            stderr=_bytes(done.stderr),
        )

    async def connect(self, socket: str) -> Streams:
        """Open a stream to a Unix socket there. FleetError if there is none."""
        try:
            connection = await self._connected()
            opening = connection.open_unix_connection(socket, window=_WINDOW_BYTES)
            reader, writer = await self._opened_channel(connection, opening)
        except (asyncssh.Error, OSError) as error:
            raise FleetError(f"{self.name}: {socket} does not answer: {error}") from error
        return _Reader(reader), writer

    async def forward(self, port: int) -> int:
        """A port of this machine's loopback that leads to that port of the host's.

        It outlives the connection: each use of it is a channel of whichever there is then.
        """

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                connection = await self._connected()
                opening = connection.open_connection("127.0.0.1", port)
                far = await self._opened_channel(connection, opening)
                await asyncio.gather(_pump(reader, far[1]), _pump(far[0], writer))
            except (asyncssh.Error, FleetError, OSError) as error:
                _log.info("%s: port %d was cut off: %s", self.name, port, error)
            finally:
                writer.close()

        server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """End the connection and all ports. Safe to repeat."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in (self._connection, self._jump):
            if connection is not None:
                connection.close()
                try:
                    async with asyncio.timeout(_CLOSE_S):
                        await connection.wait_closed()
                except (asyncssh.Error, OSError):  # the host does not answer any more
                    connection.abort()
        self._connection = self._jump = None

    def cut(self) -> None:
        """Break the connection without a word, as a network does."""
        if self._connection is not None:
            self._connection.abort()

    # ---------------------------------------------------------------- connection

    async def _opened_channel(
        self, connection: asyncssh.SSHClientConnection, opening: Awaitable[ResultT]
    ) -> ResultT:
        """A channel of a connection. OSError if there is none, for instance because the connection
        breaks meanwhile; then the next one is made.
        """
        try:
            async with asyncio.timeout(_ALIVE_S):
                return await opening
        except (AssertionError, TimeoutError) as error:  # asyncssh asserts that it is still there
            connection.abort()
            if self._connection is connection:
                self._connection = None
            raise ConnectionResetError("it broke while a channel was opened") from error

    async def _connected(self) -> asyncssh.SSHClientConnection:
        """The connection, made again if it is gone. Unreached after a while of vain attempts."""
        async with self._lock:
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            deadline_s = time.monotonic() + self._try_s
            while True:
                try:
                    self._connection = await self._dial()
                except (asyncssh.Error, OSError, TimeoutError) as error:
                    _end_if_cancelled()
                    if time.monotonic() > deadline_s:
                        told = f"{self.name}: ssh does not get in: {_said(error)}"
                        raise Unreached(told) from error
                else:
                    return self._connection
                await asyncio.sleep(_PAUSE_S)

    async def _dial(self) -> asyncssh.SSHClientConnection:
        if not self.access.jump:
            return await _opened(self.access, self.name)
        if self._jump is None or self._jump.is_closed():
            jump = self.access.jumped()
            host = f"its jump host {jump.host}"
            try:
                self._jump = await _opened(jump, f"{self.name}: {host}")
            except (asyncssh.Error, OSError, TimeoutError) as error:
                raise ConnectionError(f"{host}: {_said(error)}") from error
        return await _opened(self.access, self.name, self._jump)


def _end_if_cancelled() -> None:
    """Raise the cancellation of this task that an error has taken the place of: up to Python 3.11,
    `asyncio.wait_for`, with which asyncssh connects, may raise that of a connection just refused.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _opened(
    access: Access, host: str, tunnel: asyncssh.SSHClientConnection | None = None
) -> asyncssh.SSHClientConnection:
    """A connection. FleetError, which begins with `host`: another attempt would not change it."""
    try:
        return await asyncssh.connect(access.host, access.port, tunnel=tunnel, **_options(access))
    except _REFUSALS as error:
        raise FleetError(
            f"{host}: {_refusal(access, error, is_tunnelled=tunnel is not None)}"
        ) from error


def _refusal(access: Access, error: Exception, *, is_tunnelled: bool) -> str:
    if isinstance(error, asyncssh.HostKeyNotVerifiable) and access.host_keys:
        return f"its key is not among those that the provider tells of it ({error})"
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        where = ", on the jump host," if is_tunnelled else ""
        return (
            f"its key is not that in {access.known_hosts} ({error}): compare it with the host's "
            f"own, then add it (`ssh-keyscan -p {access.port} {access.host}`{where} shows it)"
        )
    if isinstance(error, ValueError):
        return (
            f"the key {access.key or 'of this user'} cannot be used: {error}; one with a "
            "passphrase must be added with ssh-add, and `key` left out"
        )
    return f"ssh refuses user {_user(access)!r}: {error}"


def _said(error: Exception) -> str:
    return str(error) or f"no answer in {_CONNECT_S:g} s"


def _options(access: Access) -> Mapping[str, Any]:
    """Nothing of the user's ssh configuration is read: the inventory says all."""
    keys = {"client_keys": [_file(access.key, "key")], "agent_path": None} if access.key else {}
    return {
        "username": _user(access),
        "known_hosts": _known(access),
        "config": None,
        "keepalive_interval": _ALIVE_S,
        "connect_timeout": _CONNECT_S,
        "login_timeout": _CONNECT_S,
        **keys,
    }


def _known(access: Access) -> asyncssh.SSHKnownHosts:
    """The keys that were told of this host, or else those of the file. FleetError if that is none
    of known hosts.
    """
    if access.host_keys:
        host = f"[{access.host}]:{access.port},{access.host}"
        return asyncssh.import_known_hosts("".join(f"{host} {key}\n" for key in access.host_keys))
    file = _file(access.known_hosts, "known_hosts")
    try:
        return asyncssh.read_known_hosts(file)
    except ValueError as error:
        raise FleetError(f"known_hosts: {file} cannot be read: {error}") from error


def _file(path: str, what: str) -> str:
    """The path of a file that is there; FleetError if it is not."""
    found = expanded(path)
    if not found.is_file():
        raise FleetError(f"{what}: there is no file {found}; name another one in the inventory")
    return str(found)


def _user(access: Access) -> str:
    return access.user or os.environ.get("USER") or getpass.getuser()


async def _pump(source: Any, sink: Any) -> None:
    """Pass on what comes, and its end."""
    while piece := await source.read(_PIECE_BYTES):
        sink.write(piece)
        await sink.drain()
    sink.write_eof()


def _bytes(said: object) -> bytes:
    return said if isinstance(said, bytes) else b""


class _Reader:
    """Reader of a channel, with the end of its connection as an OSError."""

    def __init__(self, reader: "asyncssh.SSHReader[bytes]") -> None:
        self._reader = reader

    async def readline(self) -> bytes:
        """See `LineReader.readline`; ValueError if a line is too long."""
        try:
            line = await self._reader.readline()
        except asyncssh.Error as error:
            raise ConnectionResetError(str(error)) from error
        if len(line) > LINE_BYTES_MOST:
            raise ValueError(f"more than {LINE_BYTES_MOST} bytes")
        return line
