"""Rejections: what the syncer refused of learners, counted by reason and reported as events."""

from collections import Counter

from chaoslab.core.payloads import MemberRefused, PushRejected
from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.syncer.decisions import Member, Offer
from chaoslab.diloco.wire import wire_pb2 as pb


class Rejections:
    """Counts refused hellos, pushes and other messages. For the syncer's main thread."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.totals: Counter[str] = Counter()
        """By `PushRefusal`."""

    def hello(self, hello: pb.Hello, reason: str) -> None:
        """Count and report a learner that was not admitted."""
        self.totals[PushRefusal.HELLO.value] += 1
        refused = MemberRefused(learner=hello.learner, incarnation=hello.incarnation, reason=reason)
        self._emit(refused)

    def push(
        self,
        member: Member | None,
        refusal: PushRefusal,
        *,
        offer: Offer | None = None,
        epoch: int | None = None,
        detail: str = "",
    ) -> None:
        """Count and report a push, or another message of a member.

        `epoch`: that of the message, if it is not the member's current one.
        """
        self.totals[refusal.value] += 1
        known_epoch = member.epoch if member else 0
        self._emit(
            PushRejected(
                learner=member.learner if member else "",
                incarnation=member.incarnation if member else 0,
                epoch=known_epoch if epoch is None else epoch,
                round=offer.round if offer else 0,
                fragment=offer.fragment if offer else -1,
                c_tokens=offer.c_tokens if offer else 0,
                reason=refusal,
                detail=detail,
            )
        )
