"""Simulated syncer: the real policy, with costs in the place of arrays, sockets and disks.

    streams ─ messages ─► Syncer ─► Policy (`diloco.syncer.policy`) ─► ActionExecutor ─► Sessions
                            └── PushHandler: decoded, judged, kept for their round      └─► Commits

What it decides and what it reports is what `diloco.syncer.program` does; what it computes is not
computed. `Commits` merges and writes, `Uplinks` measures, `Ending` waits for the last goodbyes.
"""

import math
from functools import partial

from chaoslab.core.events import Json
from chaoslab.core.link_meter import MEASURE_S, PING_S
from chaoslab.core.payloads import MemberRefused, SyncerFinal, SyncerReady
from chaoslab.core.protocol import LeaveReason, PushRefusal
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Welcome
from chaoslab.diloco.syncer.membership import Refused
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.sim.action_executor import ActionExecutor
from chaoslab.sim.clock import Priority, Timer
from chaoslab.sim.commits import Commits
from chaoslab.sim.messages import (
    CheckpointBegun,
    CheckpointMessage,
    Goodbye,
    HelloMessage,
    InitialMessage,
    ProgressMessage,
    Published,
    PushMessage,
    RefusedMessage,
)
from chaoslab.sim.model import Sizes
from chaoslab.sim.pipe import Packet
from chaoslab.sim.process import Process, need
from chaoslab.sim.publications import Publications
from chaoslab.sim.push_handler import PushHandler
from chaoslab.sim.sessions import Ending, Sessions
from chaoslab.sim.uplinks import Uplinks
from chaoslab.sim.wires import Stream

ADDRESS = "syncer.sim:1"
_TICK_S = 1e-6
"""Least time until it looks again: a deadline that is reached may be missed by a rounding, and real
time would have gone on meanwhile."""
_PAUSED_S = 1.0
"""Pause that counts, as in `diloco.syncer.program`."""

_PAYLOADS = (PushMessage, InitialMessage, CheckpointMessage)


