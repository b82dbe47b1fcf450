"""Protocol points of a node: it reports that it reached one and waits there, if asked to.

    harness ── {"do": "watch", "phase": "written", "wait_s": 5} ──► Phases   (`hooks`)
            ◄───────────────── phase.reached ──────────────────────── reach("written", …)
                    ── {"do": "go"} ──► or wait_s is over, or the harness ended: training continues

A watch is used up when its point is reached. A point that is not watched reports nothing and takes
no time. Most protocol errors occur between two steps that belong together; the points are there.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chaoslab.core.events import Json
from chaoslab.core.payloads import NodeFields, PhaseReached
from chaoslab.core.protocol import Phase
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.hooks import Hooks


class Points(Protocol):
    """Points of one node: `Phases`, or those of a simulated one."""

    async def reach(
        self,
        phase: Phase,
        *,
        round: int | None = None,  # noqa: A002 - as the payload calls it
        fragment: int | None = None,
        version: int | None = None,
    ) -> None:
        """Report that the point is reached, if it is watched; return when its wait is over."""
        ...


@dataclass(slots=True, kw_only=True)
class _Watch:
    wait_s: float
    go: threading.Event = field(default_factory=threading.Event)


class Phases:
    """Points of one node. Any thread may reach one; the hooks' thread sets and ends watches."""

    def __init__(self, emit: Emit, about: NodeFields) -> None:
        self._emit = emit
        self._about = about
        self._lock = threading.Lock()
        self._watched: dict[Phase, _Watch] = {}
        self._waiting: list[_Watch] = []

    def register(self, hooks: Hooks) -> None:
        """Handle the requests `watch` and `go`."""
        hooks.on("watch", self._watch)
        hooks.on("go", self._go)

    async def reach(
        self,
        phase: Phase,
        *,
        round: int | None = None,  # noqa: A002 - as the payload calls it
        fragment: int | None = None,
        version: int | None = None,
    ) -> None:
        """See `Points.reach`."""
        if phase not in self._watched:
            return
        with self._lock:
            watch = self._watched.pop(phase, None)
            if watch is None:
                return
            self._waiting.append(watch)
        is_waiting = watch.wait_s > 0
        self._emit(
            PhaseReached(
                **self._about, phase=phase, is_waiting=is_waiting,
                round=round, fragment=fragment, version=version,
            )
        )  # fmt: skip
        if is_waiting:
            watch.go.wait(watch.wait_s)
        with self._lock:
            self._waiting.remove(watch)

    # ---------------------------------------------------------------- requests

    def _watch(self, facts: Mapping[str, Json]) -> None:
        """Watch for the next time that a point is reached; without facts end all watches."""
        if not facts:
            with self._lock:
                self._watched.clear()
            self._go({})
            return
        wait_s = facts.get("wait_s")
        asked_s = wait_s if isinstance(wait_s, int | float) and wait_s > 0 else 0.0
        watch = _Watch(wait_s=min(asked_s, threading.TIMEOUT_MAX))
        with self._lock:
            self._watched[Phase(str(facts["phase"]))] = watch

    def _go(self, _: Mapping[str, Json]) -> None:
        with self._lock:
            for watch in self._waiting:
                watch.go.set()
