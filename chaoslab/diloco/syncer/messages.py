"""The syncer's words: learners' messages for the policy, its decisions as messages and as lines.

    learners ══ messages ══► hello, offer, progress ─────► Policy
             ◄═ messages ═══ welcome, pull, fragment, … ◄── its decisions
    standard output ◄─────── whose, contents, merged ◄──┘

Pure functions of what they are given. When each is said is decided elsewhere; the learners' side is
`learner_words`, and `wire.proto` says what every field means.
"""

from collections.abc import Sequence

from chaoslab.core.events import Json
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import (
    Contribution,
    Donate,
    Merge,
    Offer,
    Progress,
    Pull,
    Welcome,
)
from chaoslab.diloco.syncer.membership import Hello, Member
from chaoslab.diloco.syncer.norms import Excess
from chaoslab.diloco.syncer.syncer_state import Publication
from chaoslab.diloco.wire import wire_pb2 as pb

COUNTS = ("c_steps", "c_tokens", "tokens_from", "tokens_to")
"""What an offer says of the work behind it."""

# ---------------------------------------------------------------- what is heard


def hello(message: pb.Hello) -> Hello:
    """Who wants to take part."""
    return Hello(
        learner=message.learner,
        incarnation=message.incarnation,
        process=message.process,
        versions=tuple(message.versions),
    )


def offer(push: pb.Push) -> Offer:
    """The header of a push."""
    return Offer(
        round=push.round, fragment=push.fragment, base_version=push.base_version, step=push.step,
        c_steps=push.c_steps, c_tokens=push.c_tokens,
        tokens_from=push.tokens_from, tokens_to=push.tokens_to,
    )  # fmt: skip


def progress(message: pb.Progress) -> Progress:
    """A learner's counters; it has no loss before its first step."""
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


# ---------------------------------------------------------------- what is said


def welcome(
    action: Welcome,
    settings: Settings,
    *,
    versions: Sequence[int],
    data_position: int,
    step: int,
) -> pb.ToLearner:
    """Let a learner in: the rules, the current versions, and where to go on."""
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
    """Nobody is let in on that stream, and why."""
    return pb.ToLearner(refused=pb.Refused(reason=reason))


def pull(action: Pull, epoch: int) -> pb.ToLearner:
    """Ask a member for its work on a fragment."""
    asked = pb.Pull(round=action.round, fragment=action.fragment, base_version=action.base_version)
    return pb.ToLearner(epoch=epoch, pull=asked)


def fragment(publication: Publication, epoch: int, committed_tokens: int) -> pb.ToLearner:
    """The header of a version, with how much of the member's own work is in it."""
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
    """Ask a donor for a checkpoint that has seen these versions."""
    request = pb.CheckpointRequest(request=action.request, versions=versions)
    return pb.ToLearner(epoch=action.donor.epoch, checkpoint_request=request)


def fenced(member: Member, reason: str) -> pb.ToLearner:
    """The membership has ended."""
    return pb.ToLearner(epoch=member.epoch, fenced=pb.Fenced(reason=reason))


def stop(epoch: int, reason: str, versions: Sequence[int]) -> pb.ToLearner:
    """Training has ended with these versions."""
    return pb.ToLearner(epoch=epoch, stop=pb.Stop(reason=reason, versions=versions))


# ---------------------------------------------------------------- what is told


def whose(member: Member) -> dict[str, Json]:
    """Which life and membership of which learner."""
    return {
        "learner": member.learner, "incarnation": member.incarnation, "epoch": member.epoch,
    }  # fmt: skip


def contents(
    offer: Offer, keys: tuple[str, ...] = ("round", "fragment", "base_version", "step", *COUNTS)
) -> dict[str, Json]:
    """What an offer says of itself, or these parts of it."""
    return {key: getattr(offer, key) for key in keys}


def bounded(action: Merge, contribution: Contribution, excess: Excess) -> dict[str, Json]:
    """That one of the contributions was shortened, and by how much."""
    return {
        "learner": contribution.learner,
        "incarnation": contribution.incarnation,
        "epoch": contribution.epoch,
        "round": action.round,
        "fragment": action.fragment,
        "norm": excess.norm,
        "usual": excess.usual,
        "limit": excess.limit,
    }


def merged(
    action: Merge,
    publication: Publication,
    *,
    fragments: int,
    momentum_digest: str,
    members: int,
) -> dict[str, Json]:
    """What a merge of one of P = `fragments` says of itself."""
    return {
        "round": action.round,
        "fragment": action.fragment,
        "version": publication.version,
        "base_version": action.base_version,
        "contributors": [
            {
                "learner": c.learner,
                "incarnation": c.incarnation,
                "epoch": c.epoch,
                "weight": c.weight,
                **contents(c.offer, keys=("step", *COUNTS)),
            }
            for c in action.contributions
        ],
        "committed_tokens": action.fragment_tokens / fragments,
        "digest": publication.digest,
        "momentum_digest": momentum_digest,
        "members": members,
        "missed": list(action.missed),
        "quorum_s": action.quorum_s,
        "grace_s": action.grace_s,
    }