class Syncer(Process):
    """One life of the syncer."""

    def begin(self) -> None:
        """Start, and continue from its disk if there is something on it."""
        rules = Settings.from_json(need(self.flags, "settings-json"))
        self._fragments = rules.fragments
        self.policy = Policy(rules)
        self.policy.keeps_training = "keep-training" in self.flags
        self._sizes = Sizes(
            self.world.costs, fragments=rules.fragments, compression=rules.compression
        )
        self._sessions = Sessions()
        self._published = Publications(
            self.world.syncer_disk, self.policy, rules, self._send_published
        )
        self._commits = Commits(
            self, self.policy, rules, published=self._published, announced=self._turn
        )
        self._actions = ActionExecutor(
            self, self.policy, rules, self._commits, self._published, self._sessions
        )
        self._pushes = PushHandler(self, self.policy, self._commits, self._sessions, self._taken)
        self._ending = Ending(self, self.policy, self._sessions)
        self._uplinks = Uplinks(self)
        self._leaving: dict[int, LeaveReason] = {}
        """Memberships that end after their pushes, by number of the stream."""
        self._initial: set[int] = set()
        self._wake: Timer | None = None
        self._wake_s = math.inf
        costs, has_begun = self.world.costs, bool(self.world.syncer_disk.commit_log)
        self.work(costs.syncer_resume_s if has_begun else costs.syncer_start_s, self._serve)

    def _serve(self) -> None:
        is_recovered = self._commits.restore()
        self.say(
            SyncerReady,
            address=ADDRESS,
            rounds=self.policy.rounds.merged,
            committed_tokens=self.policy.committed_tokens,
            is_recovered=is_recovered,
            last_epoch=self.policy.membership.last_epoch,
            **self._published.state_data(),
        )
        self._commits.restate()
        self.world.syncer = self
        self.every(PING_S, self._ping)
        self.every(MEASURE_S, self._uplinks.report)
        self._turn()

    # ---------------------------------------------------------------- life

    def note_stall(self, seconds: float) -> None:
        """Suspect no learner for this stall."""
        if seconds > _PAUSED_S:
            self.policy.discount(seconds)

    def end(self) -> None:
        """End it and its streams."""
        super().end()
        if self.world.syncer is self:
            self.world.syncer = None
        self._sessions.close_all("unavailable: Socket closed")

    def ask_to_end(self) -> bool:
        """Training ends once the open rounds are closed; before it listens it is just ended."""
        if self.world.syncer is not self:
            return False
        self.do(self._ask)
        return True

    def _ask(self) -> None:
        self._ending.ask()
        self._turn()

    # ---------------------------------------------------------------- arrivals

    def accept(self, stream: Stream) -> None:
        """Accept a stream, whose hello follows."""
        self._sessions.accept(stream)

    def hear(self, stream: Stream, message: object, packet: Packet) -> None:
        """A message of a learner."""
        if stream.meter_above is not None:
            is_payload = isinstance(message, _PAYLOADS)
            stream.meter_above.take(self.clock.time_s, packet, is_payload=is_payload)
        self.do(partial(self._receive, stream, message))

    def lose(self, stream: Stream, reason: str) -> None:  # noqa: ARG002 - the protocol's
        """A stream has ended."""
        self.do(lambda: self._lost(stream))

    def _receive(self, stream: Stream, message: object) -> None:
        epoch = self._sessions.epoch(stream)
        match message:
            case ProgressMessage() if epoch == message.epoch:
                now_s = self.clock.time_s
                actions = self.policy.progress(now_s, message.epoch, message.report)
                if actions:
                    self._actions.carry_out(actions)
            case HelloMessage():
                self._hello(stream, message)
            case PushMessage():
                self._pushes.handle(stream, message)
            case InitialMessage() if epoch == message.epoch:
                self._seed(message)
            case CheckpointBegun() if epoch == message.epoch:
                self.policy.transfers.begun(message.epoch, message.request)
            case CheckpointMessage() if epoch == message.epoch:
                self._forward(message)
            case Goodbye() if epoch == message.epoch:
                self._end_session(stream, LeaveReason.SAID_GOODBYE)
            case _:
                pass
        self._turn()

    def _lost(self, stream: Stream) -> None:
        self._sessions.lost(stream)
        self._end_session(stream, LeaveReason.CLOSED)
        self._turn()

    def _hello(self, stream: Stream, message: HelloMessage) -> None:
        hello = message.hello
        if self._ending.has_begun and not hello.versions:
            stream.down(self._ending.message)
            self._sessions.close(stream, "training has ended")
            return
        try:
            actions = self.policy.hello(self.now_s, hello)
        except Refused as refusal:
            self._pushes.rejected[PushRefusal.HELLO.value] += 1
            self.say(
                MemberRefused,
                learner=hello.learner,
                incarnation=hello.incarnation,
                reason=str(refusal),
            )
            stream.down(RefusedMessage(str(refusal)))
            self._sessions.close(stream, str(refusal))
            return
        self._sizes.parameters = message.parameters
        welcomed = (action.member for action in actions if isinstance(action, Welcome))
        self._sessions.admit(stream, max(welcomed, key=lambda one: one.epoch))
        self._uplinks.attach(stream, hello.learner, hello.incarnation)
        self._actions.carry_out(actions)
        if self._ending.has_begun:
            stream.down(self._ending.message)

    def _forward(self, message: CheckpointMessage) -> None:
        transfers = self.policy.transfers
        receiver = transfers.done(self.now_s, message.epoch, message.request)
        if receiver is not None:
            self._sessions.send(receiver.epoch, message, message.size_bytes)

    def _taken(self, stream: Stream) -> None:
        """A push of the stream was decoded."""
        if not self._pushes.has(stream) and stream.number in self._leaving:
            self._end_session(stream, self._leaving.pop(stream.number))
        self._turn()

    def _send_published(self, epoch: int, published: Published) -> None:
        self._sessions.send(epoch, published, self._sizes.published_bytes)

    def _end_session(self, stream: Stream, reason: LeaveReason) -> None:
        """End a membership, after the pushes that came before."""
        if self._pushes.has(stream):
            self._leaving.setdefault(stream.number, reason)
            return
        self._pushes.forget(stream)
        epoch = self._sessions.end(stream)
        if epoch is not None:
            self._actions.carry_out(self.policy.closed(self.now_s, epoch, reason))

    def _ping(self) -> None:
        for stream in self._uplinks.ping():
            stream.close_above("unavailable: ping timeout")
            self._lost(stream)

    # ---------------------------------------------------------------- initial parameters

    def _seed(self, message: InitialMessage) -> None:
        """Take one fragment of the initial parameters; training begins when all are on disk."""
        if message.epoch != self.policy.seeder or self.policy.versions:
            return
        self._initial.add(message.fragment)
        if len(self._initial) == self._fragments:
            self.later(self.world.costs.store_s, lambda: self._seeded(message.epoch))

    def _seeded(self, epoch: int) -> None:
        if self.policy.versions:
            return
        self._commits.seed()
        # its parameters are on disk, even if another was asked meanwhile
        self.policy.seeder = epoch
        self._actions.carry_out(self.policy.seeded(self.now_s, epoch))
        self._turn()

    # ---------------------------------------------------------------- turns

    def _turn(self) -> None:
        """Do whatever is due, and come back when the next thing is."""
        now_s = self.clock.time_s
        if actions := self.policy.advance(now_s):
            self._actions.carry_out(actions)
        end = self._actions.end
        if end is not None and self._commits.is_empty:
            self._actions.end = None
            self._ending.begin(end)
        if self._ending.has_begun and self._ending.is_over:
            self._finish()
        else:
            self._come_back(now_s)

    def _come_back(self, now_s: float) -> None:
        next_s, until_s = self.policy.next_s(), self._ending.until_s
        next_s = until_s if until_s < next_s else next_s
        if self._wake is not None:
            if next_s >= self._wake_s:
                return
            self._wake.cancel()
            self._wake = None
        self._wake_s = next_s
        if math.isfinite(next_s):
            delay_s = max(_TICK_S, next_s - now_s)
            self._wake = self.later(delay_s, self._woken, Priority.DEADLINE)

    def _woken(self) -> None:
        self._wake = None
        self._turn()

    def _finish(self) -> None:
        if self.world.syncer is not self:
            return
        self.world.syncer = None
        policy = self.policy
        if policy.versions:
            self._published.snapshot(policy.committed_tokens, policy.rounds.merged, is_last=True)
        self.say(
            SyncerFinal,
            rounds=policy.rounds.merged,
            **self._published.state_data(),
            **self._published.stored(),
            committed_tokens=policy.committed_tokens,
            rejected=self._pushes.rejected,
            reason=self._ending.reason,
            was_asked=self._ending.was_asked,
        )
        self.later(self.world.costs.syncer_leave_s, self.exit)

    def _about(self) -> dict[str, Json]:
        return {"node": self.name, "incarnation": self.incarnation}
