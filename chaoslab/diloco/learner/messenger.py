"""Messenger of a learner: all communication with the syncer, on threads of its own.

    training thread ── boundary(snapshot) ──► Messenger ─ Link ══ stream ══► syncer
                   ◄── take(): fragments, checkpoint, stop ──────┘

The training thread never waits here: it leaves a snapshot of immutable arrays after each step and
takes what has arrived. Pulls are answered from the newest snapshot on the sender's thread, so that
the copy from the device and the encoding take no step time, and a slow or hanging training thread
delays no answer. Counters are repeated twice a second as a heartbeat, which shows only that the
process is alive.

When the stream breaks or the membership is fenced, the link reconnects (`link`) and the messenger
says hello with what it holds; the learner keeps stepping meanwhile. It reconnects only after the
training thread has made a step, so that a learner that hangs does not rejoin.

`exchange` has the data passed between the threads, `messages` the conversion.
"""

import threading
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any

from chaoslab.core.payloads import (
    CheckpointGiven,
    LearnerFenced,
    LearnerPushed,
    LifeFields,
    MembershipFields,
)
from chaoslab.core.protocol import Phase
from chaoslab.diloco.learner import messages
from chaoslab.diloco.learner.exchange import Handover, Inbox, Payloads, Snapshot, Vector
from chaoslab.diloco.learner.link import Ambient, BeginProbe, Connection, Link, LinkHandlers
from chaoslab.diloco.model.encodings import Codec, MalformedPayload
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Bytes, Received

_WAITS_S = 2.0
"""A training thread that waits for other learners says so more often than this, in s."""


