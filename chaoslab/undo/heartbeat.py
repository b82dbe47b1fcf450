"""Heartbeat: the harness shows its janitor that it lives, and learns what was undone meanwhile.

    RunLoop ── beat, twice a second ──► pipe ──► janitor: no beat for 5 s? undo what is overdue
          ◄── Silence: how long, what was undone ◄── undone.jsonl ◄──┘
    Injector ── due_within(for_s): what a fault opens meanwhile is due by then ──► undo_log.jsonl

Both ends of the pipe may be stopped, killed or slow, and neither ever waits for the other.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from chaoslab.core.events import Json
from chaoslab.core.payloads import JanitorDied

UNDONE = "undone.jsonl"
"""Undos by the janitor while the harness was silent; written by the janitor alone."""
SILENT_S = 5.0
"""Silence after which a harness counts as unable to heal on time."""
STALL_S = 1.0
"""This long without a beat is noted: what came meanwhile is stamped late."""
BEAT_S = 0.5


StillThere: TypeAlias = Callable[[], Sequence[tuple[str, str]]]
"""Observes the world: what a fault has done and is still there, as the name of its node ("": none)
and a sentence."""
DueWithin: TypeAlias = Callable[[float | None], AbstractContextManager[StillThere]]


def no_undo_log(_for_s: float | None) -> AbstractContextManager[StillThere]:
    """Context without an undo log."""
    return nullcontext(tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A time in which the harness stalled."""

    for_s: float
    undone: tuple[str, ...]
    """Undos by its janitor meanwhile, as sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The harness's calls to its janitor and undo log; by default there are none."""

    beat: Callable[[], Silence | None] = lambda: None
    """Send a heartbeat; the silence before it, if that lasted for `STALL_S`."""
    lapse: Callable[[], JanitorDied | None] = lambda: None
    """The death of the janitor, told once; another one was started if possible."""
    due_within: DueWithin = no_undo_log
    """Context in which a fault is injected: undo entries opened in it are due after that time."""
    residue: Callable[[], Iterable[Mapping[str, Json]]] = tuple
    """Residue when every fault is healed and every node ended: what, where and remedy."""


@dataclass(slots=True, kw_only=True)
class Pulse:
    """The beats of one harness to one janitor."""

    pipe: int
    """The end that is written to; writing to it never waits."""
    run_directory: Path
    _last_s: float = field(default_factory=time.monotonic)
    _beaten_s: float = -math.inf
    _known: int = 0

    def beat(self) -> Silence | None:
        """See `Heartbeat.beat`. A janitor that is stopped is no trouble; one that is gone is
        `Heartbeat.lapse`'s.
        """
        now_s = time.monotonic()
        silent_s, self._last_s = now_s - self._last_s, now_s
        if now_s - self._beaten_s >= BEAT_S:
            self._beaten_s = now_s
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(self.pipe, b".")
        if silent_s < STALL_S:
            return None
        undone, known = tuple(read_undone(self.run_directory)), self._known
        self._known = len(undone)
        return Silence(for_s=silent_s, undone=undone[known:])


def read_undone(run_directory: Path) -> Iterator[str]:
    """Undos by a janitor while the harness was silent, oldest first."""
    path = run_directory / UNDONE
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):  # a torn last line
            yield from map(str, json.loads(line)["did"])
