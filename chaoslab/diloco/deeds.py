"""What the policy decided, done: messages to learners, merges, and lines on standard output.

    Policy ── actions ──► Deeds ─┬─► Listeners ══► learners      (`syncer_words` has the wording)
       ▲                         ├─► Books: merge, disk
       └── published ◄───────────┴─► lines

Decides nothing, and hears nothing: what arrives is taken in by `syncer`, on the same thread.
"""

from collections.abc import Callable

from chaoslab.diloco import syncer_words as words
from chaoslab.diloco import wire_pb2 as pb
from chaoslab.diloco.books import Books, Publication
from chaoslab.diloco.decisions import (
    Abandon,
    Action,
    Donate,
    Drop,
    Hold,
    Merge,
    Pull,
    Recover,
    SendAll,
    Stop,
    Suspect,
    Welcome,
)
from chaoslab.diloco.listeners import Listeners
from chaoslab.diloco.membership import Member
from chaoslab.diloco.node import Emit
from chaoslab.diloco.policy import Policy
from chaoslab.diloco.settings import Settings
from chaoslab.events import Json, Kind

FAREWELL_S = 20.0
"""How long the syncer waits, after the end, for the learners to adopt the last versions."""


class Deeds:
    """Carries out actions, and those that follow from them."""

    def __init__(
        self,
        policy: Policy,
        settings: Settings,
        books: Books,
        listeners: Listeners,
        *,
        emit: Emit,
        now: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._settings = settings
        self._books = books
        self._listeners = listeners
        self._emit = emit
        self._now = now
        self._farewell_s: float | None = None
        self.reason = ""
        """Why training ended; empty while it goes on."""

    def carry_out(self, actions: list[Action]) -> None:
        """Do these, and what follows from them, in order."""
        pending = list(actions)
        while pending:
            pending += self._do(pending.pop(0))

    @property
    def has_stopped(self) -> bool:
        """Whether training has ended; the learners may still be adopting the last versions."""
        return self._farewell_s is not None

    def is_over(self) -> bool:
        """Whether training has ended and everybody has left, or has had `FAREWELL_S` for it."""
        return self._farewell_s is not None and (
            not self._policy.membership.members or self._now() >= self._farewell_s
        )

    def last_word(self, epoch: int = 0) -> pb.ToLearner:
        """Why training ended and with which versions, for a member or a stream without one."""
        return words.stop(epoch, self.reason, self._policy.versions)

    # ------------------------------------------------------------ one kind of action each

    def _do(self, action: Action) -> list[Action]:  # one line for each kind of action
        more: list[Action] = []
        match action:
            case Welcome():
                self._welcome(action)
            case Pull():
                self._pull(action)
            case Merge():
                more = self._merge(action)
            case Abandon():
                self._books.forget_round(action.round)
                self._say(
                    Kind.ROUND_ABANDONED,
                    round=action.round, fragment=action.fragment, reason=action.reason,
                )  # fmt: skip
            case Suspect(member=member, idle_s=idle_s):
                self._say(Kind.MEMBER_SUSPECTED, **words.whose(member), idle_s=idle_s)
            case Recover(member=member, idle_s=idle_s):
                self._say(Kind.MEMBER_RECOVERED, **words.whose(member), idle_s=idle_s)
            case Drop():
                self._drop(action)
            case Donate():
                request = words.checkpoint_request(action, self._policy.versions)
                self._listeners.send(action.donor.epoch, request)
            case SendAll(receiver=receiver):
                self._send_all(receiver)
            case Hold(reason=reason):
                self._say(Kind.SYNCER_HELD, reason=reason)
            case Stop():
                self._stop(action)
        return more

    def _welcome(self, action: Welcome) -> None:
        member, membership = action.member, self._policy.membership
        welcome = words.welcome(
            action,
            self._settings,
            versions=self._policy.versions,
            data_position=membership.data_positions.get(member.learner, 0),
            step=max((m.step for m in membership.members), default=0),
        )
        self._listeners.send(member.epoch, welcome)
        self._say(
            Kind.MEMBER_JOINED,
            **words.whose(member),
            source=action.source.value,
            donor=action.donor.learner if action.donor else None,
            members=len(membership.members),
        )

    def _pull(self, action: Pull) -> None:
        for epoch in action.epochs:
            self._listeners.send(epoch, words.pull(action, epoch))

    def _merge(self, action: Merge) -> list[Action]:
        publication = self._books.merge(action, self._policy)
        for member in self._policy.membership.members:
            self._publish(member, publication)
        actions = self._policy.published(self._now(), action)
        self._say(
            Kind.ROUND_MERGED,
            **words.merged(
                action,
                publication,
                fragments=self._settings.fragments,
                momentum_digest=self._books.momentum_digest(action.fragment),
                members=len(self._policy.membership.members),
            ),
            sync_s=self._now() - action.pulled_s,
        )
        return actions

    def _publish(self, member: Member, publication: Publication) -> None:
        index = publication.fragment
        committed = self._books.committed(member.learner, member.incarnation, index)
        header = words.fragment(publication, member.epoch, committed)
        self._listeners.send_payload(member.epoch, header, publication.payload, key=index)

    def _send_all(self, receiver: Member) -> None:
        held = self._listeners.held(receiver.epoch)
        for publication in self._books.publications():
            if not held or held[publication.fragment] != publication.version:
                self._publish(receiver, publication)

    def _drop(self, action: Drop) -> None:
        member, reason = action.member, action.reason.value
        self._say(
            Kind.MEMBER_LEFT,
            **words.whose(member),
            members=len(self._policy.membership.members),
            reason=reason,
        )
        self._listeners.close(member.epoch, words.fenced(member, reason))

    def _stop(self, action: Stop) -> None:
        self._farewell_s = self._now() + FAREWELL_S
        self.reason = action.reason
        for member in self._policy.membership.members:
            self._listeners.send(member.epoch, self.last_word(member.epoch))

    def _say(self, kind: Kind, **data: Json) -> None:
        self._emit(kind, data)
