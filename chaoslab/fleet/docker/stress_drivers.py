"""Mechanisms that put a stressor on a container: the engine's own limits, changed while it runs.

    Slowness ─► Quota: docker update, a part of the CPU time that the node used before
             └► StepRest: the learner's own rests, by its hook
    MemoryLimit ─► Starved: docker update, less memory than it needs
    Neighbours, OccupiedMemory ─► a container beside it

A container has one quota and one limit of memory, so two stressors of one kind on one node are
refused.
"""

import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import StressCounts
from chaoslab.core.units import plural
from chaoslab.fleet.docker.container import Container
from chaoslab.fleet.docker.engine import labels
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Missing
from chaoslab.fleet.docker.engine.stream import Stream
from chaoslab.fleet.docker.engine.usage import Meter
from chaoslab.fleet.local.neighbours import available_bytes, refuse_more_memory_than_there_is
from chaoslab.fleet.stress import stress_program
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stress.slowing import CpuShare, StepRest
from chaoslab.fleet.stress.stress_process import until
from chaoslab.fleet.stressors import (
    Mechanism,
    MemoryLimit,
    Neighbours,
    OccupiedMemory,
    Slowness,
)

_CUTS = (0.9, 0.97, 0.995, 0.999)
_LEAST_BYTES = 16 << 20
"""Engines refuse less than a few megabytes."""


def driver(wish: Wish[Container]) -> StressDriver:
    """Mechanism for a stressor on a container. FleetError if there is none."""
    found: Quota | Starved
    match wish.stressor:
        case Slowness(mechanism=Mechanism.HOOK) as slowness:
            return StepRest(wish.life, slowness)
        case Slowness(mechanism=Mechanism.AUTO | Mechanism.CGROUP) as slowness:
            found = Quota(wish, slowness)
        case MemoryLimit() as limit:
            found = Starved(wish, limit)
        case Neighbours() | OccupiedMemory() as crowd:
            return Beside(wish, crowd)
        case other:
            raise FleetError(f"stressor {other.kind}: not supported by the docker fleet")
    for one in wish.others:
        if isinstance(one, type(found)) and one.life is wish.life:
            subject = f"{wish.life.spec.name} has a {wish.stressor.kind} already"
            raise FleetError(f"{subject}, from {one.injection}")
    return found


class _Limited(StressDriver):
    """A limit of the engine, whose undo is written down before it changes."""

    def __init__(self, wish: Wish[Container]) -> None:
        self.life, self.injection = wish.life, wish.injection
        self._whole = wish.life.run_context.setup.limits
        """Limits while nothing is upon it."""

    def _open_undo(self) -> None:
        self.life.open_undo(labels.UNLIMIT, self.injection, **asdict(self._whole))

    def _close_undo(self) -> None:
        self.life.pending_undos.close(labels.UNLIMIT, self.injection)


class Quota(CpuShare, _Limited):
    """A quota of the engine's. FleetError while what the node uses is not known."""

    def __init__(self, wish: Wish[Container], stressor: Slowness) -> None:
        CpuShare.__init__(self, wish.life.spec.name, wish.calm_cores, stressor)
        _Limited.__init__(self, wish)

    @property
    def mechanism(self) -> str:
        return f"CPU quota of its container, {self._cores:.2f} cores"

    def begin(self) -> None:
        self._open_undo()
        self._apply()

    def end(self) -> None:
        if not self.life.has_exited:
            self.life.limit(replace(self.life.limits, cpus=self._whole.cpus))
            self._close_undo()

    def _apply(self) -> None:
        self.life.limit(replace(self.life.limits, cpus=min(self._whole.cpus, self._cores)))


