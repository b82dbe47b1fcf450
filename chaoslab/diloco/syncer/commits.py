"""Merges on their way to the disk: in order, and again and again until it takes them.

    Merge ─► add ─► waiting ─► commit ─► on disk ─► next(): may be published
                       ▲          │ OSError: syncer.blocked, once
                       └──────────┘ half a second later again; syncer.freed when it went through

Nothing is ever published that is not on disk. While the disk refuses, the syncer goes on serving;
as a fragment has no further round before its version was published, at most one merge of each
fragment waits here.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from chaoslab.core.events import Kind
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.phases import Phase, Phases
from chaoslab.diloco.syncer.decisions import Merge
from chaoslab.diloco.syncer.merge import OuterState
from chaoslab.diloco.syncer.messages import bounded
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.syncer_state import Publication, SyncerState

_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class _Waiting:
    action: Merge
    state: OuterState


class Commits:
    """The queue before the disk. For the syncer's one thread."""

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
        self._waiting: deque[_Waiting] = deque()
        self._blocked_s: float | None = None
        """Since when the disk refuses."""
        self._again_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether everything that was merged is on disk."""
        return not self._waiting

    def add(self, action: Merge) -> None:
        """Merge, and put it at the end of the queue."""
        self._phases.reach(Phase.QUORUM, **_place(action))
        self._waiting.append(_Waiting(action, self._syncer_state.merge(action)))
        for contribution, excess in self._syncer_state.pushes.bounded:
            self._emit(Kind.PUSH_BOUNDED, bounded(action, contribution, excess))
        self._phases.reach(Phase.BEFORE_WRITE, **_place(action))

    def next(self) -> tuple[Merge, Publication] | None:
        """The oldest merge, now on disk; None if none waits or the disk does not take it."""
        if self._blocked_s is not None and self._now() < self._again_s:
            return None
        try:
            self._syncer_state.reserve(self._policy)
            if not self._waiting:
                self._note_freed()
                return None
            action, state = self._waiting[0].action, self._waiting[0].state
            began_s = self._now()
            publication = self._syncer_state.commit(action, state, self._policy, began_s)
        except OSError as error:
            self._note_blocked(error)
            return None
        self._note_freed()
        self._waiting.popleft()
        self._emit(Kind.ROUND_STORED, {**_place(action), "took_s": self._now() - began_s})
        self._phases.reach(Phase.WRITTEN, **_place(action))
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


def _place(action: Merge) -> dict[str, int]:
    """Where in training a merge is."""
    return {
        "round": action.round, "fragment": action.fragment, "version": action.base_version + 1
    }  # fmt: skip


def _said(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"
