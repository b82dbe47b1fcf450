"""Neighbours of a container: others that compute, or occupy memory, on the engine's machine.

    Neighbours ─► one container with so many `stress_program burn`, counted as as many containers
    OccupiedMemory ─► one container with a `stress_program occupy`, first in the kernel's line

No network, nothing of the node's is in reach. What they use is the engine's word. They end with
their standard input, which is the harness's, or when their time is over; the run's labels remove
what is left of them. No stressor takes more than half of the memory that is available and not
promised to another one.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.fleet.docker.container import Container
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Missing
from chaoslab.fleet.docker.engine.stream import Stream
from chaoslab.fleet.docker.engine.usage import Meter
from chaoslab.fleet.local.neighbours import available_bytes, refuse_more_memory_than_there_is
from chaoslab.fleet.stress import stress_program
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stress.stress_process import until
from chaoslab.fleet.stressors import Neighbours, OccupiedMemory

_OWN_BYTES: Final = 64 << 20
"""What the interpreter itself may take."""
_READY_S: Final = 30.0
_PAUSE_S: Final = 0.05
_ALL_CORES: Final = ""


class Beside(StressDriver):
    """A container beside that of the node."""

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
            raise FleetError(f"container {self._name} does not take in what it is told") from error
        _ = self._meter.usage  # from now on

    def counts(self) -> Mapping[str, Json]:
        """What it has used and holds, by the engine's word, and what the machine has left."""
        used = self._meter.usage
        if used is None:
            return {}
        counts: dict[str, Json] = {
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
