"""Pushes at a simulated syncer: from their arrival to the round they are kept for, or refused.

    push ─► may it be merged? ─► decode ─► still? finite? ─► push.accepted, kept for its round
                  └── no ─► push.rejected ◄── no ──┘

As `diloco.syncer.push_handler` does; several are decoded at once.
"""

import math
from collections import Counter
from collections.abc import Callable

from chaoslab.core.payloads import PushAccepted, PushRejected
from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.syncer.decisions import Member, Offer
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.sim.commits import Commits
from chaoslab.sim.messages import PushMessage, flat
from chaoslab.sim.process import Process
from chaoslab.sim.sessions import Sessions, identity
from chaoslab.sim.wires import Stream


class PushHandler:
    """Push handler of one life of the syncer."""

    def __init__(
        self,
        process: Process,
        policy: Policy,
        commits: Commits,
        sessions: Sessions,
        taken: Callable[[Stream], None],
    ) -> None:
        """`taken` is called when a push was decoded."""
        self._process, self._policy = process, policy
        self._commits, self._sessions = commits, sessions
        self._taken = taken
        self._examined: dict[int, set[int]] = {}
        """Rounds whose push is being decoded, by number of the stream."""
        self.rejected: Counter[str] = Counter()
        """Number of refused pushes, by reason."""

    def has(self, stream: Stream) -> bool:
        """Whether a push of it is being decoded."""
        return bool(self._examined.get(stream.number))

    def forget(self, stream: Stream) -> None:
        """Nothing more comes from it."""
        self._examined.pop(stream.number, None)

    def handle(self, stream: Stream, message: PushMessage) -> None:
        """A push has arrived."""
        epoch, offer = message.epoch, message.offer
        examined = self._examined.setdefault(stream.number, set())
        if self._sessions.epoch(stream) != epoch:
            self._reject(self._sessions.member(stream), PushRefusal.FENCED, offer, epoch=epoch)
        elif not offer.c_steps:
            self._policy.decline(self._process.now_s, epoch, offer)
        elif offer.round in examined:
            self._reject(self._policy.membership.find(epoch), PushRefusal.REPLAY, offer)
        elif refusal := self._policy.offer(epoch, offer):
            self._refuse(epoch, offer, refusal)
        else:
            examined.add(offer.round)
            decode_s = self._process.world.costs.decode_s
            self._process.work(decode_s, lambda: self._take(stream, message))

    def _take(self, stream: Stream, message: PushMessage) -> None:
        """Keep a decoded push for its round, if it may still be merged."""
        epoch, offer = message.epoch, message.offer
        member = self._sessions.member(stream)
        self._examined.get(stream.number, set()).discard(offer.round)
        if self._sessions.epoch(stream) != epoch or member is None:
            self._reject(member, PushRefusal.FENCED, offer, epoch=epoch)
        elif math.isnan(message.scale):
            self._refuse(epoch, offer, PushRefusal.NOT_FINITE)
        elif refusal := self._policy.offer(epoch, offer):
            self._refuse(epoch, offer, refusal)
        else:
            norm = self._commits.keep(offer.round, epoch, steps=offer.c_steps, scale=message.scale)
            self._process.say(
                PushAccepted,
                **identity(member),
                **flat(offer),
                norm=norm,
                payload_bytes=message.size_bytes,
            )
            self._policy.accept(self._process.now_s, epoch, offer)
        self._taken(stream)

    def _refuse(self, epoch: int, offer: Offer, refusal: PushRefusal) -> None:
        self._reject(self._policy.membership.find(epoch), refusal, offer)
        self._policy.reject_answer(self._process.now_s, epoch, offer.round)

    def _reject(
        self, member: Member | None, refusal: PushRefusal, offer: Offer, *, epoch: int | None = None
    ) -> None:
        self.rejected[refusal.value] += 1
        known_epoch = member.epoch if member else 0
        self._process.say(
            PushRejected,
            learner=member.learner if member else "",
            incarnation=member.incarnation if member else 0,
            epoch=known_epoch if epoch is None else epoch,
            round=offer.round,
            fragment=offer.fragment,
            c_tokens=offer.c_tokens,
            reason=refusal,
        )
