"""The syncer: merges the learners' updates on a CPU and never makes anyone wait.

    learners ══ one stream each ══► Hub ─ arrivals ─► Syncer ─► Policy ─ actions ─┐
        ▲                                               │  ▲                      │
        └──── Welcome, Pull, Fragment, … ◄── Hub ◄──────┤  └──────────────────────┘
                                          Books (fragments, merge, disk) ◄────────┘

One thread owns all state. What to do is decided in `policy`; here it is carried out: messages
become calls, actions become messages, merges and lines on standard output. `python -m
chaoslab.diloco.syncer --help` says how to run it without the harness.
"""

import argparse
import queue
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from chaoslab.diloco import wire_pb2 as pb
from chaoslab.diloco.books import Books, Publication
from chaoslab.diloco.codec import MalformedPayload, NotFinite
from chaoslab.diloco.decisions import (
    Abandon,
    Action,
    Donate,
    Drop,
    Hold,
    Merge,
    Offer,
    Progress,
    Pull,
    Recover,
    Refusal,
    SendAll,
    Stop,
    Suspect,
    Welcome,
)
from chaoslab.diloco.membership import Hello, Leaving, Member, Refused
from chaoslab.diloco.node import Emit, now_s, say
from chaoslab.diloco.policy import Policy
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.store import SyncerStore
from chaoslab.diloco.uplinks import Uplinks
from chaoslab.diloco.wire import (
    Arrival,
    Closed,
    Garbled,
    Hub,
    Opened,
    Received,
    add_tls_options,
    tls_of,
)
from chaoslab.events import Json, Kind

_FAREWELL_S = 20.0
"""How long the syncer waits, after the end, for the learners to adopt the last versions."""
_TICK_S = 0.25
"""Longest sleep, so that a signal is noticed."""


