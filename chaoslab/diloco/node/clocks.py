"""Test hook for a node's clocks: sets the wall clock, or changes the rate of both clocks.

    harness ── {"do": "clock", "step_s": -300, "for_s": 10} ──► Clocks.apply_hook ─► time.time
               {"do": "clock", "rate": 1.2, "for_s": 10}    ──►              ─► and time.monotonic
    Clocks ── clock.read: before, after, twice a second, and at the end ──► evidence

A step moves the wall clock only, as NTP or the resume of a virtual machine does: no kernel moves a
monotonic clock. A rate changes both, as a faulty oscillator does. Afterwards the wall clock is
right again; a monotonic clock never goes back, so it keeps what it gained or lost.

Changed are `time.time`, `time.monotonic` and their `_ns` forms in the Python code of this process:
membership rules, periods and deadlines of this package, and a user's task. Not changed are the
kernel's own waits, clocks read by C code (gRPC, XLA, OpenSSL), round trips (`link_meter`) and the
pace of an emulated chip. The machine's clock is never touched.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping

from chaoslab.core.events import Json
from chaoslab.core.payloads import ClockRead, NodeFields
from chaoslab.diloco.node.events import Emit

READ_S = 0.5
"""Between two readings of clocks that a hook changes, in s."""
_REAL_WALL_NS, _REAL_MONOTONIC_NS = time.time_ns, time.monotonic_ns


class Clocks:
    """Clocks of this process. Changed by one thread, read by any."""

    def __init__(self, emit: Emit, about: NodeFields) -> None:
        self._emit, self._about = emit, about
        self._wall = _AdjustedClock(_REAL_WALL_NS)
        self._monotonic = _AdjustedClock(_REAL_MONOTONIC_NS)
        self._over: threading.Event | None = None
        """Set to end the periodic readings; None while no clock is changed."""

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Change the clocks as `facts` say, or restore them if empty; ValueError for bad values."""
        step_s = _number(facts.get("step_s", 0.0), "step_s")
        rate = _number(facts.get("rate", 1.0), "rate")
        if rate <= 0:
            raise ValueError(f"rate: must be above 0, got {rate!r}")
        if not facts:
            self._release()
            return
        if self._over is None:
            self._over = threading.Event()
            self._read()
            threading.Thread(
                target=self._read_periodically, args=(self._over,), daemon=True
            ).start()
        self._install()
        self._wall.adjust(rate, step_s=step_s)
        self._monotonic.adjust(rate)
        self._read()

    def _release(self) -> None:
        if self._over is None:
            return
        self._over.set()
        self._over = None
        self._wall.reset()
        self._monotonic.adjust(1.0)
        self._read()

    def _install(self) -> None:
        """Replace the functions of `time`; callers that hold the old ones are not affected."""
        time.time, time.time_ns = self._wall.seconds, self._wall.now_ns
        time.monotonic, time.monotonic_ns = self._monotonic.seconds, self._monotonic.now_ns

    def _read_periodically(self, over: threading.Event) -> None:
        while not over.wait(READ_S):
            self._read()

    def _read(self) -> None:
        wall_s, monotonic_s = self._wall.seconds(), self._monotonic.seconds()
        self._emit(ClockRead(**self._about, wall_s=wall_s, monotonic_s=monotonic_s))


class _AdjustedClock:
    """A clock that agrees with the real one at an anchor and runs at a rate of its own."""

    def __init__(self, real_ns: Callable[[], int]) -> None:
        self._real_ns = real_ns
        self._lock = threading.Lock()
        self._anchor_ns = self._anchor_adjusted_ns = real_ns()
        self._rate = 1.0

    def now_ns(self) -> int:
        """Nanoseconds, as `time.time_ns` and `time.monotonic_ns` return them."""
        with self._lock:
            return self._adjusted_ns(self._real_ns())

    def seconds(self) -> float:
        """The time in seconds."""
        return self.now_ns() / 1e9

    def adjust(self, rate: float, *, step_s: float = 0.0) -> None:
        """Continue from the present reading, moved by `step_s`, at this rate."""
        with self._lock:
            now_ns = self._real_ns()
            self._anchor_adjusted_ns = self._adjusted_ns(now_ns) + round(step_s * 1e9)
            self._anchor_ns, self._rate = now_ns, rate

    def reset(self) -> None:
        """Show the real time again."""
        with self._lock:
            self._anchor_ns = self._anchor_adjusted_ns = self._real_ns()
            self._rate = 1.0

    def _adjusted_ns(self, real_ns: int) -> int:
        return self._anchor_adjusted_ns + round((real_ns - self._anchor_ns) * self._rate)


def _number(value: Json, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: must be a finite number, got {value!r}")
    return float(value)
