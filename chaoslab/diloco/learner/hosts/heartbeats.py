"""Heartbeats between two processes of a learner: an end or a silence is noticed in seconds.

    thread ── one byte, four times per timeout ──► connection ◄── the same ── thread
              its end, or silence for the timeout ─► lost(reason)

A process that was stopped itself, and so heard nothing, begins anew. The clock is the machine's:
the test hook `clock` does not change it.
"""

import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from time import monotonic


class Heartbeats:
    """Heartbeats of one connection, on a thread of its own."""

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
