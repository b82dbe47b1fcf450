"""Handling of pushes: from their arrival to the round they are kept for, or to their refusal.

    push ─► does the policy want it? ─► decoded, valid? (`work`) ─► still wanted? ─► kept, accepted
                       └────────────────────────┴────────────────────────┴─► refused
    initial parameters ─► `seeding`

For the syncer's main thread, which only reads headers: what takes long is done on the threads of
`work`. `policy` decides, `pushes` keeps the updates until their merge.
"""

from collections import defaultdict
from collections.abc import Callable

from chaoslab.core.payloads import PushAccepted
from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.syncer import messages
from chaoslab.diloco.syncer.context import SyncerContext
from chaoslab.diloco.syncer.decisions import Offer
from chaoslab.diloco.syncer.rejections import Rejections
from chaoslab.diloco.syncer.seeding import Seeding
from chaoslab.diloco.syncer.sessions import Sessions
from chaoslab.diloco.syncer.training_state import Update
from chaoslab.diloco.wire import wire_pb2 as pb


class PushHandler:
    """Handles the pushes of all sessions, and the ends of sessions, which wait for them."""

    def __init__(
        self,
        context: SyncerContext,
        sessions: Sessions,
        *,
        rejections: Rejections,
        seeding: Seeding,
    ) -> None:
        self._policy = context.policy
        self._syncer_state = context.state
        self._sessions = sessions
        self._work = context.work
        self._rejections = rejections
        self._seeding = seeding
        self._emit = context.emit
        self._now = context.now
        self._examined: defaultdict[int, set[int]] = defaultdict(set)
        """Rounds whose push is being decoded, by session."""
        self._ending: dict[int, Callable[[], None]] = {}
        """Callback after the pushes of a session, by session."""

    def receive(self, session: int, message: pb.FromLearner, payload: memoryview | None) -> None:
        """Handle a push that arrived on a session."""
        epoch, push, offer = message.epoch, message.push, messages.offer(message.push)
        if self._sessions.epoch(session) != epoch:  # an ended membership, or another learner's
            sender = self._sessions.member(session)
            self._rejections.push(sender, PushRefusal.FENCED, offer=offer, epoch=epoch)
        elif push.base_version < 0:
            self._seeding.receive(epoch, push, payload)
        elif not push.c_steps and not payload:  # declined: it has nothing for this round
            self._policy.decline(self._now(), epoch, offer)
        elif offer.round in self._examined[session]:
            member = self._policy.membership.find(epoch)
            self._rejections.push(member, PushRefusal.REPLAY, offer=offer)
        elif refusal := self._policy.offer(epoch, offer):
            self._refuse(epoch, offer, refusal)
        else:
            self._examined[session].add(offer.round)
            self._work.at_once(
                lambda: self._syncer_state.examine(push, payload),
                lambda found: self._take(session, epoch, offer, found),
            )

    def end(self, session: int, then: Callable[[], None]) -> None:
        """Call `then` when no push of the session is being decoded any more, at once if none is."""
        if self._examined[session]:
            self._ending.setdefault(session, then)
            return
        del self._examined[session]
        then()

    # ------------------------------------------------------------ for a round

    async def _take(
        self, session: int, epoch: int, offer: Offer, found: Update | PushRefusal
    ) -> None:
        """Keep an examined push for its round, if it may still be merged."""
        self._examined[session].discard(offer.round)
        member = self._sessions.member(session)
        if self._sessions.epoch(session) != epoch or member is None:
            self._rejections.push(member, PushRefusal.FENCED, offer=offer, epoch=epoch)
        elif isinstance(found, PushRefusal):
            self._refuse(epoch, offer, found)
        elif refusal := self._policy.offer(epoch, offer):  # its round has ended meanwhile
            self._refuse(epoch, offer, refusal)
        else:
            self._syncer_state.pushes.keep(offer.round, epoch, found)
            self._emit(
                PushAccepted(
                    **messages.identity(member),
                    round=offer.round,
                    fragment=offer.fragment,
                    base_version=offer.base_version,
                    step=offer.step,
                    c_steps=offer.c_steps,
                    c_tokens=offer.c_tokens,
                    tokens_from=offer.tokens_from,
                    tokens_to=offer.tokens_to,
                    norm=found.norm,
                    payload_bytes=found.payload_bytes,
                )
            )
            self._policy.accept(self._now(), epoch, offer)
        if not self._examined[session] and session in self._ending:
            self.end(session, self._ending.pop(session))

    def _refuse(self, epoch: int, offer: Offer, refusal: PushRefusal) -> None:
        self._rejections.push(self._policy.membership.find(epoch), refusal, offer=offer)
        self._policy.reject_answer(self._now(), epoch, offer.round)
