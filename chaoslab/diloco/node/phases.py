"""Named points of the protocol: a node says that it is there, and waits there, if it was asked to.

    harness ── {"do": "watch", "phase": "written", "hold_s": 5} ──► Phases   (`hooks`)
            ◄───────────────── phase.reached ──────────────────────── reach("written", …)
            ── {"do": "go"} ──► or hold_s is over, or the harness is gone: training goes on

A watch counts once. Whoever passes a point that nobody watches says nothing and loses no time. The
hard bugs live between two steps that belong together; these are the places between them.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.hooks import Hooks


class Phase(StrEnum):
    """All points, in the order of a round; the first four are the syncer's."""

    QUORUM = "quorum"
    """Enough have answered: the round is closed and not yet merged."""
    BEFORE_WRITE = "before_write"
    """Merged in memory, nothing on disk."""
    WRITTEN = "written"
    """On disk with its line of the tape; nobody has seen the version."""
    PUBLISH = "publish"
    """The first learner was sent the version, the others not."""
    PUSH = "push"
    """A learner's update is partly on the wire."""
    DONATE = "donate"
    """A donor's checkpoint is partly on the wire."""
    ADOPT = "adopt"
    """A learner has overwritten a fragment and not yet said so."""


@dataclass(slots=True, kw_only=True)
class _Watch:
    hold_s: float
    go: threading.Event = field(default_factory=threading.Event)


class Phases:
    """The points of one node. Any thread may reach one; the hooks' thread watches and lets go."""

    def __init__(self, emit: Emit, about: Mapping[str, Json]) -> None:
        """`about`: who says it, for every `phase.reached`."""
        self._emit = emit
        self._about = about
        self._lock = threading.Lock()
        self._watched: dict[Phase, _Watch] = {}
        self._held: list[_Watch] = []

    def take_words(self, hooks: Hooks) -> None:
        """Obey `watch` and `go`."""
        hooks.on("watch", self._run_loop)
        hooks.on("go", self._go)

    def reach(self, phase: Phase, **facts: Json) -> None:
        """Here is the point. Returns at once, or when it is over if it is to be held."""
        if phase not in self._watched:
            return
        with self._lock:
            run_loop = self._watched.pop(phase, None)
            if run_loop is None:
                return
            self._held.append(run_loop)
        is_held = run_loop.hold_s > 0
        said = {"phase": phase.value, **facts, "is_held": is_held}
        self._emit(Kind.PHASE_REACHED, {**self._about, **said})
        if is_held:
            run_loop.go.wait(run_loop.hold_s)
        with self._lock:
            self._held.remove(run_loop)

    # ---------------------------------------------------------------- words

    def _run_loop(self, facts: Mapping[str, Json]) -> None:
        """Say so when this point is next reached; without facts nothing is watched any more."""
        if not facts:
            with self._lock:
                self._watched.clear()
            self._go({})
            return
        hold_s = facts.get("hold_s")
        asked_s = hold_s if isinstance(hold_s, int | float) and hold_s > 0 else 0.0
        run_loop = _Watch(hold_s=min(asked_s, threading.TIMEOUT_MAX))
        with self._lock:
            self._watched[Phase(str(facts["phase"]))] = run_loop

    def _go(self, _: Mapping[str, Json]) -> None:
        with self._lock:
            for run_loop in self._held:
                run_loop.go.set()
