"""Meeting of the processes of a learner: each connects to that of host 0, and waits for all.

    host 1, 2, … ── two connections each, for orders and for heartbeats ──► host 0
                 ◄─────────────── "all are here", once they are ───────────

Both ends prove that they know the secret of the learner (HMAC, by `multiprocessing.connection`).
Host 0 turns away a process that cannot, or says nothing; every other host tries again until the
time is over. If two processes come as the same host, the later one stays: the other is left over
from before.
"""

import json
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from time import monotonic

from chaoslab.diloco.learner.hosts.membership import Membership

_MEET_S = 300.0
"""Time in which all processes must have met: hosts of a slice may start minutes apart."""
_AGAIN_S = 0.1
_PURPOSES = ("orders", "heartbeats")
_BYTES_MOST = 1024
_ALL_ARE_HERE = b"all are here"
_STRANGER = (AuthenticationError, AssertionError, EOFError, OSError, ValueError, KeyError)
"""What an end shows that is not of this learner, or gone. AssertionError: until Python 3.12, of a
challenge that is none."""


class MeetingFailed(Exception):
    """The processes of a learner did not meet; the message says which, and why."""


class Meeting:
    """The processes of a learner, met: what each needs to form one set of devices."""

    def __init__(
        self, own: Membership, lost: Callable[[int, str], None], *, within_s: float = _MEET_S
    ) -> None:
        """Wait until all have met. `lost(host, reason)` is called from then on, on any thread.

        MeetingFailed if they have not within `within_s`.
        """
        found = (_wait_for_all if own.is_first else _come)(own, within_s)
        self.orders = [orders for orders, _ in found.values()]
        """Channels to every other host, by its number; or from host 0."""
        for host, (_, heartbeats) in found.items():
            Heartbeats(
                heartbeats,
                timeout_s=own.timeout_s,
                lost=lambda reason, host=host: lost(host, reason),  # type: ignore[misc]
            ).start()


# ---------------------------------------------------------------- host 0


def _wait_for_all(own: Membership, within_s: float) -> dict[int, tuple[Connection, Connection]]:
    """Orders and heartbeats of every other host, in order."""
    until_s = time.monotonic() + within_s
    arrived: dict[tuple[int, str], dict[str, Connection]] = {}
    with _listening(own) as server:
        while missing := set(range(1, own.hosts)) - _complete(arrived).keys():
            server.settimeout(max(_AGAIN_S, until_s - time.monotonic()))
            try:
                stream, _ = server.accept()
            except TimeoutError:
                numbers = ", ".join(map(str, sorted(missing)))
                text = f"did not come to {own.meeting} within {within_s:g} s: host {numbers}"
                raise MeetingFailed(text) from None
            _take_in(stream, own, arrived)
    found = dict(sorted(_complete(arrived).items()))
    for host, (orders, _) in found.items():
        try:
            orders.send_bytes(_ALL_ARE_HERE)
        except OSError as error:
            raise MeetingFailed(f"host {host} came, and went away: {error}") from error
    return found


def _complete(
    arrived: dict[tuple[int, str], dict[str, Connection]],
) -> dict[int, tuple[Connection, Connection]]:
    """Connections by host of a complete group, given by its last process."""
    return {
        host: (found["orders"], found["heartbeats"])
        for (host, _), found in arrived.items()
        if len(found) == len(_PURPOSES)
    }


def _listening(own: Membership) -> socket.socket:
    """A socket that host 0 listens on; MeetingFailed if the address is taken, or another's."""
    address = own.address
    try:
        if isinstance(address, tuple):
            family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server(address, family=family, backlog=2 * own.hosts)
        server = socket.socket(socket.AF_UNIX)
        try:
            server.bind(address)
            server.listen(2 * own.hosts)
        except OSError:
            server.close()
            raise
    except OSError as error:
        raise MeetingFailed(f"cannot listen at {own.meeting}: {error}") from error
    return server


