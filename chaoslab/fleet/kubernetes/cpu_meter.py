"""Meter of the CPU time that learners use in pods, for plans with a fault that cuts it.

    every 5 s, pod after pod ─► a command in it ─► the count of its cgroup ─► `cpu_used`

A fault grants a share of what the node used before, so that has to be known when it begins. The
kubelet knows it, too, but to ask kubelets takes rights on machines. A command in a pod takes a
tenth of a second or more, on a thread of its own, so that it holds up nothing. Both count and time
are the machine's own: it does not matter how late the answer is.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, Self

from chaoslab.core.errors import FleetError

_EVERY_S: Final = 5.0
_CLOSED_S: Final = 5.0
"""Time for which a command that has begun is waited for at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCount:
    """CPU time of a container, and when it was counted, in s of its machine's clock since boot."""

    at_s: float
    used_s: float
    throttled_s: float
    """Time for which a limit kept its threads from a core, added up."""

    @classmethod
    def of(cls, printed: str) -> Self:
        """What `scripts.CPU_COUNT` prints: cpu.stat of cgroup v1 or v2, uptime, v1's usage."""
        lines = (line.split() for line in printed.splitlines())
        said = {line[0]: line[1] for line in lines if len(line) > 1}
        try:
            return cls(at_s=float(said["uptime"]), used_s=_seconds(said, "usage"),
                       throttled_s=_seconds(said, "throttled"))  # fmt: skip
        except (KeyError, ValueError) as error:
            raise FleetError(f"the container's CPU time cannot be read: {error}") from error


def _seconds(said: Mapping[str, str], what: str) -> float:
    """v2 counts microseconds, v1 nanoseconds."""
    if (v2 := said.get(f"{what}_usec")) is not None:
        return int(v2) / 1e6
    return int(said[f"{what}_time"]) / 1e9


class Measured(Protocol):
    """A pod whose CPU time is measured."""

    def measure_cpu(self) -> None:
        """Measure CPU time by a command in the pod. FleetError if that fails now."""
        ...


class CpuMeter:
    """Measures pods on a thread of its own, until it is closed."""

    def __init__(self, running: Callable[[], Iterable[Measured]]) -> None:
        self._running = running
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="cpu meter", daemon=True)

    def start(self) -> None:
        """Begin to measure."""
        self._thread.start()

    def close(self) -> None:
        """Measure no more; nothing if it was never started."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSED_S)

    def _measure(self) -> None:
        while not self._is_closing.wait(_EVERY_S):
            for one in self._running():
                if self._is_closing.is_set():
                    return
                with suppress(FleetError):  # it has ended: what is not known, no fault cuts
                    one.measure_cpu()
