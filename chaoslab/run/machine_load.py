"""Load of the machine of the harness, and with whose work: samples for the journal.

    /proc/stat ─────────► busy, idle and stolen cores ┐
    /proc/<pid>/stat ───► those of the run's own tree ┴─► what others took
    /proc/<pid>/task/*/schedstat ─► of each node: did its threads run when they were ready?
    /proc/loadavg, /proc/pressure, the cgroup's cpu.stat, /proc/self/schedstat ─► beside it

A sample is made of two readings; its rates are means between them. Reading costs a few
milliseconds. What this kernel does not tell is null; without /proc there are no samples.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaoslab.core.payloads import MachineSampled

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CGROUP_STATS = {
    "sys/fs/cgroup/cpu.stat": ("throttled_usec", 1e6),
    "sys/fs/cgroup/cpu/cpu.stat": ("throttled_time", 1e9),
}
"""Of cgroups v2 and v1: the key of the throttled time, and its units per second."""
_WINDOW_S_LEAST = 0.5
_READ_BYTES = 1 << 16
"""Far more than any of these files has."""
_PRESSURES = ("cpu", "io", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSeconds:
    """CPU seconds of one process."""

    own_s: float
    reaped_s: float
    """Of the children that it has reaped, and theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimes:
    """For how long a thread had a core, and for how long it was ready and had none."""

    ran_s: float
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the kernel has counted so far; seconds of CPU time add up over all cores."""

    busy_s: float
    idle_s: float
    stolen_s: float
    own: Mapping[int, CpuSeconds]
    """By process: the harness, the nodes and everything below them."""
    turns: Mapping[str, Mapping[int, ThreadTimes]]
    """By node and thread, of its process and of all below it."""
    harness_s: float
    """Of the process of the harness alone."""
    cores: int
    waited_s: float | None
    """Of the main thread of the harness, ready to run and without a core."""
    throttled_s: float | None
    pressure_s: Mapping[str, float | None]
    """By resource: how long some process waited for it."""
    load_1m: float


@dataclass(slots=True, kw_only=True)
class Machine:
    """Samples of this machine, one after another."""

    root: Path = Path("/")
    """Where /proc and /sys are."""
    harness: int = field(default_factory=os.getpid)
    _before: tuple[float, Reading] | None = None

    def sample(self, now_s: float, nodes: Mapping[str, int]) -> MachineSampled | None:
        """What happened since the last sample, as machine.sampled carries it.

        None for the first, and too soon after another: the kernel counts in hundredths of a second.

        `nodes` are the processes of the nodes on this machine, by name: some are not below the
        harness.
        """
        if self._before is not None and now_s - self._before[0] < _WINDOW_S_LEAST:
            return None
        after = read(self.root, nodes, self.harness)
        earlier, self._before = self._before, (now_s, after) if after else None
        if earlier is None or after is None:
            return None
        return _sampled(earlier[1], after, now_s - earlier[0], len(nodes))


def read(root: Path, nodes: Mapping[str, int], harness: int) -> Reading | None:
    """The counters now; None where there is no such /proc. `nodes`: their processes, by name."""
    try:
        lines = (root / "proc/stat").read_text().splitlines()
        used, below = _processes(root / "proc", {harness, *nodes.values()})
        load_1m = float((root / "proc/loadavg").read_text().split()[0])
    except OSError:
        return None
    user, nice, system, idle, iowait, irq, softirq, stolen, *_ = (
        int(word) / _TICKS_PER_S for word in lines[0].split()[1:]
    )
    own = {pid: used[pid] for pid in _tree({harness, *nodes.values()}, below) if pid in used}
    turns = {
        name: {
            thread: turn
            for process in _tree({pid}, below)
            for thread, turn in _turns(f"{root}/proc/{process}/task")
        }
        for name, pid in nodes.items()
    }
    return Reading(
        busy_s=user + nice + system + irq + softirq,
        idle_s=idle + iowait,
        stolen_s=stolen,
        own=own,
        turns=turns,
        harness_s=own[harness].own_s if harness in own else 0.0,
        cores=sum(line.startswith("cpu") for line in lines) - 1,
        waited_s=_waited_s(root / f"proc/{harness}/schedstat"),
        throttled_s=_throttled_s(root),
        pressure_s={name: _pressure_s(root / f"proc/pressure/{name}") for name in _PRESSURES},
        load_1m=load_1m,
    )


def _sampled(before: Reading, after: Reading, window_s: float, nodes: int) -> MachineSampled:
    def cores(used_s: float) -> float:
        return round(max(0.0, used_s) / window_s, 4)

    def grown(early: float | None, late: float | None, per: float = 1.0) -> float | None:
        if early is None or late is None:
            return None
        return round(max(0.0, late - early) / per, 4)

    own_s = _used_s(before.own, after.own)
    cpu_pressure, io_pressure, memory_pressure = (
        grown(before.pressure_s[name], after.pressure_s[name], window_s) for name in _PRESSURES
    )
    return MachineSampled(
        window_s=round(window_s, 4),
        cores=after.cores,
        load_1m=after.load_1m,
        own_cores=cores(own_s),
        harness_cores=cores(after.harness_s - before.harness_s),
        others_cores=cores(after.busy_s - before.busy_s - own_s),
        stolen_cores=cores(after.stolen_s - before.stolen_s),
        idle_cores=cores(after.idle_s - before.idle_s),
        waited_s=grown(before.waited_s, after.waited_s),
        throttled_s=grown(before.throttled_s, after.throttled_s),
        cpu_pressure=cpu_pressure,
        io_pressure=io_pressure,
        memory_pressure=memory_pressure,
        nodes=nodes,
        given={
            name: round(share, 4)
            for name, late in after.turns.items()
            if (share := _given(before.turns.get(name, {}), late)) is not None
        },
    )


def _given(before: Mapping[int, ThreadTimes], after: Mapping[int, ThreadTimes]) -> float | None:
    """Of the time in which threads were ready, the share in which they ran; None if none was."""
    nothing = ThreadTimes(ran_s=0.0, waited_s=0.0)
    pairs = [(before.get(thread, nothing), now) for thread, now in after.items()]
    ran_s = sum(now.ran_s - then.ran_s for then, now in pairs)
    waited_s = sum(now.waited_s - then.waited_s for then, now in pairs)
    return ran_s / (ran_s + waited_s) if ran_s + waited_s > 0 else None


def _used_s(before: Mapping[int, CpuSeconds], after: Mapping[int, CpuSeconds]) -> float:
    """CPU seconds of the run between two readings.

    The time of a process that ended is known if the run reaped it; a container's is reaped by
    others, and then that of each process that is still there counts.
    """

    def whole_s(used: Mapping[int, CpuSeconds]) -> float:
        return sum(one.own_s + one.reaped_s for one in used.values())

    nothing = CpuSeconds(own_s=0.0, reaped_s=0.0)
    still_there_s = sum(
        max(0.0, now.own_s - before.get(pid, nothing).own_s) for pid, now in after.items()
    )
    return max(whole_s(after) - whole_s(before), still_there_s)


def _processes(
    proc: Path, trees: set[int]
) -> tuple[Mapping[int, CpuSeconds], Mapping[int, Sequence[int]]]:
    """What each process has used, and those below each: its children, and the group of a tree."""
    below: dict[int, list[int]] = defaultdict(list)
    used: dict[int, CpuSeconds] = {}
    for pid in (int(name) for name in os.listdir(proc) if name.isdigit()):
        stat = _text(f"{proc}/{pid}/stat")
        if stat is None:  # it has ended since
            continue
        words = stat.rpartition(")")[2].split()  # its name may hold anything
        parent, group = int(words[1]), int(words[2])
        below[group if group in trees and pid != group else parent].append(pid)
        user, system, reaped_user, reaped_system = map(int, words[11:15])
        used[pid] = CpuSeconds(
            own_s=(user + system) / _TICKS_PER_S,
            reaped_s=(reaped_user + reaped_system) / _TICKS_PER_S,
        )
    return used, below


def _tree(roots: Iterable[int], below: Mapping[int, Sequence[int]]) -> set[int]:
    """These processes and all below them."""
    found, pending = set[int](), [*roots]
    while pending:
        if (pid := pending.pop()) not in found:
            found.add(pid)
            pending += below.get(pid, ())
    return found


def _turns(tasks: str) -> Iterator[tuple[int, ThreadTimes]]:
    """Of each thread in this folder; of none where the kernel does not count it."""
    try:
        threads = os.listdir(tasks)
    except OSError:  # the process has ended since
        return
    for thread in threads:
        if text := _text(f"{tasks}/{thread}/schedstat"):
            ran, waited, _ = text.split()
            yield int(thread), ThreadTimes(ran_s=int(ran) / 1e9, waited_s=int(waited) / 1e9)


def _waited_s(path: Path) -> float | None:
    text = _text(path)
    return int(text.split()[1]) / 1e9 if text else None


def _throttled_s(root: Path) -> float | None:
    """Of the cgroup that is mounted here: of this container, or of the machine."""
    for name, (key, units_per_s) in _CGROUP_STATS.items():
        if line := _line(root / name, key):
            return int(line.split()[1]) / units_per_s
    return None


def _pressure_s(path: Path) -> float | None:
    line = _line(path, "some")
    return int(line.rpartition("total=")[2]) / 1e6 if line else None


def _line(path: Path, key: str) -> str | None:
    """The line of the file that begins with this word; None if there is none."""
    lines = (_text(path) or "").splitlines()
    return next((line for line in lines if line.startswith(f"{key} ")), None)


def _text(path: Path | str) -> str | None:
    """What the kernel says there; None where it does not. Fast: there may be many processes."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, _READ_BYTES).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(file)
