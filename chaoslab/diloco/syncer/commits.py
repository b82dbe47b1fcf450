"""Merges on their way to the disk, in order, each tried until the disk accepts it.

    add ─► merge ─► write ─► encode ─► announce, on the main thread
                    ▲ ▲ │ OSError: syncer.blocked, once      │
                    │ └─┘ tried again (`disk_writes`); syncer.freed when it succeeds
                    └──────────── the next one ──────────────┘

Only what is on disk is published. The syncer keeps serving meanwhile: all of this are jobs of
`work` in order. A fragment has no further round before its version is
published, so at most one merge of each fragment is under way. Nothing is written before the merge
that was written last has been announced: of those on disk a process that is killed leaves at most
one that was not announced, which the next process reports (`SyncerState.restore`).
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

from chaoslab.core.payloads import PushBounded, RoundStored
from chaoslab.core.protocol import Phase
from chaoslab.diloco.node.phases import Points
from chaoslab.diloco.syncer.commit_log import CommitRecord
from chaoslab.diloco.syncer.context import SyncerContext
from chaoslab.diloco.syncer.decisions import Merge
from chaoslab.diloco.syncer.disk_writes import StillRefused
from chaoslab.diloco.syncer.messages import identity
from chaoslab.diloco.syncer.resume import commit_record
from chaoslab.diloco.syncer.training_state import MergeInput, Publication
from chaoslab.diloco.syncer.work import Stage

_CLOSING_S = 0.1
"""Seconds after which it is seen that the syncer ends."""


class Commits:
    """Merges from their decision to their announcement. For the syncer's main thread."""

    def __init__(
        self,
        context: SyncerContext,
        *,
        announce: Callable[[Merge, Publication], Coroutine[Any, Any, None]],
        phases: Points,
    ) -> None:
        """`announce` is called for each merge that is on disk."""
        self._policy = context.policy
        self._syncer_state = context.state
        self._work = context.work
        self._writes = context.writes
        self._announce = announce
        self._phases = phases
        self._emit = context.emit
        self._now = context.now
        self._announced = context.work.flag()
        """Whether all that is on disk was announced."""
        self._announced.set()
        self._is_reserving = False

    @property
    def is_empty(self) -> bool:
        """Whether everything that was merged is on disk and announced."""
        return not self._writes.waiting

    def add(self, action: Merge) -> None:
        """Begin to merge; the state of the policy at this moment goes to the commit log."""
        given = self._syncer_state.pushes.of(action)
        line = commit_record(action, self._policy, self._now(), usual=given.median)
        self._writes.waiting += 1
        self._work.in_order(
            lambda: self._commit(action, given, line),
            lambda committed: self._committed(*committed),
        )
        tokens = action.fragment_tokens / self._policy.settings.fragments
        self._work.in_order(
            lambda: self._writes.attempt(
                lambda: self._syncer_state.snapshot(committed_tokens=tokens, round_=action.round)
            ),
            _do_nothing,
        )

    def reserve(self) -> None:
        """Reserve numbers on disk if few are left."""
        numbers = self._syncer_state.due_reservation(self._policy)
        if numbers is None or self._is_reserving:
            return
        self._is_reserving = True

        async def reserve() -> None:
            with suppress(StillRefused):  # a syncer that ends assigns no more numbers
                await self._writes.retry(lambda: self._syncer_state.reserve(numbers))

        async def reserved(_: None) -> None:
            self._is_reserving = False

        self._work.in_order(reserve, reserved)

    async def _committed(self, action: Merge, publication: Publication) -> None:
        self._writes.waiting -= 1
        self._syncer_state.published.put(publication, action.contributions)
        await self._announce(action, publication)
        self._announced.set()

    # ------------------------------------------------------------ jobs in order

    async def _commit(
        self, action: Merge, given: MergeInput[Any], line: CommitRecord
    ) -> tuple[Merge, Publication]:
        await self._phases.reach(Phase.QUORUM, **action.place)
        state, cosines = await self._work.stage(
            Stage.MERGE, lambda: self._syncer_state.merge(action.fragment, given)
        )
        compared = tuple(replace(one, cosine=cosines[one.epoch]) for one in action.contributions)
        action, line = replace(action, contributions=compared), replace(line, contributors=compared)
        for contribution, excess in zip(given.contributions, given.excesses, strict=True):
            if excess is not None:
                self._emit(
                    PushBounded(
                        **identity(contribution),
                        round=action.round,
                        fragment=action.fragment,
                        norm=excess.norm,
                        usual=excess.usual,
                        limit=excess.limit,
                    )
                )
        await self._phases.reach(Phase.BEFORE_WRITE, **action.place)
        await self._await_announcement()
        took_s = await self._writes.retry(lambda: self._syncer_state.store(line, state))
        self._announced.clear()
        self._emit(RoundStored(**action.place, took_s=took_s))
        await self._phases.reach(Phase.WRITTEN, **action.place)
        publication = await self._work.stage(
            Stage.PUBLISH,
            lambda: self._syncer_state.publication(
                action.fragment, version=line.version, round_=action.round
            ),
        )
        return action, publication

    async def _await_announcement(self) -> None:
        """Wait for the announcement before; a syncer that ends announces the rest at once."""
        while not await self._announced.wait(_CLOSING_S):
            if self._work.is_closing:
                return


async def _do_nothing(_: None) -> None:
    pass
