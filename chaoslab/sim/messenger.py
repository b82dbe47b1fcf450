"""Messages of a simulated learner: what it answers, and what arrives for its training thread.

    training thread ── boundary(counters) ──► Messenger ─ Link ══ stream ══► syncer
                    ◄── inbox: joined, adoptions, handover, stop ──┘ changed()

As `diloco.learner.messenger`: pulls are answered from the newest snapshot, whatever the training
thread does meanwhile.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple, cast

from chaoslab.core.events import Json
from chaoslab.core.link_meter import PING_S, Meter
from chaoslab.core.payloads import LearnerFenced, LearnerPushed, UpdateTampered
from chaoslab.core.protocol import Corruption, Phase
from chaoslab.diloco.learner.link import Link, LinkHandlers
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Offer
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Received
from chaoslab.sim.connection import Connection
from chaoslab.sim.counters import Counters, Handover, Published, Snapshot
from chaoslab.sim.messages import (
    CheckpointValues,
    FragmentValues,
    PushValues,
    Values,
)
from chaoslab.sim.model import Sizes
from chaoslab.sim.process import Act, Process
from chaoslab.sim.waits import Waits
from chaoslab.sim.wires import Party, Stream


class Joined(NamedTuple):
    """A membership."""

    source: str
    settings: Settings
    data_position: int
    step: int


class Inbox:
    """Messages that arrived since the training thread last looked."""

    def __init__(self) -> None:
        self.joined: Joined | None = None
        self.adoptions: dict[int, Published] = {}
        self.handover: Handover | None = None
        self.stop: pb.Stop | None = None
        self.refused: str | None = None


class Messenger:
    """All communication of one life of a learner."""

    def __init__(
        self,
        process: Process,
        party: Party,
        *,
        parameters: int,
        changed: Act,
    ) -> None:
        """`changed` is called when something has arrived."""
        self._process, self._party = process, party
        self._parameters = parameters
        self._changed = changed
        self._costs = process.world.costs
        self._tampering = Tampering()
        process.on("updates", self._tampering.apply_hook)
        self.inbox = Inbox()
        self._stream: Connection | None = None
        """The newest one."""
        self._connection: Connection | None = None
        """The open stream; None while there is none."""
        self._link = Link(
            self._connect,
            LinkHandlers(
                hello=self._say_hello, hear=self._hear, repeat=self._report, end=self._end
            ),
            emit=process.tell_of_itself,
            chance=random.Random(
                f"{process.world.seed}/backoff/{process.name}/{process.incarnation}"
            ),
            probe=self._begin_probe,
            waits=Waits(process),
            meter=Meter(process.clock.now_s),
        )
        self.epoch = 0
        """Epoch of the current or latest membership."""
        self._is_member = False
        self._snapshot: Snapshot | None = None
        self._sizes: Sizes | None = None
        self._pulls: dict[int, pb.Pull] = {}
        self._requests: dict[int, pb.CheckpointRequest] = {}

    # ---------------------------------------------------------------- for the training thread

    def boundary(self, counters: Counters) -> None:
        """Leave the state after a step: report it, and answer what it can answer."""
        self.allow_reconnect()
        self._snapshot = counters.snapshot()
        self._report()
        self._answer()

    def send_initial(self, fragments: int) -> None:
        """Send the initial parameters to a syncer that asked for them."""
        for fragment in range(fragments):
            push = pb.Push(fragment=fragment, base_version=-1, codec="f32")
            size_bytes = self._sizes.initial_bytes if self._sizes else 0
            self._send(self._message(push=push), Values(size_bytes))

    def start(self) -> None:
        """Begin to connect, and to measure."""
        self._link.start()

    def allow_reconnect(self) -> None:
        """The training thread has made a step, or waits: another dial may follow."""
        self._link.allow_reconnect()

    def leave(self) -> None:
        """Say goodbye and close."""
        self._link.close(self._message(goodbye=pb.Goodbye()))

    # ---------------------------------------------------------------- streams

    def _connect(self) -> Connection:
        self._stream = Connection(self._process, self._party)
        return self._stream

    def hear(self, stream: Stream, message: Received[Any]) -> None:
        """A message of the syncer."""
        if self._stream is not None:
            self._stream.hear(stream, message)

    def lose(self, stream: Stream, reason: str) -> None:
        """The stream has ended."""
        if self._stream is not None:
            self._stream.lose(stream, reason)

    def abandon(self) -> None:
        """The process is gone."""
        if self._stream is not None:
            self._stream.abandon()

    def _begin_probe(self, probed: Callable[[float], None]) -> None:
        """As `diloco.wire.probe`: pings on a connection of its own."""
        world, wire = self._process.world, self._process.world.network.wire(self._process.name)

        def probe() -> None:
            is_reached = world.syncer is not None and world.syncer.answers and not wire.refused_by
            rtt_s = wire.round_trip_s(beside=True) if is_reached else None
            if rtt_s is not None:
                probed(rtt_s)

        self._process.every(PING_S, probe)

    # ---------------------------------------------------------------- what arrives

    def _hear(self, received: Received[pb.ToLearner]) -> str | None:
        message, payload = received.message, cast("object", received.payload)
        match message.WhichOneof("body"):
            case "welcome":
                self._welcome(message)
            case "fragment" if isinstance(payload, FragmentValues):
                header = message.fragment
                published = Published(
                    header.fragment, header.version, header.digest, header.committed_tokens,
                    payload.loss,
                )  # fmt: skip
                self._process.work(self._costs.adopt_s, lambda: self._arrive(published))
                return None
            case "pull":
                self._pulls[message.pull.fragment] = message.pull
                self._answer()
            case "checkpoint_request":
                self._requests[message.checkpoint_request.request] = message.checkpoint_request
                self._answer()
            case "checkpoint" if isinstance(payload, CheckpointValues):
                given = message.checkpoint
                self.inbox.handover = Handover(
                    tuple(given.versions), payload.digests, given.step, given.donor
                )
            case "stop":
                self.inbox.stop = message.stop
            case "refused":
                self.inbox.refused = message.refused.reason
                self._changed()
                return message.refused.reason
            case "fenced":
                return message.fenced.reason
        self._changed()
        return None

    def _arrive(self, published: Published) -> None:
        self.inbox.adoptions[published.fragment] = published
        self._changed()

    def _welcome(self, message: pb.ToLearner) -> None:
        welcome = message.welcome
        rules = Settings.from_json(welcome.settings_json)
        self.epoch, self._is_member = message.epoch, True
        self._link.backoff.spread(len(rules.learners))
        self._sizes = Sizes(self._costs, fragments=rules.fragments, compression=rules.compression)
        self._sizes.parameters = self._parameters
        self._pulls.clear()
        self._requests.clear()
        self.inbox.joined = Joined(welcome.source, rules, welcome.data_position, welcome.step)
        self.inbox.handover = None
        self._report()

    def _end(self, reason: str) -> None:
        """The stream, and with it the membership, has ended."""
        self._connection = None
        self._pulls.clear()
        self._requests.clear()
        was_member, self._is_member = self._is_member, False
        if was_member:
            self._process.tell_of_itself(LearnerFenced, epoch=self.epoch, reason=reason)

    # ---------------------------------------------------------------- what is sent

    def _send(self, message: pb.FromLearner, values: Values | None = None) -> None:
        if self._connection is None:
            return
        if values is None:
            self._connection.send(message)
        else:
            is_bulk = isinstance(values, CheckpointValues)
            self._connection.send_values(message, values, is_bulk=is_bulk)

    def _message(self, **body: Any) -> pb.FromLearner:
        return pb.FromLearner(epoch=self.epoch, **body)

    def _say_hello(self, connection: Connection) -> None:
        process = self._process
        hello = pb.Hello(
            learner=process.name,
            incarnation=process.incarnation,
            process=process.incarnation,
            specs_json=str(self._parameters),
            versions=self._snapshot.report.versions if self._snapshot else (),
        )
        connection.send(pb.FromLearner(hello=hello))
        self._connection = connection

    def _report(self) -> None:
        if self._snapshot is not None and self._is_member:
            report = self._snapshot.report
            progress = pb.Progress(
                step=report.step,
                tokens=report.tokens,
                c_steps=report.c_steps,
                c_tokens=report.c_tokens,
                versions=report.versions,
                loss=report.loss,
                step_s=report.step_s,
                data_position=report.data_position,
            )
            self._send(self._message(progress=progress))

    def _answer(self) -> None:
        """Answer the pulls and checkpoint requests that the newest snapshot can answer."""
        snapshot = self._snapshot
        if snapshot is None or not self._is_member or not (self._pulls or self._requests):
            return
        versions = snapshot.report.versions
        for pull in tuple(self._pulls.values()):
            if versions[pull.fragment] >= pull.base_version:
                del self._pulls[pull.fragment]
                self._push(snapshot, pull)
        for request in tuple(self._requests.values()):
            if all(mine >= wanted for mine, wanted in zip(versions, request.versions, strict=True)):
                del self._requests[request.request]
                self._donate(snapshot, request)

    def _push(self, snapshot: Snapshot, pull: pb.Pull) -> None:
        """Push the work on the fragment, or decline if there is none."""
        fragment, report = pull.fragment, snapshot.report
        version, c_steps = report.versions[fragment], report.c_steps[fragment]
        offer = Offer(
            round=pull.round,
            fragment=fragment,
            base_version=version,
            step=report.step,
            c_steps=c_steps,
            c_tokens=report.c_tokens[fragment],
            tokens_from=snapshot.tokens_from[fragment],
            tokens_to=report.tokens,
        )
        if version != pull.base_version or c_steps == 0 or self._sizes is None:
            declined = pb.Push(round=pull.round, fragment=fragment, base_version=version)
            self._send(self._message(push=declined))
            return
        sent, tampered = self._tampering.outgoing(offer)
        if tampered is not None:
            self._process.tell_of_itself(
                UpdateTampered, round=offer.round, fragment=fragment, **tampered
            )
        size_bytes = self._sizes.pushed_bytes
        for header, scale in sent:
            self._send_later(header, PushValues(size_bytes, self.epoch, scale))
        self._process.tell_of_itself(LearnerPushed, epoch=self.epoch, **asdict(offer))

    def _send_later(self, offer: Offer, values: PushValues) -> None:
        """Once it is encoded."""
        message = self._message(push=pb.Push(**asdict(offer)))
        self._process.work(
            self._process.round_work_s("push_s"),
            lambda: self._process.reach(
                Phase.PUSH,
                lambda: self._send(message, values),
                round=offer.round, fragment=offer.fragment,
            ),
        )  # fmt: skip

    def _donate(self, snapshot: Snapshot, request: pb.CheckpointRequest) -> None:
        checkpoint = pb.Checkpoint(
            request=request.request,
            versions=snapshot.report.versions,
            step=snapshot.report.step,
            donor=self._process.name,
        )
        message = self._message(checkpoint=checkpoint)
        begun = self._message(checkpoint=pb.Checkpoint(request=request.request))
        size_bytes = self._sizes.checkpoint_bytes if self._sizes else 0

        def send() -> None:
            self._send(begun)
            self._send(message, CheckpointValues(size_bytes, snapshot.digests))

        self._process.work(
            self._process.takes(self._costs.pack_s),
            lambda: self._process.reach(Phase.DONATE, send),
        )


class Tampering:
    """Test hook of a simulated learner: what becomes of its pushes, by `diloco.learner.tampering`.

        nan        one value is NaN          scaled     times `factor`
        stale      an earlier push again     duplicate  sent twice

    Values are scales: how many times as large they are as they should be.
    """

    def __init__(self) -> None:
        self._kind: Corruption | None = None
        self._factor = 1.0
        self._earlier: dict[int, Offer] = {}
        """Push that a stale one repeats, by fragment."""

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Begin what `facts` describe, or end it."""
        self._kind = Corruption(str(facts["kind"])) if facts else None
        self._factor = float(str(facts.get("factor", 1.0)))
        self._earlier.clear()

    def outgoing(
        self, offer: Offer
    ) -> tuple[Sequence[tuple[Offer, float]], Mapping[str, Json] | None]:
        """Headers to send, each with the scale of its values, and what is said of it."""
        honest = (offer, 1.0)
        if self._kind is Corruption.STALE:
            earlier = self._earlier.setdefault(offer.fragment, offer)
            if earlier.base_version == offer.base_version:
                return [honest], None
        said: dict[str, Json] = {"how": self._kind, "factor": None}
        match self._kind:
            case Corruption.NAN:
                return [(offer, math.nan)], said
            case Corruption.SCALED:
                return [(offer, self._factor)], {**said, "factor": self._factor}
            case Corruption.STALE:
                again = replace(self._earlier[offer.fragment], round=offer.round)
                return [(again, 1.0)], said
            case Corruption.DUPLICATE:
                return [honest, honest], said
            case None:
                return [honest], None
