"""Test hooks of a node: requests of a harness, one JSON line each, on standard input.

    harness ── {"do": "slow", "factor": 2, "for_s": 30} ──► Hooks (own thread) ─► handler(facts)
                            for_s over, or end of input: the request ends ──────► handler({})

Off unless the node was started with `--test-hooks`. Modules register their handlers; this module
knows no hook by name. A request with `for_s` ends after that time and with the harness, so that no
effect stays behind.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TypeAlias

from chaoslab.core.events import Json

Handler: TypeAlias = Callable[[Mapping[str, Json]], None]
"""Applies the facts of a request; an empty mapping ends it. Called on a thread of the hooks."""


class Hooks:
    """Handlers by name. They are called only after `listen`."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._timers: dict[str, threading.Timer] = {}
        self._turn = threading.RLock()

    def on(self, do: str, handler: Handler) -> None:
        """Register the handler of a request; calls never overlap."""
        self._handlers[do] = handler

    def listen(self, lines: IO[str] | None = None) -> None:
        """Start a thread that handles the lines of `lines`, by default of standard input."""
        source = sys.stdin if lines is None else lines
        threading.Thread(target=self._read_lines, args=(source,), name="hooks", daemon=True).start()

    def handle_line(self, line: str) -> None:
        """Handle one line. An invalid one is reported on standard error and ignored, so that a
        newer harness cannot end the training.
        """
        try:
            facts = json.loads(line)
            do, for_s = str(facts.pop("do")), _seconds(facts.pop("for_s", None))
            handler = self._handlers[do]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            _report_ignored(line, error)
            return
        with self._turn:
            try:
                handler(facts)
            except (ValueError, KeyError) as error:
                _report_ignored(line, error)  # an earlier request stays in force, for its own time
                return
            self._stop_timer(do)
            if for_s is not None:
                self._release_after(do, for_s)

    # ---------------------------------------------------------------- inside

    def _read_lines(self, lines: Iterable[str]) -> None:
        try:
            for line in lines:
                self.handle_line(line)
        finally:  # end of input or an error: end every request
            for do in self._handlers:
                self._release(do)

    def _release(self, do: str) -> None:
        with self._turn:
            self._stop_timer(do)
            self._handlers[do]({})

    def _release_after(self, do: str, for_s: float) -> None:
        timer = threading.Timer(for_s, self._expire, (do,))
        timer.daemon = True
        self._timers[do] = timer
        timer.start()

    def _expire(self, do: str) -> None:
        """End the request whose time is over, unless a later one has replaced it."""
        with self._turn:
            if self._timers.get(do) is threading.current_thread():
                del self._timers[do]
                self._handlers[do]({})

    def _stop_timer(self, do: str) -> None:
        timer = self._timers.pop(do, None)
        if timer is not None:
            timer.cancel()


def _seconds(for_s: Json) -> float | None:
    """Seconds, limited to what a thread can wait; ValueError for anything else."""
    if for_s is None:
        return None
    if isinstance(for_s, bool) or not isinstance(for_s, int | float) or not for_s >= 0:
        raise ValueError(f"for_s: must be seconds or null, got {for_s!r}")
    return min(for_s, threading.TIMEOUT_MAX)


def _report_ignored(line: str, error: Exception) -> None:
    sys.stderr.write(f"ignored test hook {line.strip()[:200]!r}: {error!r}\n")
