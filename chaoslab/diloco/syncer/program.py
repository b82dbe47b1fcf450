"""Program of the syncer: receives from learners, asks the policy, executes its actions.

    learners ══ one stream each ══► Hub ─ arrivals ─► Syncer ─► Policy ─ actions ─► ActionExecutor
        ▲                                               ▼                                  │
        │                                     SyncerState (fragments, merge, disk) ◄───────┤
        └──── Welcome, Pull, Fragment, … ◄═══ Hub ◄── Sessions ◄───────────────────────────┘

One thread owns all state. `policy` decides, this module handles what arrives, `action_executor`
carries out the decisions. Run it without the harness by `python -m chaoslab.diloco.syncer --help`.
"""

import math
import queue
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.model.codec import MalformedPayload, NotFinite
from chaoslab.diloco.node.clocks import Clocks
from chaoslab.diloco.node.events import Emit, now_s, say
from chaoslab.diloco.node.health import HealthFile
from chaoslab.diloco.node.hooks import Hooks
from chaoslab.diloco.node.phases import Phases
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer import messages
from chaoslab.diloco.syncer.action_executor import ActionExecutor
from chaoslab.diloco.syncer.decisions import (
    LeaveReason,
    Member,
    Offer,
    Progress,
    Refusal,
    Welcome,
)
from chaoslab.diloco.syncer.membership import Refused
from chaoslab.diloco.syncer.options import (
    former_address,
    listen,
    parser,
    retry_while_disk_full,
    tokens_of,
)
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.sessions import Sessions
from chaoslab.diloco.syncer.store import SyncerStore
from chaoslab.diloco.syncer.syncer_state import SyncerState
from chaoslab.diloco.syncer.uplinks import Uplinks
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.streams import Arrival, Closed, Received
from chaoslab.diloco.wire.tls import tls_of

_TICK_S = 0.25
"""Longest wait for an arrival, so that a signal is noticed."""
_PAUSED_S = 1.0
"""A turn of the loop that takes longer than this counts as a pause of the syncer."""


