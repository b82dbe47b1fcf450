"""Conversion at the syncer: learners' messages to policy inputs, decisions to messages and events.

    learners ══ messages ══► hello, offer, progress ─► Policy
             ◄═ messages ═══ welcome, fragment ◄────── its decisions
    standard output ◄─────── identity ◄────────────────┘

Pure functions. The caller decides when a message is sent; the learners' side is `learner.messages`,
and `wire.proto` describes every field.
"""

from collections.abc import Iterator, Sequence

from chaoslab.core.payloads import MembershipFields
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import (
    Contribution,
    Dissolve,
    Form,
    Hello,
    Member,
    Offer,
    Progress,
    Welcome,
)
from chaoslab.diloco.syncer.training_state import Publication
from chaoslab.diloco.wire import wire_pb2 as pb

# ---------------------------------------------------------------- from learners


def hello(message: pb.Hello) -> Hello:
    """Hello as the policy takes it."""
    return Hello(
        learner=message.learner,
        incarnation=message.incarnation,
        process=message.process,
        versions=tuple(message.versions),
    )


def offer(push: pb.Push) -> Offer:
    """Header of a push as the policy takes it."""
    return Offer(
        round=push.round, fragment=push.fragment, base_version=push.base_version, step=push.step,
        c_steps=push.c_steps, c_tokens=push.c_tokens,
        tokens_from=push.tokens_from, tokens_to=push.tokens_to,
    )  # fmt: skip


def progress(message: pb.Progress) -> Progress:
    """A learner's counters; the loss is None before its first step."""
    return Progress(
        step=message.step,
        tokens=message.tokens,
        c_steps=tuple(message.c_steps),
        c_tokens=tuple(message.c_tokens),
        versions=tuple(message.versions),
        loss=message.loss if message.step else None,
        step_s=message.step_s,
        data_position=message.data_position,
        waits=message.waits,
        communicator=message.communicator,
        meeting=message.meeting,
    )


# ---------------------------------------------------------------- to learners


def welcome(
    action: Welcome,
    settings: Settings,
    *,
    versions: Sequence[int],
    data_position: int,
    step: int,
) -> pb.ToLearner:
    """Welcome: settings, current versions, and where to continue."""
    return pb.ToLearner(
        epoch=action.member.epoch,
        welcome=pb.Welcome(
            versions=versions,
            source=action.source,
            donor=action.donor.learner if action.donor else "",
            settings_json=settings.to_json(),
            data_position=data_position,
            step=step,
        ),
    )


def fragment(publication: Publication, epoch: int, committed_tokens: int) -> pb.ToLearner:
    """Header of a published version; `committed_tokens`: the member's own tokens in it."""
    return pb.ToLearner(
        epoch=epoch,
        fragment=pb.Fragment(
            fragment=publication.fragment,
            version=publication.version,
            round=publication.round,
            codec=publication.codec,
            committed_tokens=committed_tokens,
            digest=publication.digest,
        ),
    )


def communicator(action: Form | Dissolve) -> Iterator[pb.ToLearner]:
    """Orders to its members, each for its own epoch."""
    for rank, member in enumerate(action.members):
        order = pb.Communicator(number=action.number)
        if isinstance(action, Form):
            order.rank, order.size, order.address = rank, len(action.members), action.address
        yield pb.ToLearner(epoch=member.epoch, communicator=order)


def identity(member: Member | Contribution) -> MembershipFields:
    """Learner, incarnation and epoch of a member or contribution, for events."""
    return {"learner": member.learner, "incarnation": member.incarnation, "epoch": member.epoch}
