"""Execution of the policy's actions: messages to learners, merges, and events.

    Policy ── actions ──► ActionExecutor ─┬─► Sessions ══► learners      (`messages`)
                                ▲         ├─► Commits ─► TrainingState: merge, disk (`work`)
                                │         └─► events       │
                                └──────── announce ◄───────┘

Makes no decisions and receives nothing: `program` handles what arrives, on the same thread.
"""

from collections.abc import Iterable
from dataclasses import replace

from chaoslab.core.payloads import (
    CommunicatorEnded,
    CommunicatorFormed,
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MemberSuspected,
    RoundAbandoned,
    SyncerStopped,
    SyncerStopRuleMet,
)
from chaoslab.core.protocol import Phase
from chaoslab.diloco.node.phases import Points
from chaoslab.diloco.syncer import messages
from chaoslab.diloco.syncer.commits import Commits
from chaoslab.diloco.syncer.context import SyncerContext
from chaoslab.diloco.syncer.decisions import (
    Abandon,
    Action,
    Dissolve,
    Donate,
    Drop,
    Form,
    Member,
    Merge,
    Pull,
    SendAll,
    Stop,
    SuspicionChange,
    Welcome,
)
from chaoslab.diloco.syncer.sessions import Sessions
from chaoslab.diloco.syncer.training_state import Publication
from chaoslab.diloco.wire import wire_pb2 as pb

DRAIN_S = 20.0
"""Seconds that the syncer waits, after the end, for learners to adopt the last versions."""


class ActionExecutor:
    """Carries out what the policy decided; knows when training is over."""

    def __init__(self, context: SyncerContext, sessions: Sessions, *, phases: Points) -> None:
        self._policy = context.policy
        self._syncer_state = context.state
        self._sessions = sessions
        self._emit = context.emit
        self._now = context.now
        self._phases = phases
        self._commits = Commits(context, announce=self._announce, phases=phases)
        self._end: Stop | None = None
        """Set when training ends as soon as all merges are on disk."""
        self._drained_s: float | None = None
        self.reason = ""
        """Reason for the end of training; empty while it continues."""

    def carry_out(self, actions: Iterable[Action]) -> None:
        """Execute these actions in order."""
        for action in actions:
            self._do(action)

    def keep_up(self) -> None:
        """Do what is due without an action: reserve numbers; end once all merges are on disk."""
        self._commits.reserve()
        if self._end is not None and self._commits.is_empty:
            self._stop(self._end)

    @property
    def has_stopped(self) -> bool:
        """Whether training has ended; learners may still be adopting the last versions."""
        return self._drained_s is not None

    def is_over(self) -> bool:
        """Whether training has ended and all learners have left, or `DRAIN_S` has passed."""
        return self._drained_s is not None and (
            not self._policy.membership.members or self._now() >= self._drained_s
        )

    def stop_message(self, epoch: int = 0) -> pb.ToLearner:
        """Stop message: reason and last versions; epoch 0 for a stream without membership."""
        stop = pb.Stop(reason=self.reason, versions=self._policy.versions)
        return pb.ToLearner(epoch=epoch, stop=stop)

    # ------------------------------------------------------------ one kind of action each

    def _do(self, action: Action) -> None:  # one case for each kind of action
        match action:
            case Welcome():
                self._welcome(action)
            case Pull():
                self._pull(action)
            case Merge():
                self._commits.add(action)
            case Abandon():
                self._syncer_state.pushes.forget(action.round)
                abandoned = RoundAbandoned(
                    round=action.round, fragment=action.fragment, reason=action.reason
                )
                self._emit(abandoned)
            case SuspicionChange():
                said = MemberRecovered if action.is_over else MemberSuspected
                self._emit(said(**messages.identity(action.member), idle_s=action.idle_s))
            case Drop():
                self._drop(action)
            case Donate():
                self._donate(action)
            case SendAll():
                self._send_all(action)
            case Form() | Dissolve():
                self._communicate(action)
            case Stop(reason=reason, is_over=False):
                self._emit(SyncerStopRuleMet(reason=reason))
            case Stop():
                self._end = action
                self.keep_up()

    def _welcome(self, action: Welcome) -> None:
        member, membership = action.member, self._policy.membership
        welcome = messages.welcome(
            action,
            self._policy.settings,
            versions=self._policy.versions,
            data_position=membership.data_positions.get(member.learner, 0),
            step=membership.furthest_step,
        )
        self._sessions.send(member.epoch, welcome)
        self._emit(
            MemberJoined(
                **messages.identity(member),
                source=action.source.value,
                donor=action.donor.learner if action.donor else None,
                members=len(membership.members),
            )
        )

    def _pull(self, action: Pull) -> None:
        asked = pb.Pull(
            round=action.round, fragment=action.fragment, base_version=action.base_version
        )
        for epoch in action.epochs:
            self._sessions.send(epoch, pb.ToLearner(epoch=epoch, pull=asked))

    def _donate(self, action: Donate) -> None:
        epoch, versions = action.donor.epoch, self._syncer_state.published.versions
        request = pb.CheckpointRequest(request=action.request, versions=versions)
        self._sessions.send(epoch, pb.ToLearner(epoch=epoch, checkpoint_request=request))

    async def _announce(self, action: Merge, publication: Publication) -> None:
        """Publish a merge that is on disk, and report it."""
        for number, member in enumerate(self._policy.membership.members):
            self._publish(member, publication)
            if number == 0:
                await self._phases.reach(Phase.PUBLISH, **action.place)
        self._policy.rounds.published(self._now(), action)
        merged = self._syncer_state.merged(
            publication, action.contributions, action.fragment_tokens
        )
        self._emit(
            replace(
                merged,
                members=len(self._policy.membership.members),
                missed=action.missed,
                quorum_s=action.quorum_s,
                grace_s=action.grace_s,
                sync_s=self._now() - action.pulled_s,
            )
        )

    def _publish(self, member: Member, publication: Publication) -> None:
        index = publication.fragment
        counted = self._syncer_state.published.committed
        committed = counted[member.learner, member.incarnation, index]
        header = messages.fragment(publication, member.epoch, committed)
        self._sessions.send_payload(member.epoch, header, publication.payload, key=index)

    def _send_all(self, action: SendAll) -> None:
        for publication in self._syncer_state.published:
            if not action.known or action.known[publication.fragment] != publication.version:
                self._publish(action.receiver, publication)

    def _drop(self, action: Drop) -> None:
        member, members = action.member, len(self._policy.membership.members)
        self._emit(MemberLeft(**messages.identity(member), members=members, reason=action.reason))
        fenced = pb.ToLearner(epoch=member.epoch, fenced=pb.Fenced(reason=action.reason.value))
        self._sessions.close(member.epoch, fenced)

    def _communicate(self, action: Form | Dissolve) -> None:
        for order in messages.communicator(action):
            self._sessions.send(order.epoch, order)
        number, learners = action.number, tuple(member.learner for member in action.members)
        if isinstance(action, Form):
            self._emit(CommunicatorFormed(communicator=number, learners=learners))
        else:
            ended = CommunicatorEnded(communicator=number, learners=learners, reason=action.reason)
            self._emit(ended)

    def _stop(self, action: Stop) -> None:
        self._end = None
        self._drained_s = self._now() + DRAIN_S
        self.reason = action.reason
        self._emit(SyncerStopped(reason=action.reason))
        for member in self._policy.membership.members:
            self._sessions.send(member.epoch, self.stop_message(member.epoch))