def _take_in(
    stream: socket.socket, own: Membership, arrived: dict[tuple[int, str], dict[str, Connection]]
) -> None:
    """Add a connection under its host, process and purpose, if it proves to be of this learner."""
    try:
        connection = _connection(stream, own.timeout_s)
        deliver_challenge(connection, own.secret)
        answer_challenge(connection, own.secret)
        said = json.loads(connection.recv_bytes(_BYTES_MOST))
        host, process, purpose = int(said["host"]), str(said["process"]), str(said["for"])
        if not 0 < host < own.hosts or purpose not in _PURPOSES:
            raise ValueError(f"host {host} of {own.hosts}, for {purpose}")
        _wait_at_most(connection, None)
    except _STRANGER as error:
        sys.stderr.write(f"turned away a process that is not of this learner: {error!r}\n")
        return
    arrived.setdefault((host, process), {})[purpose] = connection


# ---------------------------------------------------------------- every other host


def _come(own: Membership, within_s: float) -> dict[int, tuple[Connection, Connection]]:
    """Orders and heartbeats of host 0, once all are there."""
    until_s, reason = time.monotonic() + within_s, ""
    while (left_s := until_s - time.monotonic()) > 0:
        try:
            process = secrets.token_hex(8)
            orders, heartbeats = (_greeting(own, process, purpose) for purpose in _PURPOSES)
            _wait_at_most(orders, left_s)
            orders.recv_bytes(_BYTES_MOST)  # all are here
            _wait_at_most(orders, None)
        except _STRANGER as error:
            reason = repr(error)
            time.sleep(_AGAIN_S)
        else:
            return {0: (orders, heartbeats)}
    raise MeetingFailed(f"did not meet at {own.meeting} within {within_s:g} s: {reason}")


def _greeting(own: Membership, process: str, purpose: str) -> Connection:
    """A connection to host 0 that knows what it is for."""
    connection = _dialled(own)
    answer_challenge(connection, own.secret)
    deliver_challenge(connection, own.secret)
    said = {"host": own.index, "process": process, "for": purpose}
    connection.send_bytes(json.dumps(said).encode())
    _wait_at_most(connection, None)
    return connection


def _dialled(own: Membership) -> Connection:
    address = own.address
    if isinstance(address, str):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(address)
            return _connection(stream, own.timeout_s)
    with socket.create_connection(address, own.timeout_s) as stream:
        stream.settimeout(None)
        return _connection(stream, own.timeout_s)


# ---------------------------------------------------------------- both


def _connection(stream: socket.socket, wait_s: float) -> Connection:
    """The stream as one of messages, each of them waited for at most this long."""
    if stream.family != socket.AF_UNIX:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # orders are small and urgent
    connection = Connection(stream.detach())
    _wait_at_most(connection, wait_s)
    return connection


def _wait_at_most(connection: Connection, wait_s: float | None) -> None:
    """Let receiving fail (BlockingIOError) after this many seconds; None: never."""
    limit_us = 0 if wait_s is None else max(1, round(wait_s * 1e6))
    limit = struct.pack("ll", *divmod(limit_us, 1_000_000))
    with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


class Heartbeats:
    """Heartbeats between two processes of a learner: an end or a silence is noticed in seconds.

        thread ── one byte, four times per timeout ──► connection ◄── the same ── thread
                  its end, or silence for the timeout ─► lost(reason)

    A process that was stopped itself, and so heard nothing, begins anew. The clock is the
    machine's: the test hook `clock` does not change it.
    """

    def __init__(
        self, connection: Connection, *, timeout_s: float, lost: Callable[[str], None]
    ) -> None:
        """`lost` is called once, on the thread, with the reason."""
        self._connection = connection
        self._timeout_s = timeout_s
        self._lost = lost
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Begin to send and to listen."""
        self._thread.start()

    def _run(self) -> None:
        period_s = self._timeout_s / 4
        now_s = heard_s = due_s = monotonic()
        try:
            while now_s - heard_s <= self._timeout_s:
                began_s = now_s
                if began_s >= due_s:
                    self._connection.send_bytes(b".")
                    due_s = began_s + period_s
                if self._connection.poll(max(0.0, due_s - began_s)):
                    self._connection.recv_bytes()
                    heard_s = monotonic()
                now_s = monotonic()
                if now_s - began_s > 2 * period_s:  # this process was stopped
                    heard_s = now_s
        except (EOFError, OSError):
            self._lost("its connection ended")
        else:
            self._lost(f"no heartbeat for {now_s - heard_s:.1f} s")
