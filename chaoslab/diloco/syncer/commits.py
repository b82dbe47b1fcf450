"""Queue of merges that are written to disk in order, and retried until the disk accepts them.

    Merge ─► add ─► waiting ─► commit ─► on disk ─► next(): may be published
                     ▲          │ OSError: syncer.blocked, once
                     └──────────┘ retried every half second; syncer.freed when it succeeds

Only what is on disk is published. While the disk refuses writes, the syncer keeps serving. A
fragment has no further round before its version is published, so at most one merge of each fragment
waits.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import asdict

from chaoslab.core.events import Kind
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.phases import Phase, Phases
from chaoslab.diloco.syncer.decisions import Merge
from chaoslab.diloco.syncer.merge import OuterState
from chaoslab.diloco.syncer.messages import identity
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.syncer_state import Publication, SyncerState

_AGAIN_S = 0.5
"""Seconds between two attempts to write."""


class Commits:
    """Queue in front of the disk. For the syncer's main thread."""

    def __init__(
        self,
        policy: Policy,
        syncer_state: SyncerState,
        *,
        phases: Phases,
        emit: Emit,
        now: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._syncer_state = syncer_state
        self._phases = phases
        self._emit = emit
        self._now = now
        self._waiting: deque[tuple[Merge, OuterState]] = deque()
        self._blocked_s: float | None = None
        """Time at which the disk began to refuse writes; None while it accepts them."""
        self._again_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether everything that was merged is on disk."""
        return not self._waiting

    def add(self, action: Merge) -> None:
        """Merge now, and queue the result."""
        self._phases.reach(Phase.QUORUM, **action.place)
        self._waiting.append((action, self._syncer_state.merge(action)))
        for contribution, excess in self._syncer_state.pushes.bounded:
            who, place = (
                identity(contribution),
                {"round": action.round, "fragment": action.fragment},
            )
            self._emit(Kind.PUSH_BOUNDED, {**who, **place, **asdict(excess)})
        self._phases.reach(Phase.BEFORE_WRITE, **action.place)

    def next(self) -> tuple[Merge, Publication] | None:
        """The oldest merge, now on disk; None if none waits or the disk does not accept it."""
        if self._blocked_s is not None and self._now() < self._again_s:
            return None
        try:
            self._syncer_state.reserve(self._policy)
            if not self._waiting:
                self._note_freed()
                return None
            action, state = self._waiting[0]
            began_s = self._now()
            publication = self._syncer_state.commit(action, state, self._policy, began_s)
        except OSError as error:
            self._note_blocked(error)
            return None
        self._note_freed()
        self._waiting.popleft()
        self._emit(Kind.ROUND_STORED, {**action.place, "took_s": self._now() - began_s})
        self._phases.reach(Phase.WRITTEN, **action.place)
        return action, publication

    def _note_blocked(self, error: OSError) -> None:
        self._again_s = self._now() + _AGAIN_S
        if self._blocked_s is None:
            self._blocked_s = self._now()
            self._emit(Kind.SYNCER_BLOCKED, {"waiting": len(self._waiting), "reason": _said(error)})

    def _note_freed(self) -> None:
        if self._blocked_s is not None:
            self._emit(
                Kind.SYNCER_FREED,
                {"waiting": len(self._waiting), "blocked_s": self._now() - self._blocked_s},
            )
            self._blocked_s = None


def _said(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"
