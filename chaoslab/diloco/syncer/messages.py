"""Conversion at the syncer: learners' messages to policy inputs, decisions to messages and events.

    learners ══ messages ══► hello, offer, progress ─────► Policy
             ◄═ messages ═══ welcome, pull, fragment, … ◄── its decisions
    standard output ◄─────── identity ◄─────────────────────────┘

Pure functions. The caller decides when a message is sent; the learners' side is `learner.messages`,
and `wire.proto` describes every field.
"""

from collections.abc import Sequence

from chaoslab.core.events import Json
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import (
    Contribution,
    Donate,
    Hello,
    Member,
    Offer,
    Progress,
    Pull,
    Welcome,
)
from chaoslab.diloco.syncer.syncer_state import Publication
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


def refused(reason: str) -> pb.ToLearner:
    """Refusal of a stream, with its reason."""
    return pb.ToLearner(refused=pb.Refused(reason=reason))


def pull(action: Pull, epoch: int) -> pb.ToLearner:
    """Request to a member for its work on a fragment."""
    asked = pb.Pull(round=action.round, fragment=action.fragment, base_version=action.base_version)
    return pb.ToLearner(epoch=epoch, pull=asked)


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


def checkpoint_request(action: Donate, versions: Sequence[int]) -> pb.ToLearner:
    """Request to a donor for a checkpoint at these versions or later."""
    request = pb.CheckpointRequest(request=action.request, versions=versions)
    return pb.ToLearner(epoch=action.donor.epoch, checkpoint_request=request)


def fenced(member: Member, reason: str) -> pb.ToLearner:
    """Notice that the membership has ended."""
    return pb.ToLearner(epoch=member.epoch, fenced=pb.Fenced(reason=reason))


def stop(epoch: int, reason: str, versions: Sequence[int]) -> pb.ToLearner:
    """Notice that training has ended with these versions."""
    return pb.ToLearner(epoch=epoch, stop=pb.Stop(reason=reason, versions=versions))


def identity(who: Member | Contribution) -> dict[str, Json]:
    """Learner, incarnation and epoch of a member or contribution, for events."""
    return {"learner": who.learner, "incarnation": who.incarnation, "epoch": who.epoch}