class Starved(_Limited):
    """Less memory than it uses, as far as the kernel allows.

    cgroup v1 refuses a limit below what it cannot reclaim at once: then the least that it takes
    holds, and is tried again until an allocation meets it.
    """

    tick_s = 0.1

    def __init__(self, wish: Wish[Container], stressor: MemoryLimit) -> None:
        super().__init__(wish)
        self._stressor = stressor

    @property
    def mechanism(self) -> str:
        return f"memory limit of its container, {self.life.limits.memory_bytes} bytes"

    def begin(self) -> None:
        """Try less than it uses, then a little more until the kernel accepts it."""
        life, usage = self.life, self.life.usage
        used_bytes = usage.memory_bytes if usage is not None else 0
        most_bytes = self._stressor.limit_bytes
        limit_bytes = max(_LEAST_BYTES, min(most_bytes, used_bytes * 4 // 5 or most_bytes))
        self._open_undo()
        while True:
            try:
                life.limit(replace(life.limits, memory_bytes=limit_bytes))
            except FleetError:
                if limit_bytes >= self._whole.memory_bytes or life.has_exited:
                    raise
                limit_bytes = min(limit_bytes * 51 // 50, self._whole.memory_bytes)
            else:
                return

    def tick(self) -> None:
        """Lower the limit a little, while the node runs."""
        if self.life.has_exited:
            return
        for share_of_it in _CUTS:
            lower = max(_LEAST_BYTES, int(self.life.limits.memory_bytes * share_of_it))
            with suppress(FleetError):  # it holds as it is, or the node is gone
                self.life.limit(replace(self.life.limits, memory_bytes=lower))
                return

    def counts(self) -> StressCounts:
        """Whether it was killed out of memory, by the engine's word."""
        return {"oom_kills": int(self.life.was_out_of_memory)}

    def end(self) -> None:
        if not self.life.has_exited:
            self.life.limit(replace(self.life.limits, memory_bytes=self._whole.memory_bytes))
            self._close_undo()


_OWN_BYTES: Final = 64 << 20
"""Memory of the interpreter itself."""
_READY_S: Final = 30.0
_PAUSE_S: Final = 0.05
_ALL_CORES: Final = ""


class Beside(StressDriver):
    """Neighbours of a container: others that compute, or occupy memory, on the engine's machine.

        Neighbours ─► one container with so many `stress_program burn`, counted as as many
        OccupiedMemory ─► one container with a `stress_program occupy`, first in the kernel's line

    No network, nothing of the node's is in reach. What they use is the engine's word. They end with
    their standard input, which is the harness's, or when their time is over; the run's labels
    remove what is left of them. No stressor takes more than half of the memory that is available
    and not promised to another one.
    """

    def __init__(self, wish: Wish[Container], stressor: Neighbours | OccupiedMemory) -> None:
        self._life, self._stressor = wish.life, stressor
        self._promised_bytes = wish.promised_bytes
        self._engine = wish.life.engine
        self._name = wish.life.run_context.run_resources.helper(wish.life.spec.name, wish.injection)
        self._meter = Meter(self._engine, self._name)
        self._stream: Stream | None = None

    @property
    def mechanism(self) -> str:
        if isinstance(self._stressor, OccupiedMemory):
            return "a container that holds the memory"
        return f"a container with {plural(self._stressor.count, 'busy process', 'busy processes')}"

    @property
    def is_broken(self) -> bool:
        """Whether the container has ended."""
        try:
            return not self._engine.inspect(self._name).is_alive
        except Missing:
            return True

    def begin(self) -> None:
        """Start it, see that there is room for what it is to take, and let it go."""
        self._engine.create(self._as_asked())
        stream = self._stream = self._engine.attach(self._name, hears=True)
        self._engine.start(self._name)
        if isinstance(self._stressor, OccupiedMemory):
            available = self._await_left_bytes()
            refuse_more_memory_than_there_is(
                self._stressor.size_bytes, available, self._promised_bytes
            )
        try:
            stream.write(b"1.0\n")
        except OSError as error:
            raise FleetError(f"container {self._name} does not read its standard input") from error
        _ = self._meter.usage  # from now on

    def counts(self) -> StressCounts:
        """Its usage by the engine's report, and the free memory of the machine."""
        used = self._meter.usage
        if used is None:
            return {}
        counts: StressCounts = {
            "cpu_s": round(used.cpu_s, 3),
            "rss_bytes": used.memory_bytes,
        }
        if isinstance(self._stressor, OccupiedMemory):
            counts["available_bytes"] = round(self._left_bytes() or 0)
        return counts

    @property
    def promised_bytes(self) -> int:
        if not isinstance(self._stressor, OccupiedMemory) or self.is_broken:
            return 0
        used = self._meter.usage
        return max(0, self._stressor.size_bytes - (used.memory_bytes if used else 0))

    def end(self) -> None:
        self._meter.close()
        if self._stream is not None:
            self._stream.close()
        self._engine.remove(self._name)

    # ---------------------------------------------------------------- inside

    def _as_asked(self) -> ContainerSpec:
        run_resources, stressor = self._life.run_context.run_resources, self._stressor
        source = Path(stress_program.__file__).read_text(encoding="utf-8")
        keeps = ("python3", "-I", "-S", "-c", source)
        words: tuple[str, ...]
        if isinstance(stressor, OccupiedMemory):
            words = ("occupy", until(stressor.for_s), str(stressor.size_bytes))
            share, taken_bytes = 1, stressor.size_bytes + _OWN_BYTES
        else:
            words = ("burn", until(stressor.for_s), _ALL_CORES, str(stressor.count))
            share, taken_bytes = stressor.count, _OWN_BYTES * (1 + stressor.count)
        return ContainerSpec(
            name=self._name,
            image=self._life.image,
            command=(*keeps, *words),
            limits=replace(self._engine.machine(share + 16), memory_bytes=taken_bytes),
            network="none",
            labels=run_resources.labels,
            hears=True,
            share=share,
            is_first_to_go=True,
        )

    def _left_bytes(self) -> float | None:
        """Memory that its machine has left, as it printed last; None before the first time."""
        with suppress(ValueError):
            said = float(self._engine.said(self._name, last=1).strip())
            return min(said, available_bytes()) if self._engine.is_local else said
        return None

    def _await_left_bytes(self) -> float:
        deadline = time.monotonic() + _READY_S
        while (left_bytes := self._left_bytes()) is None:
            if time.monotonic() > deadline or self.is_broken:
                said = self._engine.said(self._name)[-300:]
                raise FleetError(f"container {self._name} does not say what is available: {said!r}")
            time.sleep(_PAUSE_S)
        return left_bytes
