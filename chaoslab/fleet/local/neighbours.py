"""Neighbours of a node: processes that compute, occupy memory, or use a limit of memory up with it.

    Neighbours  ─► this many `stress_program burn` on the cores that the node may use
    OccupiedMemory  ─► one `stress_program occupy`, which has touched every page
    MemoryLimit ─► a memory cgroup with the node and a few `stress_program occupy` that want more
                   than there is: the kernel kills, and the node is first in its line

No stressor takes more than half of the memory that is available and not promised to another one,
and a process that occupies memory is the first that the kernel kills without it: the machine
survives the run.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import StressCounts
from chaoslab.core.units import plural
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.local.incarnation import LocalProcess
from chaoslab.fleet.local.stress_driver import OwnCgroup, stress_process
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stress.stress_process import StressProcess
from chaoslab.fleet.stressors import MemoryLimit, Neighbours, OccupiedMemory

MEMORY_SHARE = 0.5
"""Largest share of the available memory that a stressor takes."""
_FIRST, _LIKE_OTHERS = "1000", "0"
"""OOM scores of a process: the first to be killed, and as any other."""
_EATERS = 4
"""The kernel kills the largest process, and the first in line counts as large as the whole limit:
this many share it, so that none of them is."""


class Beside(StressDriver):
    """Processes that compute or occupy memory beside the node."""

    def __init__(self, wish: Wish[LocalProcess], stressor: Neighbours | OccupiedMemory) -> None:
        self._wish, self._stressor = wish, stressor
        self._processes: list[StressProcess] = []

    @property
    def mechanism(self) -> str:
        if isinstance(self._stressor, OccupiedMemory):
            return "a process that holds the memory"
        return (
            f"{plural(self._stressor.count, 'busy process', 'busy processes')} on the node's cores"
        )

    @property
    def is_broken(self) -> bool:
        """Whether one of them has ended."""
        return any(one.is_over for one in self._processes)

    def begin(self) -> None:
        """Start all of them, then let them go at once."""
        wish, stressor, for_s = self._wish, self._stressor, self._stressor.for_s
        if isinstance(stressor, OccupiedMemory):
            refuse_more_memory_than_there_is(
                stressor.size_bytes, available_bytes(), wish.promised_bytes
            )
            self._processes.append(stress_process(wish, "occupy", stressor.size_bytes, for_s=for_s))
            _in_line(self._processes[-1].identity.pid, _FIRST)
        else:
            cores = _cores_of(wish.life.identity.pid)
            for _ in range(stressor.count):
                self._processes.append(stress_process(wish, "burn", cores, for_s=for_s))
        for one in self._processes:
            one.ask(1.0)

    def counts(self) -> StressCounts:
        """Their usage and occupied memory, and the free memory of the machine."""
        seen = [one.look() for one in self._processes]
        return {
            "cpu_s": round(sum(one.cpu_s for one in seen), 3),
            "rss_bytes": sum(one.rss_bytes for one in seen),
            "available_bytes": round(available_bytes()),
        }

    @property
    def promised_bytes(self) -> int:
        if not isinstance(self._stressor, OccupiedMemory) or self.is_broken:
            return 0
        return _missing(self._stressor.size_bytes, self._processes)

    def end(self) -> None:
        for one in self._processes:
            one.end()


class SharedLimit(StressDriver):
    """A limit of memory that the node shares with processes which use all of it up."""

    def __init__(self, wish: Wish[LocalProcess], stressor: MemoryLimit) -> None:
        self._wish, self._stressor = wish, stressor
        self._own = OwnCgroup(wish, Controller.MEMORY)
        self._eaters: list[StressProcess] = []
        self._marked: tuple[int, ...] = ()

    @property
    def mechanism(self) -> str:
        return f"a memory limit by {self._own.home}"

    @property
    def is_broken(self) -> bool:
        """Whether the cgroup was removed from outside. That the eaters are killed is intended."""
        return self._own.is_gone

    def begin(self) -> None:
        """The kernel will be asked for far more than the limit, so it kills."""
        limit_bytes = self._stressor.limit_bytes
        refuse_more_memory_than_there_is(limit_bytes, available_bytes(), self._wish.promised_bytes)
        group = self._own.make()
        group.limit_memory(limit_bytes)
        for _ in range(_EATERS):
            eater = stress_process(self._wish, "occupy", limit_bytes, for_s=self._stressor.for_s)
            self._eaters.append(eater)
        self._marked = self._wish.life.pids
        for pid in self._marked:
            _in_line(pid, _FIRST)
        group.take_in((*self._marked, *(eater.identity.pid for eater in self._eaters)))
        for eater in self._eaters:
            eater.ask(1.0)

    def counts(self) -> StressCounts:
        """Number of processes that the kernel has killed in it."""
        return {"oom_kills": self._own.group.oom_kills} if self._own.is_there else {}

    @property
    def promised_bytes(self) -> int:
        return _missing(self._stressor.limit_bytes, self._eaters) if self._own.is_there else 0

    def end(self) -> None:
        """Remove limit and eaters; the node is no longer the first that the kernel kills."""
        for eater in self._eaters:
            eater.end()
        for pid in set(self._marked) & set(self._wish.life.pids):
            _in_line(pid, _LIKE_OTHERS)
        self._own.remove()


def refuse_more_memory_than_there_is(size_bytes: int, available: float, promised: int = 0) -> None:
    """FleetError if that would endanger the machine that has this much available."""
    left_bytes = max(0.0, available - promised)
    if size_bytes > MEMORY_SHARE * left_bytes:
        raise FleetError(
            f"{size_bytes / 1e6:,.0f} MB are more than {MEMORY_SHARE:.0%} of the "
            f"{left_bytes / 1e6:,.0f} MB of memory that are available: ask for less"
        )


def available_bytes() -> float:
    """Available memory of the machine, and within the limits around us, if there are any."""
    return min(psutil.virtual_memory().available, cgroups.memory_left_bytes())


def _missing(size_bytes: int, processes: Iterable[StressProcess]) -> int:
    return max(0, size_bytes - sum(one.look().rss_bytes for one in processes))


def _cores_of(pid: int) -> str:
    """The cores that a process may use, as `stress_program` reads them; empty where nobody says."""
    try:
        return ",".join(str(core) for core in psutil.Process(pid).cpu_affinity() or ())
    except (psutil.Error, AttributeError):
        return ""


def _in_line(pid: int, place: str) -> None:
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(place, encoding="ascii")
