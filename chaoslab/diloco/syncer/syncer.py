"""The syncer: receives from learners, asks the policy, executes its actions.

    learners ══ one stream each ══► Hub ─ arrivals ─► Syncer ─► Policy ─ actions ─► ActionExecutor
        ▲                                      pushes ▼            ▲                       │
        │                                          PushHandler ────┘                       │
        │                                    decoding ▼ ▲ results                          │
        │                                            Work ◄──────────── merge, disk ───────┤
        └──── Welcome, Pull, Fragment, … ◄═══ Hub ◄── Sessions ◄───────────────────────────┘

One thread owns the state that decisions depend on, and does nothing that takes long: pushes are
decoded, merged and written by the jobs of `work`, and their results come back to it. `policy`
decides, this module handles what arrives, `push_handler` the pushes among it, `action_executor`
carries out the decisions. `program` starts it.

A turn of the loop reads the clock once, and all its decisions are made at that time. So a pause of
this process, wherever it falls, lies between the times of two turns, and is discounted before the
next decision.

Messages of one session are handled in order, except that its end waits for its pushes.
"""

import math
from collections.abc import Callable

from chaoslab.core.protocol import LeaveReason, PushRefusal
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.health import HealthFile
from chaoslab.diloco.node.phases import Points
from chaoslab.diloco.syncer import messages
from chaoslab.diloco.syncer.action_executor import ActionExecutor
from chaoslab.diloco.syncer.context import SyncerContext
from chaoslab.diloco.syncer.decisions import Progress, Welcome
from chaoslab.diloco.syncer.disk_writes import DiskWrites
from chaoslab.diloco.syncer.membership import Refused
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.push_handler import PushHandler
from chaoslab.diloco.syncer.rejections import Rejections
from chaoslab.diloco.syncer.seeding import Seeding
from chaoslab.diloco.syncer.sessions import Sessions, Streams
from chaoslab.diloco.syncer.training_state import TrainingState
from chaoslab.diloco.syncer.uplinks import Uplinks
from chaoslab.diloco.syncer.work import Jobs
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Arrival, Closed, Received

ASKED = "the syncer was asked to end"
"""Reason of an end by SIGTERM."""
_TICK_S = 0.25
"""Longest wait for an arrival, so that a signal is noticed."""
_PAUSED_S = 1.0
"""A turn of the loop that takes longer than this counts as a pause of the syncer."""
_LAST_TRIES = 10
"""Attempts to write the last snapshot, half a second apart."""