class Syncer:
    """Carries out what the policy decides. `run` returns when training has ended."""

    def __init__(
        self, settings: Settings, hub: Hub, books: Books, *, emit: Emit, now: Callable[[], float]
    ) -> None:
        self.policy = Policy(settings)
        self._settings = settings
        self._hub = hub
        self._books = books
        self._emit = emit
        self._now = now
        self._uplinks = Uplinks(hub, emit, now())
        self._epochs: dict[int, int] = {}
        """session -> epoch, for the sessions that said hello"""
        self._sessions: dict[int, int] = {}
        self._held: dict[int, tuple[int, ...]] = {}
        """epoch -> versions the learner held when it joined"""
        self._rejected: dict[str, int] = {}
        self._farewell_s: float | None = None
        self._reason = ""
        self._asked = ""
        books.restore(self.policy)

    def run(self, address: str) -> None:
        """Serve until training has ended and everybody has left, or `_FAREWELL_S` later."""
        self._say(
            Kind.SYNCER_READY,
            address=address,
            rounds=self.policy.merged_rounds,
            committed_tokens=self.policy.committed_tokens,
            is_recovered=self._books.is_seeded,
        )
        while not self._is_over():
            arrival = self._next_arrival()
            if arrival is not None:
                self._receive(arrival)
            self._carry_out(self.policy.advance(self._now()))
            self._uplinks.tick(self._now())
        self._say(
            Kind.SYNCER_FINAL,
            **self._books.final(self.policy),
            rejected=self._rejected,
            reason=self._reason,
            was_asked=self._reason == self._asked,
        )

    def end(self, reason: str) -> None:
        """Ask for the end; the open rounds are closed first.

        After a stop rule was met and held this lets go of it, else it comes before its time.
        """
        if self.policy.held_reason is None:
            self._asked = reason
        self.policy.stop(self.policy.held_reason or reason)

    # ------------------------------------------------------------ what arrives

    def _next_arrival(self) -> Arrival[pb.FromLearner] | None:
        wait_s = min(max(self.policy.next_s() - self._now(), 0.0), _TICK_S)
        try:
            return self._hub.arrivals.get(timeout=wait_s) if wait_s else self._hub.arrivals.get(
                block=False
            )  # fmt: skip
        except queue.Empty:
            return None

    def _receive(self, arrival: Arrival[pb.FromLearner]) -> None:
        session, what = arrival.session, arrival.what
        if isinstance(what, Opened):
            return
        if isinstance(what, Garbled):
            self._reject(self._member(session), Refusal.MALFORMED, detail=what.reason)
            self._end_session(session, Leaving.CLOSED)
        elif isinstance(what, Closed):
            self._end_session(session, Leaving.CLOSED)
        elif isinstance(what, Received):
            self._understand(session, what)

    def _understand(self, session: int, received: Received[pb.FromLearner]) -> None:
        message = received.message
        body = message.WhichOneof("body")
        if body == "hello":
            self._hello(session, message.hello)
        elif body == "push":
            self._push(session, message.epoch, message.push, received.payload)
        elif self._epochs.get(session) != message.epoch:
            return  # words of a membership that has ended
        elif body == "progress":
            self._carry_out(
                self.policy.progress(self._now(), message.epoch, _progress(message.progress))
            )
        elif body == "checkpoint":
            self._forward(message.checkpoint, received.payload)
        elif body == "goodbye":
            self._end_session(session, Leaving.SAID_GOODBYE)

    def _hello(self, session: int, hello: pb.Hello) -> None:
        if session in self._epochs:
            self._hub.close(session, pb.ToLearner(refused=pb.Refused(reason="one hello a stream")))
            return
        if self._farewell_s is not None and not hello.versions:
            self._hub.close(session, self._last_word())
            return
        try:
            self._books.agree_on(hello.specs_json)
            actions = self.policy.hello(
                self._now(),
                Hello(
                    learner=hello.learner,
                    incarnation=hello.incarnation,
                    process=hello.process,
                    versions=tuple(hello.versions),
                ),
            )
        except (Refused, ValueError) as refusal:
            self._hub.close(session, pb.ToLearner(refused=pb.Refused(reason=str(refusal))))
            return
        epoch = self.policy.membership.last_epoch
        self._epochs[session], self._sessions[epoch] = epoch, session
        self._held[epoch] = tuple(hello.versions)
        self._uplinks.attach(session, hello.learner, hello.incarnation)
        self._carry_out(actions)
        if self._farewell_s is not None:  # its link was broken when training ended
            self._hub.send(session, self._last_word(epoch))

    def _push(self, session: int, epoch: int, push: pb.Push, payload: memoryview | None) -> None:
        offer = _offer(push)
        if self._epochs.get(session) != epoch:  # of an ended membership, or of somebody else's
            self._reject(self._member(session), Refusal.FENCED, offer=offer)
            return
        if push.base_version < 0:
            self._seed(epoch, push, payload)
            return
        if not push.c_steps and not payload:  # an honest "I have nothing for this round"
            self._carry_out(self.policy.decline(self._now(), epoch, offer))
            return
        member = self.policy.membership.find(epoch)
        refusal = self.policy.offer(epoch, offer) or self._take(epoch, push, payload)
        if refusal is None and member is not None:
            self._say(Kind.PUSH_ACCEPTED, **_whose(member), **_contents(offer))
            self._carry_out(self.policy.accept(self._now(), epoch, offer))
            return
        self._reject(member, refusal or Refusal.FENCED, offer=offer)
        self._carry_out(self.policy.spoil(self._now(), epoch, offer.round))

    def _take(self, epoch: int, push: pb.Push, payload: memoryview | None) -> Refusal | None:
        try:
            self._books.take_delta(push.round, epoch, push.fragment, push.codec, payload)
        except NotFinite:
            return Refusal.NOT_FINITE
        except MalformedPayload:
            return Refusal.MALFORMED
        return None

    def _seed(self, epoch: int, push: pb.Push, payload: memoryview | None) -> None:
        """One fragment of the initial parameters, from the learner that was asked for them."""
        if epoch != self.policy.seeder:
            self._reject(self.policy.membership.find(epoch), Refusal.NOT_ASKED)
            return
        try:
            self._books.take_initial(push.fragment, payload)
        except MalformedPayload as error:
            self._reject(self.policy.membership.find(epoch), Refusal.MALFORMED, detail=str(error))
            return
        if self._books.is_seeded:
            self._carry_out(self.policy.seeded(self._now(), epoch))

    def _forward(self, checkpoint: pb.Checkpoint, payload: memoryview | None) -> None:
        """A donor's checkpoint goes on to whom it was asked for."""
        receiver = self.policy.transferred(checkpoint.request)
        session = self._sessions.get(receiver.epoch) if receiver else None
        if receiver is None or session is None or payload is None:
            return
        self._hub.send_payload(
            session,
            pb.ToLearner(epoch=receiver.epoch, checkpoint=checkpoint),
            payload,
            key="checkpoint",
        )

    def _end_session(self, session: int, reason: Leaving) -> None:
        epoch = self._epochs.pop(session, None)
        if epoch is None:
            return
        self._sessions.pop(epoch, None)
        self._carry_out(self.policy.closed(self._now(), epoch, reason))

    # ------------------------------------------------------------ what is decided

    def _carry_out(self, actions: list[Action]) -> None:
        pending = list(actions)
        while pending:
            pending += self._do(pending.pop(0))

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
                self._say(Kind.MEMBER_SUSPECTED, **_whose(member), idle_s=idle_s)
            case Recover(member=member, idle_s=idle_s):
                self._say(Kind.MEMBER_RECOVERED, **_whose(member), idle_s=idle_s)
            case Drop():
                self._drop(action)
            case Donate():
                self._donate(action)
            case SendAll(receiver=receiver):
                self._send_all(receiver)
            case Hold(reason=reason):
                self._say(Kind.SYNCER_HELD, reason=reason)
            case Stop():
                self._stop(action)
        return more

    def _welcome(self, action: Welcome) -> None:
        member = action.member
        welcome = pb.Welcome(
            versions=self.policy.versions,
            source=action.source,
            donor=action.donor.learner if action.donor else "",
            settings_json=self._settings.to_json(),
            data_position=self.policy.membership.data_positions.get(member.learner, 0),
            step=max((m.step for m in self.policy.membership.members), default=0),
        )
        self._send(member, pb.ToLearner(epoch=member.epoch, welcome=welcome))
        self._say(
            Kind.MEMBER_JOINED,
            **_whose(member),
            source=action.source.value,
            donor=action.donor.learner if action.donor else None,
            members=len(self.policy.membership.members),
        )

    def _pull(self, action: Pull) -> None:
        pull = pb.Pull(
            round=action.round, fragment=action.fragment, base_version=action.base_version
        )
        for epoch in action.epochs:
            session = self._sessions.get(epoch)
            if session is not None:
                self._hub.send(session, pb.ToLearner(epoch=epoch, pull=pull))

    def _merge(self, action: Merge) -> list[Action]:
        publication = self._books.merge(action, self.policy)
        for member in self.policy.membership.members:
            self._publish(member, publication)
        actions = self.policy.published(self._now(), action)
        self._say(
            Kind.ROUND_MERGED,
            round=action.round,
            fragment=action.fragment,
            version=publication.version,
            base_version=action.base_version,
            contributors=[
                {
                    "learner": c.learner,
                    "incarnation": c.incarnation,
                    "epoch": c.epoch,
                    "weight": c.weight,
                    **_contents(c.offer, keys=("step", *_COUNTS)),
                }
                for c in action.contributions
            ],
            committed_tokens=action.fragment_tokens / self._settings.fragments,
            digest=publication.digest,
            momentum_digest=self._books.momentum_digest(action.fragment),
            members=len(self.policy.membership.members),
            missed=list(action.missed),
            quorum_s=action.quorum_s,
            grace_s=action.grace_s,
            sync_s=self._now() - action.pulled_s,
        )
        return actions

    def _publish(self, member: Member, publication: Publication) -> None:
        session = self._sessions.get(member.epoch)
        if session is None:
            return
        committed = self._books.committed(member.learner, member.incarnation, publication.fragment)
        self._hub.send_payload(
            session,
            pb.ToLearner(
                epoch=member.epoch,
                fragment=pb.Fragment(
                    fragment=publication.fragment,
                    version=publication.version,
                    round=publication.round,
                    codec=publication.codec,
                    committed_tokens=committed,
                    digest=publication.digest,
                ),
            ),
            publication.payload,
            key=publication.fragment,
        )

    def _send_all(self, receiver: Member) -> None:
        held = self._held.get(receiver.epoch, ())
        for publication in self._books.publications():
            if not held or held[publication.fragment] != publication.version:
                self._publish(receiver, publication)

    def _donate(self, action: Donate) -> None:
        request = pb.CheckpointRequest(request=action.request, versions=self.policy.versions)
        self._send(action.donor, pb.ToLearner(epoch=action.donor.epoch, checkpoint_request=request))

    def _drop(self, action: Drop) -> None:
        member = action.member
        self._say(
            Kind.MEMBER_LEFT,
            **_whose(member),
            members=len(self.policy.membership.members),
            reason=action.reason.value,
        )
        self._held.pop(member.epoch, None)
        session = self._sessions.pop(member.epoch, None)
        if session is not None:
            self._epochs.pop(session, None)
            farewell = pb.ToLearner(
                epoch=member.epoch, fenced=pb.Fenced(reason=action.reason.value)
            )
            self._hub.close(session, farewell)

    def _stop(self, action: Stop) -> None:
        self._farewell_s = self._now() + _FAREWELL_S
        self._reason = action.reason
        for member in self.policy.membership.members:
            self._send(member, self._last_word(member.epoch))

    def _last_word(self, epoch: int = 0) -> pb.ToLearner:
        stop = pb.Stop(reason=self._reason, versions=self.policy.versions)
        return pb.ToLearner(epoch=epoch, stop=stop)

    def _is_over(self) -> bool:
        return self._farewell_s is not None and (
            not self.policy.membership.members or self._now() >= self._farewell_s
        )

    # ------------------------------------------------------------ helpers

    def _send(self, member: Member, message: pb.ToLearner) -> None:
        session = self._sessions.get(member.epoch)
        if session is not None:
            self._hub.send(session, message)

    def _member(self, session: int) -> Member | None:
        epoch = self._epochs.get(session)
        return None if epoch is None else self.policy.membership.find(epoch)

    def _reject(
        self,
        member: Member | None,
        refusal: Refusal,
        *,
        offer: Offer | None = None,
        detail: str = "",
    ) -> None:
        self._rejected[refusal.value] = self._rejected.get(refusal.value, 0) + 1
        whose = _whose(member) if member else {"learner": "", "incarnation": 0, "epoch": 0}
        contents = _contents(offer, keys=("round", "fragment", "c_tokens")) if offer else {
            "round": 0, "fragment": -1, "c_tokens": 0,
        }  # fmt: skip
        self._say(Kind.PUSH_REJECTED, **whose, **contents, reason=refusal.value, detail=detail)

    def _say(self, kind: Kind, **data: Json) -> None:
        self._emit(kind, data)


