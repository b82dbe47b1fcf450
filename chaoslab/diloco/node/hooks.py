"""The test hooks of a node: what a harness asks of it, one JSON line each, on standard input.

    harness ── {"do": "slow", "factor": 2, "for_s": 30} ──► Hooks (own thread) ─► obey(facts)
                                  for_s over, or end of input: it is let go ────► obey({})

Off unless the node was started with `--test-hooks`: a training without a harness reads nothing. Who
can be asked what registers it here; nothing in this module knows a hook by name. Whatever is asked
for a time ends by itself when the time is over, and with the harness: nothing stays behind.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TypeAlias

from chaoslab.core.events import Json

Obey: TypeAlias = Callable[[Mapping[str, Json]], None]
"""Takes the facts of what is asked; none of them lets go of it. Called on a thread of the hooks."""


class Hooks:
    """What one node can be asked to do. Without `listen` nothing ever is."""

    def __init__(self) -> None:
        self._obey: dict[str, Obey] = {}
        self._timers: dict[str, threading.Timer] = {}
        self._turn = threading.RLock()

    def on(self, do: str, obey: Obey) -> None:
        """Whatever is asked under this name goes to `obey`, one at a time."""
        self._obey[do] = obey

    def listen(self, lines: IO[str] | None = None) -> None:
        """Obey from now on what comes in; by default on standard input."""
        source = sys.stdin if lines is None else lines
        threading.Thread(target=self._hear, args=(source,), name="hooks", daemon=True).start()

    def take(self, line: str) -> None:
        """Obey one line. One that cannot be understood is said on standard error and passed over:
        a harness that is newer than the node must not end the training.
        """
        try:
            facts = json.loads(line)
            do, for_s = str(facts.pop("do")), _seconds(facts.pop("for_s", None))
            obey = self._obey[do]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            _pass_over(line, error)
            return
        with self._turn:
            try:
                obey(facts)
            except (ValueError, KeyError) as error:
                _pass_over(line, error)  # what was asked before it holds on, and ends in its time
                return
            self._stop_timer(do)
            if for_s is not None:
                self._let_go_after(do, for_s)

    # ---------------------------------------------------------------- inside

    def _hear(self, lines: Iterable[str]) -> None:
        try:
            for line in lines:
                self.take(line)
        finally:  # whatever ended it, nothing stays behind
            for do in self._obey:
                self._let_go(do)

    def _let_go(self, do: str) -> None:
        with self._turn:
            self._stop_timer(do)
            self._obey[do]({})

    def _let_go_after(self, do: str, for_s: float) -> None:
        timer = threading.Timer(for_s, self._over, (do,))
        timer.daemon = True
        self._timers[do] = timer
        timer.start()

    def _over(self, do: str) -> None:
        """The time of this very request is over, unless another one has come in between."""
        with self._turn:
            if self._timers.get(do) is threading.current_thread():
                del self._timers[do]
                self._obey[do]({})

    def _stop_timer(self, do: str) -> None:
        timer = self._timers.pop(do, None)
        if timer is not None:
            timer.cancel()


def _seconds(for_s: Json) -> float | None:
    """As long as a thread can wait; ValueError for what is no time."""
    if for_s is None:
        return None
    if isinstance(for_s, bool) or not isinstance(for_s, int | float) or not for_s >= 0:
        raise ValueError(f"`for_s` is a number of seconds or null, not {for_s!r}")
    return min(for_s, threading.TIMEOUT_MAX)


def _pass_over(line: str, error: Exception) -> None:
    sys.stderr.write(f"no hook is meant by {line.strip()[:200]!r} ({error!r})\n")
