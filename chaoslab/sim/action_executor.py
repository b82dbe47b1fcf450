"""Execution of the policy's actions at a simulated syncer: messages, merges, and events.

    Policy ─ actions ─► ActionExecutor ─► Sessions: messages to members
                                       └─► Commits: merges          └─► events

As `diloco.syncer.action_executor` does; it makes no decisions.
"""

from collections.abc import Iterable

from chaoslab.core.payloads import (
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MemberSuspected,
    RoundAbandoned,
    SyncerStopRuleMet,
)
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import (
    Abandon,
    Action,
    Donate,
    Drop,
    Merge,
    Pull,
    SendAll,
    Stop,
    SuspicionChange,
    Welcome,
)
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.sim.commits import Commits
from chaoslab.sim.messages import CheckpointRequest, Fenced, PullMessage, WelcomeMessage
from chaoslab.sim.process import Process
from chaoslab.sim.publications import Publications
from chaoslab.sim.sessions import Sessions, identity


class ActionExecutor:
    """Action executor of one life of the syncer."""

    def __init__(
        self,
        process: Process,
        policy: Policy,
        settings: Settings,
        commits: Commits,
        published: Publications,
        sessions: Sessions,
    ) -> None:
        self._process, self._policy, self._settings = process, policy, settings
        self._commits, self._published, self._sessions = commits, published, sessions
        self.end: Stop | None = None
        """Training is to end, once what was merged is published."""

    def carry_out(self, actions: Iterable[Action]) -> None:
        """Carry out all of them, in order."""
        for action in actions:
            self._carry_out_one(action)

    def _carry_out_one(self, action: Action) -> None:  # noqa: C901 - one case for each kind
        match action:
            case Welcome():
                self._welcome(action)
            case Pull():
                self._commits.reserve()
                asked = PullMessage(action.round, action.fragment, action.base_version)
                for epoch in action.epochs:
                    self._sessions.send(epoch, asked)
            case Merge():
                self._commits.add(action)
            case Abandon():
                self._commits.forget(action.round)
                self._process.say(
                    RoundAbandoned,
                    round=action.round, fragment=action.fragment, reason=action.reason,
                )  # fmt: skip
            case SuspicionChange():
                said = MemberRecovered if action.is_over else MemberSuspected
                self._process.say(said, **identity(action.member), idle_s=action.idle_s)
            case Drop():
                self._drop(action)
            case Donate():
                asked_for = CheckpointRequest(action.request, self._published.versions)
                self._sessions.send(action.donor.epoch, asked_for)
            case SendAll():
                for fragment in self._published.newer_than(action.known):
                    self._published.send(action.receiver, fragment)
            case Stop(is_over=False):
                self._process.say(SyncerStopRuleMet, reason=action.reason)
            case Stop():
                self.end = action

    def _welcome(self, action: Welcome) -> None:
        member, membership = action.member, self._policy.membership
        self._commits.reserve()
        welcome = WelcomeMessage(
            epoch=member.epoch,
            source=action.source.value,
            fragments=self._settings.fragments,
            steps_before_wait=self._settings.steps_before_wait,
            data_position=membership.data_positions.get(member.learner, 0),
            step=membership.furthest_step,
            crowd=len(self._settings.learners),
            compression=self._settings.compression,
        )
        self._sessions.send(member.epoch, welcome)
        self._process.say(
            MemberJoined,
            **identity(member),
            source=action.source.value,
            donor=action.donor.learner if action.donor else None,
            members=len(membership.members),
        )

    def _drop(self, action: Drop) -> None:
        member, reason = action.member, action.reason.value
        members = len(self._policy.membership.members)
        self._process.say(MemberLeft, **identity(member), members=members, reason=reason)
        stream = self._sessions.fence(member.epoch)
        if stream is not None:
            stream.down(Fenced(reason))
            self._sessions.close(stream, reason)
