"""Initial parameters: from the learner that was asked for them to the beginning of the training.

    fragment ─► TrainingState ─► once all are there: disk, tried again while it refuses ─► seeded

For the syncer's main thread; what takes long are jobs of `work` in order.
"""

from collections.abc import Callable, Iterable, Sequence

from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.model.encodings import MalformedPayload
from chaoslab.diloco.syncer.context import SyncerContext
from chaoslab.diloco.syncer.decisions import Action
from chaoslab.diloco.syncer.disk_writes import StillRefused
from chaoslab.diloco.syncer.rejections import Rejections
from chaoslab.diloco.syncer.training_state import Publication
from chaoslab.diloco.wire import wire_pb2 as pb


class Seeding:
    """Takes initial parameters, and begins the training once they are on disk."""

    def __init__(
        self,
        context: SyncerContext,
        *,
        rejections: Rejections,
        carry_out: Callable[[Iterable[Action]], None],
    ) -> None:
        """`carry_out` gets the actions of the policy when training begins."""
        self._policy = context.policy
        self._syncer_state = context.state
        self._work = context.work
        self._writes = context.writes
        self._rejections = rejections
        self._carry_out = carry_out
        self._now = context.now

    def receive(self, epoch: int, push: pb.Push, payload: memoryview | None) -> None:
        """Keep one fragment of the initial parameters, from the learner that was asked for them."""
        if epoch != self._policy.seeder or self._policy.versions:
            self._reject(epoch, PushRefusal.NOT_ASKED)
            return
        self._work.in_order(
            lambda: self._take(push.fragment, payload), lambda found: self._seeded(epoch, found)
        )

    async def _take(
        self, fragment: int, payload: memoryview | None
    ) -> Sequence[Publication] | MalformedPayload:
        try:
            if not self._syncer_state.take_initial(fragment, payload):
                return ()
            await self._writes.retry(self._syncer_state.begin)
        except MalformedPayload as error:
            return error
        except StillRefused:  # the syncer ends before a training has begun
            return ()
        await self._writes.attempt(
            lambda: self._syncer_state.snapshot(committed_tokens=0.0, round_=0)
        )
        return self._syncer_state.first_publications()

    async def _seeded(self, epoch: int, found: Sequence[Publication] | MalformedPayload) -> None:
        """Begin the training if `found` has all fragments."""
        if isinstance(found, MalformedPayload):
            if self._policy.versions:  # those of another learner came to the disk meanwhile
                self._reject(epoch, PushRefusal.NOT_ASKED)
            else:
                self._reject(epoch, PushRefusal.MALFORMED, detail=str(found))
            return
        for publication in found:
            self._syncer_state.published.put(publication)
        if found:
            # its parameters are on disk, even if another was asked meanwhile
            self._policy.seeder = epoch
            self._carry_out(self._policy.seeded(self._now(), epoch))

    def _reject(self, epoch: int, refusal: PushRefusal, detail: str = "") -> None:
        self._rejections.push(self._policy.membership.find(epoch), refusal, detail=detail)