class Syncer:
    """Handles arrivals. `run` returns when training has ended."""

    def __init__(
        self,
        settings: Settings,
        hub: Hub,
        syncer_state: SyncerState,
        *,
        emit: Emit,
        now: Callable[[], float],
        phases: Phases | None = None,
    ) -> None:
        self.policy = Policy(settings)
        self._hub = hub
        self._syncer_state = syncer_state
        self._emit = emit
        self._now = now
        self._uplinks = Uplinks(hub, emit, now())
        self._sessions = Sessions(hub)
        self._executor = ActionExecutor(
            self.policy,
            syncer_state,
            self._sessions,
            phases=phases or Phases(emit, {}),
            emit=emit,
            now=now,
        )
        self.health = HealthFile(None)
        self._rejected: Counter[str] = Counter()
        self._asked = ""
        self._turn_s = now()
        self._last_merge = syncer_state.restore(self.policy, now())

    def run(self, address: str) -> None:
        """Serve until training has ended and all learners have left, or `DRAIN_S` later."""
        self._say(
            Kind.SYNCER_READY,
            address=address,
            rounds=self.policy.rounds.merged,
            committed_tokens=self.policy.committed_tokens,
            is_recovered=self._syncer_state.is_seeded,
            last_epoch=self.policy.membership.last_epoch,
            lives=dict(self.policy.membership.incarnations),
            **self._syncer_state.held(self.policy),
        )
        if self._last_merge is not None:
            self._say(Kind.ROUND_MERGED, **self._last_merge)
        while not self._executor.is_over():
            arrival = self._next_arrival()
            self.health.touch()
            self._note_pause()
            if arrival is not None:
                self._receive(arrival)
            self._executor.carry_out(self.policy.advance(self._now()))
            self._executor.publish_committed()
            self._uplinks.tick(self._now())
            self._report_refusals(self._now())
        self._report_refusals(math.inf)
        self._say(
            Kind.SYNCER_FINAL,
            **self._syncer_state.final(self.policy),
            rejected=self._rejected,
            turned_away=self._hub.refusals.totals,
            reason=self._executor.reason,
            was_asked=self._executor.reason == self._asked,
        )

    def end(self, reason: str) -> None:
        """Ask for the end of training; the open rounds are closed first.

        If training is held after a stop rule was met, this releases it; otherwise it ends early.
        """
        if self.policy.held_reason is None:
            self._asked = reason
        self.policy.stop(self.policy.held_reason or reason)

    # ------------------------------------------------------------ arrivals

    def _note_pause(self) -> None:
        """Tell the policy of a pause of the syncer, so that it does not suspect the learners."""
        slept_s, self._turn_s = self._now() - self._turn_s, self._now()
        if slept_s > _PAUSED_S:
            self.policy.membership.discount(slept_s)

    def _next_arrival(self) -> Arrival[pb.FromLearner] | None:
        wait_s = min(max(self.policy.next_s() - self._now(), 0.0), _TICK_S)
        try:
            return self._hub.arrivals.get(timeout=wait_s)
        except queue.Empty:
            return None

    def _receive(self, arrival: Arrival[pb.FromLearner]) -> None:
        session, event = arrival.session, arrival.event
        if isinstance(event, Received):
            self._dispatch(session, event)
        elif isinstance(event, Closed):
            sender = self._sessions.member(session)
            if event.is_garbled and sender is not None:
                self._reject(sender, Refusal.MALFORMED, detail=event.reason)
            self._end_session(session, LeaveReason.CLOSED)

    def _dispatch(self, session: int, received: Received[pb.FromLearner]) -> None:
        message = received.message
        body = message.WhichOneof("body")
        if body == "hello":
            self._hello(session, message.hello)
        elif body == "push":
            self._push(session, message.epoch, message.push, received.payload)
        elif self._sessions.epoch(session) != message.epoch:
            return  # from a membership that has ended
        elif body == "progress":
            self._progress(session, message.epoch, messages.progress(message.progress))
        elif body == "checkpoint":
            self._forward(message.checkpoint, received.payload)
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
            actions = self.policy.hello(self._now(), messages.hello(hello))
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
            self._reject(self._sessions.member(session), Refusal.MALFORMED, detail=mistake)
            self._end_session(session, LeaveReason.CLOSED)
            self._hub.close(session, pb.ToLearner(refused=pb.Refused(reason=mistake)))
            return
        self._executor.carry_out(self.policy.progress(self._now(), epoch, report))

    def _push(self, session: int, epoch: int, push: pb.Push, payload: memoryview | None) -> None:
        offer = messages.offer(push)
        if self._sessions.epoch(session) != epoch:  # an ended membership, or another learner's
            sender = self._sessions.member(session)
            self._reject(sender, Refusal.FENCED, offer=offer, epoch=epoch)
            return
        if push.base_version < 0:
            self._seed(epoch, push, payload)
            return
        if not push.c_steps and not payload:  # declined: it has nothing for this round
            self.policy.decline(self._now(), epoch, offer)
            return
        member = self.policy.membership.find(epoch)
        refusal = self.policy.offer(epoch, offer)
        norm = refusal or self._take(epoch, push, payload)
        if not isinstance(norm, Refusal) and member is not None:
            who = messages.identity(member)
            self._say(Kind.PUSH_ACCEPTED, **who, **asdict(offer), norm=norm)
            self.policy.accept(self._now(), epoch, offer)
            return
        self._reject(member, norm if isinstance(norm, Refusal) else Refusal.FENCED, offer=offer)
        self.policy.reject_answer(self._now(), epoch, offer.round)

    def _take(self, epoch: int, push: pb.Push, payload: memoryview | None) -> Refusal | float:
        """Keep the outer gradient of a push: its norm, or why it is refused."""
        try:
            return self._syncer_state.take_delta(
                push.round, epoch, push.fragment, push.codec, payload
            )
        except NotFinite:
            return Refusal.NOT_FINITE
        except MalformedPayload:
            return Refusal.MALFORMED

    def _seed(self, epoch: int, push: pb.Push, payload: memoryview | None) -> None:
        """Keep one fragment of the initial parameters, from the learner that was asked for them."""
        if epoch != self.policy.seeder or self.policy.versions:
            self._reject(self.policy.membership.find(epoch), Refusal.NOT_ASKED)
            return
        try:
            self._syncer_state.take_initial(push.fragment, payload)
        except MalformedPayload as error:
            self._reject(self.policy.membership.find(epoch), Refusal.MALFORMED, detail=str(error))
            return
        if self._syncer_state.is_seeded:
            self._executor.carry_out(self.policy.seeded(self._now(), epoch))

    def _forward(self, checkpoint: pb.Checkpoint, payload: memoryview | None) -> None:
        """Pass a donor's checkpoint on to its receiver."""
        receiver = self.policy.transfers.done(checkpoint.request)
        if receiver is None or payload is None:
            return
        message = pb.ToLearner(epoch=receiver.epoch, checkpoint=checkpoint)
        self._sessions.send_payload(receiver.epoch, message, payload, key="checkpoint")

    def _end_session(self, session: int, reason: LeaveReason) -> None:
        epoch = self._sessions.forget(session)
        if epoch is not None:
            self._executor.carry_out(self.policy.closed(self._now(), epoch, reason))

    # ------------------------------------------------------------ helpers

    def _report_refusals(self, now_s: float) -> None:
        for line in self._hub.refusals.due(now_s):
            self._say(Kind.STREAM_REFUSED, **line)

    def _refuse_hello(self, session: int, hello: pb.Hello, reason: str) -> None:
        self._rejected[Refusal.HELLO.value] += 1
        self._say(
            Kind.MEMBER_REFUSED,
            learner=hello.learner, incarnation=hello.incarnation, reason=reason,
        )  # fmt: skip
        self._hub.close(session, pb.ToLearner(refused=pb.Refused(reason=reason)))

    def _reject(
        self,
        member: Member | None,
        refusal: Refusal,
        *,
        offer: Offer | None = None,
        epoch: int | None = None,
        detail: str = "",
    ) -> None:
        """`epoch`: that of the message, if it is not the member's current one."""
        self._rejected[refusal.value] += 1
        who = messages.identity(member) if member else {"learner": "", "incarnation": 0, "epoch": 0}
        if epoch is not None:
            who["epoch"] = epoch
        self._say(
            Kind.PUSH_REJECTED,
            **who,
            round=offer.round if offer else 0,
            fragment=offer.fragment if offer else -1,
            c_tokens=offer.c_tokens if offer else 0,
            reason=refusal.value,
            detail=detail,
        )

    def _say(self, kind: Kind, **data: Json) -> None:
        self._emit(kind, data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the syncer until training has ended; the exit code."""
    options = parser().parse_args(arguments)
    settings = Settings.from_json(options.settings_json)
    address_file = options.directory / "address"
    tls = tls_of(options)
    hub = Hub(
        former_address(address_file, options.address), tokens=tokens_of(options, settings), tls=tls
    )
    syncer_state = SyncerState(
        settings,
        SyncerStore(options.directory / "state", durable=not options.not_durable),
        snapshots=options.snapshots,
    )
    about: dict[str, Json] = {"node": options.name, "incarnation": options.incarnation}
    phases = Phases(say, about)
    syncer = retry_while_disk_full(
        lambda: Syncer(settings, hub, syncer_state, emit=say, now=now_s, phases=phases), say
    )
    syncer.policy.is_held, syncer.health = options.hold, HealthFile(options.health_file)
    signal.signal(signal.SIGTERM, lambda *_: syncer.end("the syncer was asked to end"))
    hooks = Hooks()
    phases.register(hooks)
    hooks.on("clock", Clocks(lambda kind, data: say(kind, {**about, **data})).apply_hook)
    if options.test_hooks:
        hooks.listen()
    address = listen(hub, address_file)
    try:
        syncer.run(address)
    finally:
        hub.stop()
        syncer_state.close()
    return 0