class Messenger:
    """A learner's communication. `start` it, then call it from the training thread."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        whose: LifeFields,
        payloads: Payloads,
        emit: Emit,
        probe: BeginProbe | None = None,
        ambient: Ambient | None = None,
    ) -> None:
        """`ambient`: None for that of a real process."""
        ambient = ambient or Ambient.of_process(whose, emit)
        self.whose = whose
        """Learner and incarnation, as its events say them."""
        self._payloads = payloads
        self._emit = emit
        self.phases = ambient.phases
        """Points that it reaches, and the training thread."""
        self.waits = ambient.waits
        """Of its own, and for the training thread."""
        self._connection: Connection | None = None
        """The open stream; None while there is none."""
        self._lock = threading.Lock()
        self._arrived = self.waits.flag()
        self._inbox = Inbox()
        self._snapshot: Snapshot | None = None
        self._snapshot_s = 0.0
        self._fragments = 0
        self._codec = Codec.F32
        self._pulls: dict[int, pb.Pull] = {}
        self._requests: dict[int, pb.CheckpointRequest] = {}
        """Checkpoint requests that are not answered yet; several if several learners rejoin."""
        self.epoch = 0
        """Epoch of the current or latest membership; 0 before the first."""
        self._is_member = False
        self._process = ambient.process
        self._link = Link(
            connect,
            LinkHandlers(
                hello=self._say_hello, hear=self._hear, repeat=self._repeat, end=self._end
            ),
            whose=whose,
            emit=emit,
            ambient=ambient,
            probe=probe,
        )

    @property
    def membership(self) -> MembershipFields:
        """Its current or latest membership, as events say it."""
        return {**self.whose, "epoch": self.epoch}

    # ------------------------------------------------------------ for the training thread

    def start(self) -> None:
        """Start the link, which begins to connect."""
        self._link.start()

    def boundary(self, snapshot: Snapshot) -> None:
        """Leave the state after a step: report it, and answer the pulls that it can answer."""
        self._link.allow_reconnect()
        with self._lock:
            self._snapshot, self._snapshot_s = snapshot, self.waits.now_s()
            self._report()
            self._answer()

    def take(self) -> Inbox:
        """Everything that has arrived since the last call; never waits."""
        with self._lock:
            taken, self._inbox = self._inbox, Inbox()
            return taken

    @property
    def calls_back(self) -> bool:
        """Whether something has arrived that ends the training in a communicator."""
        with self._lock:
            inbox = self._inbox
            return any((inbox.communicator, inbox.joined, inbox.stop, inbox.refused))

    async def wait(self, timeout_s: float) -> None:
        """Return when something has arrived, at most after `timeout_s`."""
        self._link.allow_reconnect()
        with self._lock:
            if self._inbox != Inbox():
                return
            self._arrived.clear()
        await self._arrived.wait(timeout_s)

    def send_initial(self, fragments: Sequence[Vector]) -> None:
        """Send the initial parameters, each float32 [n_p], to a syncer that asked for them."""
        for index, values in enumerate(fragments):
            push = messages.initial(index)
            self._send_payload(
                pb.FromLearner(epoch=self.epoch, push=push),
                self._payloads.initial(values),
                ("initial", index),
            )

    def leave(self, reason: str) -> None:
        """Say goodbye and close when it was sent; waits for a bounded time."""
        self._link.close(pb.FromLearner(epoch=self.epoch, goodbye=pb.Goodbye(reason=reason)))

    # ------------------------------------------------------------ for the link's thread

    def _say_hello(self, connection: Connection) -> None:
        """Send the hello, the first message of a stream."""
        with self._lock:
            hello = messages.hello(
                self.whose["learner"],
                self.whose["incarnation"],
                self._process,
                specs_json=self._payloads.specs_json,
                counters=self._snapshot.counters if self._snapshot else None,
            )
            connection.send(pb.FromLearner(hello=hello))
            self._connection = connection

    def _hear(self, received: Received[pb.ToLearner]) -> str | None:
        with self._lock:
            ended = self._dispatch(received)
            self._arrived.set()
        return ended

    def _repeat(self) -> None:
        with self._lock:
            self._report()

    def _end(self, why: str) -> None:
        """Handle the end of the stream: membership and open requests end with it."""
        with self._lock:
            self._connection = None
            self._pulls.clear()
            self._requests.clear()
            was_member, self._is_member = self._is_member, False
        if was_member:
            self._emit(LearnerFenced(**self.membership, reason=why))

    def _dispatch(self, received: Received[pb.ToLearner]) -> str | None:
        """Handle one message; a reason if the membership ends because of it."""
        message = received.message
        body = message.WhichOneof("body")
        if body == "welcome":
            return self._welcome(message)
        if body == "fragment":
            return self._fragment(message.fragment, received.payload)
        if body == "pull":
            return self._pull(message.pull)
        if body == "checkpoint_request":
            return self._asked_to_donate(message.checkpoint_request)
        if body == "checkpoint" and received.payload is not None:
            self._inbox.handover = Handover(message.checkpoint, received.payload)
        elif body == "communicator":
            self._inbox.communicator = message.communicator
        elif body == "stop":
            self._inbox.stop = message.stop
        elif body == "refused":
            self._inbox.refused = message.refused.reason
            return message.refused.reason
        elif body == "fenced":
            return message.fenced.reason
        return None

    def _welcome(self, message: pb.ToLearner) -> str | None:
        try:
            joined = messages.joined(message, self._payloads)
        except ValueError as error:
            return f"invalid welcome: {error}"
        self._fragments = joined.settings.fragments
        self._codec = Codec(joined.settings.compression)
        self.epoch, self._is_member = joined.epoch, True
        self._link.backoff.spread(len(joined.settings.learners))
        self._pulls.clear()
        self._requests.clear()
        self._inbox.joined = joined
        self._inbox.communicator = self._inbox.handover = None
        self._report()
        return None

    def _pull(self, pull: pb.Pull) -> str | None:
        if pull.fragment >= self._fragments:
            return f"pull of fragment {pull.fragment}, which does not exist"
        self._pulls[pull.fragment] = pull
        self._answer()
        return None

    def _asked_to_donate(self, request: pb.CheckpointRequest) -> str | None:
        if len(request.versions) != self._fragments:
            return "checkpoint request with another number of fragments"
        self._requests[request.request] = request
        self._answer()
        return None

    def _fragment(self, header: pb.Fragment, payload: memoryview | None) -> str | None:
        if payload is None or header.fragment >= self._fragments:
            return "published fragment with another number or no payload"
        try:
            adoption = self._payloads.adoption(header, payload)
        except (MalformedPayload, ValueError) as error:
            return f"invalid published fragment: {error}"
        self._inbox.adoptions[header.fragment] = adoption
        return None

    # ------------------------------------------------------------ messages to the syncer

    def _report(self) -> None:
        if self._snapshot is None or self._connection is None or not self._is_member:
            return
        progress = messages.progress(self._snapshot.counters)
        if self.waits.now_s() - self._snapshot_s > _WAITS_S:
            progress.waits = False  # the training thread hangs
        self._connection.send(pb.FromLearner(epoch=self.epoch, progress=progress), key="progress")

    def _answer(self) -> None:
        """Answer the pulls and checkpoint requests that the newest snapshot can answer."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        versions = snapshot.counters.versions
        for pull in list(self._pulls.values()):
            if versions[pull.fragment] >= pull.base_version:
                del self._pulls[pull.fragment]
                self._push(snapshot, pull)
        for request in list(self._requests.values()):
            asked = zip(versions, request.versions, strict=True)
            if all(mine >= wanted for mine, wanted in asked):
                del self._requests[request.request]
                self._donate(snapshot, request)

    def _push(self, snapshot: Snapshot, pull: pb.Pull) -> None:
        """Push the work on the fragment, or decline with an empty push if there is none."""
        counters, fragment = snapshot.counters, pull.fragment
        if counters.versions[fragment] != pull.base_version or counters.c_steps(fragment) == 0:
            declined = messages.declined(counters, pull, self._codec)
            self._send_payload(
                pb.FromLearner(epoch=self.epoch, push=declined), b"", ("push", fragment, 0)
            )
            return
        push = messages.push(counters, pull, self._codec)
        sent = self._payloads.outgoing(push, lambda: snapshot.delta(fragment))
        for number, (header, payload) in enumerate(sent):
            self._send_payload(
                pb.FromLearner(epoch=self.epoch, push=header),
                payload,
                ("push", fragment, number),
                partial(self.phases.reach, Phase.PUSH, round=pull.round, fragment=fragment),
            )
        self._emit(
            LearnerPushed(
                **self.membership,
                round=push.round,
                fragment=push.fragment,
                base_version=push.base_version,
                step=push.step,
                c_steps=push.c_steps,
                c_tokens=push.c_tokens,
                tokens_from=push.tokens_from,
                tokens_to=push.tokens_to,
            )
        )

    def _donate(self, snapshot: Snapshot, request: pb.CheckpointRequest) -> None:
        checkpoint = messages.checkpoint(snapshot.counters, request.request, self.whose["learner"])

        def pack() -> bytes:
            payload = snapshot.pack()
            moments, step = snapshot.moments_digest(payload), snapshot.counters.step
            self._emit(CheckpointGiven(**self.whose, step=step, moments=moments))
            return payload

        self._send_payload(
            pb.FromLearner(epoch=self.epoch, checkpoint=checkpoint),
            pack,
            ("checkpoint", request.request),
            partial(self._note_donating, self._connection, self.epoch, request.request),
        )

    async def _note_donating(self, connection: Connection | None, epoch: int, request: int) -> None:
        """Say that a checkpoint is on its way, so that the syncer waits for it."""
        if connection is not None:
            begun = pb.Checkpoint(request=request)
            connection.send(pb.FromLearner(epoch=epoch, checkpoint=begun))
        await self.phases.reach(Phase.DONATE)

    def _send_payload(
        self,
        message: pb.FromLearner,
        payload: Bytes | Callable[[], Bytes],
        key: Hashable,
        midway: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        if self._connection is not None and self._is_member:  # no payload before the welcome
            self._connection.send_payload(message, payload, key=key, midway=midway)