_COUNTS = ("c_steps", "c_tokens", "tokens_from", "tokens_to")


def _whose(member: Member) -> dict[str, Json]:
    return {
        "learner": member.learner, "incarnation": member.incarnation, "epoch": member.epoch,
    }  # fmt: skip


def _contents(
    offer: Offer, keys: tuple[str, ...] = ("round", "fragment", "base_version", "step", *_COUNTS)
) -> dict[str, Json]:
    return {key: getattr(offer, key) for key in keys}


def _offer(push: pb.Push) -> Offer:
    return Offer(
        round=push.round, fragment=push.fragment, base_version=push.base_version, step=push.step,
        c_steps=push.c_steps, c_tokens=push.c_tokens,
        tokens_from=push.tokens_from, tokens_to=push.tokens_to,
    )  # fmt: skip


def _progress(message: pb.Progress) -> Progress:
    return Progress(
        step=message.step,
        tokens=message.tokens,
        c_steps=tuple(message.c_steps),
        c_tokens=tuple(message.c_tokens),
        versions=tuple(message.versions),
        loss=message.loss if message.step else None,
        step_s=message.step_s,
        data_position=message.data_position,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the syncer until training has ended."""
    options = _parser().parse_args(arguments)
    settings = Settings.from_json(options.settings_json)
    address_file = options.directory / "address"
    hub = Hub(_known_address(address_file, options.address), tls=tls_of(options))
    books = Books(
        settings,
        SyncerStore(options.directory / "state", durable=not options.not_durable),
        snapshots=options.snapshots,
    )
    syncer = Syncer(settings, hub, books, emit=say, now=now_s)
    syncer.policy.is_held = options.hold
    signal.signal(signal.SIGTERM, lambda *_: syncer.end("the syncer was asked to end"))
    address = hub.start()
    address_file.write_text(address)
    try:
        syncer.run(address)
    finally:
        hub.stop()
        books.close()
    return 0


def _known_address(file: Path, asked: str) -> str:
    """A restarted syncer listens where its learners will look for it, unless told otherwise."""
    file.parent.mkdir(parents=True, exist_ok=True)
    return file.read_text() if asked.endswith(":0") and file.exists() else asked


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaoslab.diloco.syncer",
        description="The syncer of a Decoupled DiLoCo training. Needs no accelerator.",
        epilog="example: python -m chaoslab.diloco.syncer --directory /tmp/syncer --settings-json "
        '\'{"learners": ["learner-0", "learner-1"], "stop_rounds": 200}\'',
    )
    parser.add_argument(
        "--address", default="127.0.0.1:0", help="where to listen; port 0 takes a free one"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        required=True,
        help="its state; training goes on from what is here",
    )
    parser.add_argument(
        "--settings-json", default="{}", help="the rules of the training, see diloco/settings.py"
    )
    parser.add_argument(
        "--snapshots", type=Path, help="where to put global parameters for evaluation"
    )
    parser.add_argument(
        "--not-durable", action="store_true", help="do not wait for the disk after each round"
    )
    parser.add_argument(
        "--hold", action="store_true", help="when a stop rule is met, go on until SIGTERM"
    )
    parser.add_argument("--name", default="syncer", help="for the fleet that starts it")
    parser.add_argument("--incarnation", type=int, default=1, help="for the fleet that starts it")
    add_tls_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