class Syncer:
    """Handles arrivals. `run` returns when training has ended."""

    def __init__(
        self,
        hub: Streams,
        syncer_state: TrainingState,
        work: Jobs,
        *,
        emit: Emit,
        now: Callable[[], float],
        phases: Points,
    ) -> None:
        self.policy = Policy(syncer_state.settings)
        self._hub = hub
        self._syncer_state = syncer_state
        self._emit = emit
        self._now = now
        self._turn_s = now()
        """Time of the turn."""
        self._uplinks = Uplinks(hub, emit, self._turn_s)
        self._sessions = Sessions(hub)
        self._work = work
        self._writes = DiskWrites(work, emit=emit, now=now)
        context = SyncerContext(
            policy=self.policy, state=syncer_state, work=work, writes=self._writes, emit=emit,
            now=self._turn_time_s,
        )  # fmt: skip
        self._executor = ActionExecutor(context, self._sessions, phases=phases)
        self._rejections = Rejections(emit)
        seeding = Seeding(context, rejections=self._rejections, carry_out=self._executor.carry_out)
        self._push_handler = PushHandler(
            context, self._sessions, rejections=self._rejections, seeding=seeding
        )
        self.health = HealthFile(None)
        self._asked = ""
        self._last_merge = syncer_state.restore(self.policy, self._turn_s)

    async def run(self, address: str) -> None:
        """Serve until training has ended and all learners have left, or `DRAIN_S` later."""
        self._emit(self._syncer_state.ready(self.policy, address))
        if self._last_merge is not None:
            self._emit(self._last_merge)
        try:
            while not self._executor.is_over():
                await self._turn()
        finally:
            await self._work.close()
        await self._work.finish()
        await self._writes.attempt(
            lambda: self._syncer_state.last_snapshot(self.policy), tries=_LAST_TRIES
        )
        self._report_refusals(math.inf)
        final = self._syncer_state.final(
            self.policy,
            rejected=self._rejections.totals,
            turned_away=self._hub.refusals.totals,
            reason=self._executor.reason,
            was_asked=self._executor.reason == self._asked,
        )
        self._emit(final)

    async def _turn(self) -> None:
        wait_s = min(max(self.policy.next_s() - self._now(), 0.0), _TICK_S)
        arrival = await self._hub.next_arrival(wait_s)
        self.health.touch()
        self._begin_turn(self._now())
        await self._work.finish()
        if arrival is not None:
            self._receive(arrival)
        self._executor.carry_out(self.policy.advance(self._turn_s))
        self._executor.keep_up()
        self._uplinks.tick(self._turn_s)
        self._report_refusals(self._turn_s)

    def end(self, reason: str) -> None:
        """Ask for the end of training; the open rounds are closed first.

        If training is kept going after a stop rule was met, this ends it; otherwise it ends early.
        """
        if self.policy.met_rule is None:
            self._asked = reason
        self.policy.stop(self.policy.met_rule or reason)

    # ------------------------------------------------------------ arrivals

    def _begin_turn(self, now_s: float) -> None:
        """Set the time of the turn; what lies between it and the last one may be a pause."""
        slept_s, self._turn_s = now_s - self._turn_s, now_s
        if slept_s > _PAUSED_S:
            self.policy.discount(slept_s)

    def _turn_time_s(self) -> float:
        return self._turn_s

    def _receive(self, arrival: Arrival[pb.FromLearner]) -> None:
        session, event = arrival.session, arrival.event
        if isinstance(event, Received):
            self._dispatch(session, event)
        elif isinstance(event, Closed):
            sender = self._sessions.member(session)
            if event.is_garbled and sender is not None:
                self._rejections.push(sender, PushRefusal.MALFORMED, detail=event.reason)
            self._end_session(session, LeaveReason.CLOSED)

    def _dispatch(self, session: int, received: Received[pb.FromLearner]) -> None:
        message = received.message
        body = message.WhichOneof("body")
        if body == "hello":
            self._hello(session, message.hello)
        elif body == "push":
            self._push_handler.receive(session, message, received.payload)
        elif self._sessions.epoch(session) != message.epoch:
            return  # from a membership that has ended
        elif body == "progress":
            self._progress(session, message.epoch, messages.progress(message.progress))
        elif body == "checkpoint":
            self._forward(message.epoch, message.checkpoint, received.payload)
        elif body == "goodbye":
            self._end_session(session, LeaveReason.SAID_GOODBYE)

    def _hello(self, session: int, hello: pb.Hello) -> None:
        if self._sessions.epoch(session) is not None:
            self._refuse_hello(session, hello, "one hello a stream")
            return
        if self._executor.has_stopped and not hello.versions:
            self._hub.close(session, self._executor.stop_message())
            return
        try:
            specs = self._syncer_state.parse_specs(hello.specs_json)
            actions = self.policy.hello(self._turn_s, messages.hello(hello))
        except (Refused, ValueError) as refusal:
            self._refuse_hello(session, hello, str(refusal))
            return
        self._syncer_state.set_specs(specs)
        welcomed = (action.member for action in actions if isinstance(action, Welcome))
        member = max(welcomed, key=lambda member: member.epoch)
        self._hub.admit(session, self._syncer_state.payload_bytes_max)
        self._sessions.admit(session, member)
        self._uplinks.attach(session, hello.learner, hello.incarnation)
        self._executor.carry_out(actions)
        if self._executor.has_stopped:  # its link was broken when training ended
            self._hub.send(session, self._executor.stop_message(member.epoch))

    def _progress(self, session: int, epoch: int, report: Progress) -> None:
        if mistake := self.policy.impossible(report):
            member = self._sessions.member(session)
            self._rejections.push(member, PushRefusal.MALFORMED, detail=mistake)
            self._end_session(session, LeaveReason.CLOSED)
            self._hub.close(session, pb.ToLearner(refused=pb.Refused(reason=mistake)))
            return
        self._executor.carry_out(self.policy.progress(self._turn_s, epoch, report))

    def _forward(self, epoch: int, checkpoint: pb.Checkpoint, payload: memoryview | None) -> None:
        """Pass a donor's checkpoint on to its receiver; without payload, it is on its way."""
        transfers, request = self.policy.transfers, checkpoint.request
        if payload is None:
            transfers.begun(epoch, request)
            return
        receiver = transfers.done(self._turn_s, epoch, request)
        if receiver is None:
            return
        message = pb.ToLearner(epoch=receiver.epoch, checkpoint=checkpoint)
        self._sessions.send_payload(receiver.epoch, message, payload, key="checkpoint")

    def _end_session(self, session: int, reason: LeaveReason) -> None:
        """End a membership, after the pushes that came before."""
        self._push_handler.end(session, lambda: self._forget(session, reason))

    def _forget(self, session: int, reason: LeaveReason) -> None:
        epoch = self._sessions.forget(session)
        if epoch is not None:
            self._executor.carry_out(self.policy.closed(self._turn_s, epoch, reason))

    # ------------------------------------------------------------ helpers

    def _report_refusals(self, now_s: float) -> None:
        for refused in self._hub.refusals.due(now_s):
            self._emit(refused)

    def _refuse_hello(self, session: int, hello: pb.Hello, reason: str) -> None:
        self._rejections.hello(hello, reason)
        self._hub.close(session, pb.ToLearner(refused=pb.Refused(reason=reason)))
