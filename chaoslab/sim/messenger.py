"""Messages of a simulated learner: what it answers, and what arrives for its training thread.

    training thread ── boundary(counters) ──► Messenger ─ Connection ══ stream ══► syncer
                    ◄── inbox: joined, adoptions, handover, stop ──┘ changed()

As `diloco.learner.messenger`: pulls are answered from the newest snapshot, whatever the training
thread does meanwhile.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from chaoslab.core.events import Json
from chaoslab.core.payloads import LearnerFenced, LearnerPushed, UpdateTampered
from chaoslab.core.protocol import Corruption, Phase
from chaoslab.diloco.syncer.decisions import Hello, Offer
from chaoslab.sim.connection import Connection, Handlers
from chaoslab.sim.counters import Counters, Snapshot
from chaoslab.sim.messages import (
    CheckpointBegun,
    CheckpointMessage,
    CheckpointRequest,
    Fenced,
    Goodbye,
    HelloMessage,
    InitialMessage,
    ProgressMessage,
    Published,
    PullMessage,
    PushMessage,
    RefusedMessage,
    StopMessage,
    WelcomeMessage,
    flat,
)
from chaoslab.sim.model import Sizes
from chaoslab.sim.process import Act, Process
from chaoslab.sim.wires import Party


class Inbox:
    """Messages that arrived since the training thread last looked."""

    def __init__(self) -> None:
        self.joined: WelcomeMessage | None = None
        self.adoptions: dict[int, Published] = {}
        self.handover: CheckpointMessage | None = None
        self.stop: StopMessage | None = None
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
        is_waiting: Callable[[], bool],
    ) -> None:
        """`changed` is called when something has arrived; `is_waiting`: see `Handlers`."""
        self._process = process
        self._parameters = parameters
        self._changed = changed
        self._costs = process.world.costs
        self._tampering = Tampering()
        process.on("updates", self._tampering.apply_hook)
        self.inbox = Inbox()
        self.connection = Connection(
            process, party,
            Handlers(
                hello=self._hello, hear=self._hear, repeat=self._report, end=self._fenced,
                is_waiting=is_waiting,
            ),
        )  # fmt: skip
        self.epoch = 0
        """Epoch of the current or latest membership."""
        self._is_member = False
        self._snapshot: Snapshot | None = None
        self._sizes: Sizes | None = None
        self._pulls: dict[int, PullMessage] = {}
        self._requests: dict[int, CheckpointRequest] = {}

    # ---------------------------------------------------------------- for the training thread

    def boundary(self, counters: Counters) -> None:
        """Leave the state after a step: report it, and answer what it can answer."""
        self._snapshot = counters.snapshot()
        self.connection.allow()
        self._report()
        self._answer()

    def send_initial(self, fragments: int) -> None:
        """Send the initial parameters to a syncer that asked for them."""
        for fragment in range(fragments):
            size_bytes = self._sizes.initial_bytes if self._sizes else 0
            self.connection.send(InitialMessage(self.epoch, fragment), size_bytes)

    def leave(self) -> None:
        """Say goodbye and close."""
        self.connection.close(Goodbye(self.epoch))

    # ---------------------------------------------------------------- what arrives

    def _hear(self, message: object) -> str | None:
        match message:
            case WelcomeMessage():
                self._welcome(message)
            case Published():
                self._process.work(self._costs.adopt_s, lambda: self._arrive(message))
                return None
            case PullMessage():
                self._pulls[message.fragment] = message
                self._answer()
            case CheckpointRequest():
                self._requests[message.request] = message
                self._answer()
            case CheckpointMessage():
                self.inbox.handover = message
            case StopMessage():
                self.inbox.stop = message
            case RefusedMessage(reason=reason):
                self.inbox.refused = reason
                self._changed()
                return reason
            case Fenced(reason=reason):
                return reason
            case _:
                pass
        self._changed()
        return None

    def _arrive(self, published: Published) -> None:
        self.inbox.adoptions[published.fragment] = published
        self._changed()

    def _welcome(self, message: WelcomeMessage) -> None:
        self.epoch, self._is_member = message.epoch, True
        self.connection.backoff.spread(message.crowd)
        self._sizes = Sizes(
            self._costs, fragments=message.fragments, compression=message.compression
        )
        self._sizes.parameters = self._parameters
        self._pulls.clear()
        self._requests.clear()
        self.inbox.joined, self.inbox.handover = message, None
        self._report()

    def _fenced(self, reason: str) -> None:
        """The stream, and with it the membership, has ended."""
        self._pulls.clear()
        self._requests.clear()
        was_member, self._is_member = self._is_member, False
        if was_member:
            self._process.tell_of_itself(LearnerFenced, epoch=self.epoch, reason=reason)

    # ---------------------------------------------------------------- what is sent

    def _hello(self) -> HelloMessage:
        process = self._process
        versions = self._snapshot.report.versions if self._snapshot else ()
        hello = Hello(
            learner=process.name,
            incarnation=process.incarnation,
            process=process.incarnation,
            versions=versions,
        )
        return HelloMessage(hello, self._parameters)

    def _report(self) -> None:
        if self._snapshot is not None and self._is_member:
            self.connection.send(ProgressMessage(self.epoch, self._snapshot.report))

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

    def _push(self, snapshot: Snapshot, pull: PullMessage) -> None:
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
            self.connection.send(PushMessage(self.epoch, _declined(offer), 0, 1.0))
            return
        sent, tampered = self._tampering.outgoing(offer)
        if tampered is not None:
            self._process.tell_of_itself(
                UpdateTampered, round=offer.round, fragment=fragment, **tampered
            )
        for header, scale in sent:
            message = PushMessage(self.epoch, header, self._sizes.pushed_bytes, scale)
            self._send_later(message)
        self._process.tell_of_itself(LearnerPushed, epoch=self.epoch, **flat(offer))

    def _send_later(self, message: PushMessage) -> None:
        """Once it is encoded."""

        def send() -> None:
            self.connection.send(message, message.size_bytes)

        self._process.work(
            self._process.round_work_s("push_s"),
            lambda: self._process.reach(
                Phase.PUSH, send, round=message.offer.round, fragment=message.offer.fragment
            ),
        )

    def _donate(self, snapshot: Snapshot, request: CheckpointRequest) -> None:
        message = CheckpointMessage(
            epoch=self.epoch,
            request=request.request,
            versions=snapshot.report.versions,
            digests=snapshot.digests,
            step=snapshot.report.step,
            donor=self._process.name,
            size_bytes=self._sizes.checkpoint_bytes if self._sizes else 0,
        )

        def send() -> None:
            self.connection.send(CheckpointBegun(self.epoch, request.request))
            self.connection.send(message, message.size_bytes, is_bulk=True)

        self._process.work(
            self._process.takes(self._costs.pack_s),
            lambda: self._process.reach(Phase.DONATE, send),
        )


def _declined(offer: Offer) -> Offer:
    return Offer(
        round=offer.round, fragment=offer.fragment, base_version=offer.base_version, step=0,
        c_steps=0, c_tokens=0, tokens_from=0, tokens_to=0,
    )  # fmt: skip


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
