"""Clocks of one node, which a harness may set, or let run too fast or too slow: a test hook.

    harness ── {"do": "clock", "step_s": -300, "for_s": 10} ──► Clocks.obey ─► time.time
               {"do": "clock", "rate": 1.2, "for_s": 10}    ──►             ─► and time.monotonic
    Clocks ── clock.read: before, at once, twice a second, and when it is let go ──► evidence

A step moves the wall clock alone, as NTP and a virtual machine that is resumed do: no kernel moves
a monotonic clock. A drift changes the rate of both, as an oscillator that is off does. Afterwards
the wall clock is right again; a monotonic one never goes back, and keeps what it gained or lost.

What is moved is what Python code of this process reads by `time.time`, `time.monotonic` and their
`_ns` forms: the rules of membership, periods and deadlines of this package, and a user's task. Not
moved are the kernel's own waits, what C code reads (gRPC, XLA, OpenSSL), round trips (`meter`) and
the pace of an emulated chip. The machine's clock is never touched.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.node.events import Emit

_READ_S = 0.5
_REAL_WALL_NS, _REAL_MONOTONIC_NS = time.time_ns, time.monotonic_ns


class Clocks:
    """The clocks that this process shows. Asked by one thread, read by any."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._wall = _Shown(_REAL_WALL_NS)
        self._monotonic = _Shown(_REAL_MONOTONIC_NS)
        self._over: threading.Event | None = None
        """Set when the readings are to end; None while nothing is asked."""

    def obey(self, facts: Mapping[str, Json]) -> None:
        """Begin with what the facts say, or let go; ValueError for what is no clock."""
        step_s = _number(facts.get("step_s", 0.0), "step_s")
        rate = _number(facts.get("rate", 1.0), "rate")
        if rate <= 0:
            raise ValueError(f"`rate` is above 0, not {rate!r}")
        if not facts:
            self._let_go()
            return
        if self._over is None:
            self._over = threading.Event()
            self._read()
            threading.Thread(target=self._tell, args=(self._over,), daemon=True).start()
        self._install()
        self._wall.go_on(rate, step_s=step_s)
        self._monotonic.go_on(rate)
        self._read()

    def _let_go(self) -> None:
        if self._over is None:
            return
        self._over.set()
        self._over = None
        self._wall.set_right()
        self._monotonic.go_on(1.0)
        self._read()

    def _install(self) -> None:
        """Whoever looks a clock up from now on finds these."""
        time.time, time.time_ns = self._wall.seconds, self._wall.now_ns
        time.monotonic, time.monotonic_ns = self._monotonic.seconds, self._monotonic.now_ns

    def _tell(self, over: threading.Event) -> None:
        while not over.wait(_READ_S):
            self._read()

    def _read(self) -> None:
        shown = {"wall_s": self._wall.seconds(), "monotonic_s": self._monotonic.seconds()}
        self._emit(Kind.CLOCK_READ, shown)


class _Shown:
    """One clock as it is shown: it agrees with the real one at an anchor and has its own rate."""

    def __init__(self, real_ns: Callable[[], int]) -> None:
        self._real_ns = real_ns
        self._lock = threading.Lock()
        self._anchor_ns = self._anchor_shown_ns = real_ns()
        self._rate = 1.0

    def now_ns(self) -> int:
        """Nanoseconds, as `time.time_ns` and `time.monotonic_ns` return them."""
        with self._lock:
            return self._shown_ns(self._real_ns())

    def seconds(self) -> float:
        """The same in seconds."""
        return self.now_ns() / 1e9

    def go_on(self, rate: float, *, step_s: float = 0.0) -> None:
        """From what it shows now, moved by the step, at this rate."""
        with self._lock:
            now_ns = self._real_ns()
            self._anchor_shown_ns = self._shown_ns(now_ns) + round(step_s * 1e9)
            self._anchor_ns, self._rate = now_ns, rate

    def set_right(self) -> None:
        """As the real one."""
        with self._lock:
            self._anchor_ns = self._anchor_shown_ns = self._real_ns()
            self._rate = 1.0

    def _shown_ns(self, real_ns: int) -> int:
        return self._anchor_shown_ns + round((real_ns - self._anchor_ns) * self._rate)


def _number(value: Json, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"`{name}` is a finite number, not {value!r}")
    return float(value)
