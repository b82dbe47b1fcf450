"""Payloads of events of the syncer: rounds, pushes, members, its own state."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from chaoslab.core.events import Kind
from chaoslab.core.payload import Payload, item, payload_of


class Leaving(StrEnum):
    """Why the syncer ended a membership."""

    CLOSED = "closed"
    NO_PROGRESS = "no_progress"
    SAID_GOODBYE = "said_goodbye"
    FENCED = "fenced"


@payload_of(Kind.SYNCER_READY)
class SyncerReady(Payload):
    """The syncer listens; with the state that it holds."""

    address: str
    rounds: int
    committed_tokens: float
    is_recovered: bool = False
    """Whether it continues from state on its disk."""
    last_epoch: int | None = None
    """No epoch up to this one is given again."""
    lives: Mapping[str, int] = field(default_factory=dict)
    """The newest incarnation known of each learner."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Version of each fragment."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digest of each fragment, in hex."""
    momentum_digests: Mapping[str, str] = field(default_factory=dict)


@payload_of(Kind.SYNCER_BLOCKED)
class SyncerBlocked(Payload):
    """The disk refuses; what is not on disk is not published, and is tried again."""

    waiting: int
    """Merges that are not on disk."""
    reason: str


@payload_of(Kind.SYNCER_FREED)
class SyncerFreed(Payload):
    """The disk accepts writes again."""

    waiting: int
    blocked_s: float


@item
class OfLearner(Payload):
    """An event of one incarnation of a learner."""

    learner: str
    incarnation: int


@item
class Membership(OfLearner):
    """An event of one membership of a learner."""

    epoch: int


@payload_of(Kind.MEMBER_JOINED)
class MemberJoined(Membership):
    source: str
    """Where its parameters come from: initial, donor, syncer or resumed."""
    donor: str | None = None
    members: int


@payload_of(Kind.MEMBER_REFUSED)
class MemberRefused(OfLearner):
    """It was not let in, and nothing changed; learner and incarnation as it called itself."""

    reason: str


@payload_of(Kind.STREAM_REFUSED)
class StreamRefused(Payload):
    """Streams that were turned away before they could change anything."""

    reason: str
    """An `identity.RefusalReason`: wrong_token, untrusted_certificate, other_name, …"""
    peer: str
    """Address of the peer."""
    claimed: str
    """The learner that it called itself, or empty."""
    known_as: str
    """The learner that its token or certificate is good for, or empty."""
    count: int
    """Streams refused for this reason since the last such line; the rest is the last one's."""


@payload_of(Kind.MEMBER_SUSPECTED)
class MemberSuspected(Membership):
    """The member is no longer waited for."""

    idle_s: float
    """Time without a step."""


@payload_of(Kind.MEMBER_RECOVERED)
class MemberRecovered(Membership):
    """It stepped again before it was dropped."""

    idle_s: float


@payload_of(Kind.MEMBER_LEFT)
class MemberLeft(Membership):
    members: int
    reason: Leaving
    """closed, no_progress, said_goodbye or fenced."""


@item
class Round(Payload):
    """An event of one round."""

    round: int
    fragment: int


@item
class Contributor(Membership):
    """A contribution that was merged."""

    step: int
    c_steps: int
    c_tokens: float
    weight: float
    tokens_from: float
    tokens_to: float


@payload_of(Kind.ROUND_MERGED)
class RoundMerged(Round):
    """A syncer that came back says its last merge once more, because nobody can know whether it was
    heard: with `is_restated`, without members, missed and the times.
    """

    version: int
    base_version: int
    contributors: tuple[Contributor, ...]
    """`learner`, `incarnation`, `epoch`, `step`, `c_steps`, `c_tokens`, `weight`, `tokens_from` and
    `tokens_to` of each."""
    committed_tokens: float
    """Of the run so far."""
    digest: str | None = None
    """Of what was published."""
    momentum_digest: str | None = None
    members: int | None = None
    missed: tuple[str, ...] = ()
    """Names of the learners."""
    quorum_s: float | None = None
    grace_s: float | None = None
    sync_s: float | None = None
    is_restated: bool = False


@payload_of(Kind.ROUND_STORED)
class RoundStored(Round):
    version: int
    took_s: float
    """Until the merge was on the syncer's disk."""


@payload_of(Kind.ROUND_ABANDONED)
class RoundAbandoned(Round):
    reason: str


@item
class Pushed(Membership):
    """The header of a push."""

    round: int
    fragment: int
    base_version: int
    step: int
    c_steps: int
    c_tokens: float
    tokens_from: float
    """Where in the learner's own raw tokens the contribution lies, up to `tokens_to`."""
    tokens_to: float


@payload_of(Kind.PUSH_ACCEPTED)
class PushAccepted(Pushed):
    norm: float | None = None
    """Of its outer gradient, L2 over the fragment."""


@payload_of(Kind.PUSH_REJECTED)
class PushRejected(Membership):
    """`learner` is whoever was let in on the stream (empty, with incarnation 0: nobody), `epoch`
    that under which it was pushed.
    """

    round: int
    fragment: int
    reason: str
    """Reason of the refusal: a `diloco.syncer.decisions.Refusal`."""
    c_tokens: float
    detail: str = ""


@payload_of(Kind.PUSH_BOUNDED)
class PushBounded(Membership):
    """A push that was scaled down."""

    round: int
    fragment: int
    norm: float
    usual: float
    """The norm that it was shortened to: that of other pushes of so many steps."""
    limit: float
    """Times the usual that a push may have."""


@payload_of(Kind.SYNCER_HELD)
class SyncerHeld(Payload):
    """A stop rule is met, and training goes on until the syncer is asked to end."""

    reason: str


@payload_of(Kind.SYNCER_STOPPED)
class SyncerStopped(Payload):
    """Training has ended; said before any learner is told, so nobody may end before it."""

    reason: str


@payload_of(Kind.SYNCER_FINAL)
class SyncerFinal(Payload):
    """The final account; all mappings are by fragment unless they say otherwise."""

    rounds: int
    versions: Mapping[str, int]
    digests: Mapping[str, str]
    momentum_digests: Mapping[str, str] = field(default_factory=dict)
    stored_digests: Mapping[str, str] = field(default_factory=dict)
    """Read back from disk."""
    stored_momentum_digests: Mapping[str, str] = field(default_factory=dict)
    committed_tokens: float
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Number of refused pushes, by reason."""
    turned_away: Mapping[str, int] = field(default_factory=dict)
    """Number of refused streams, by reason."""
    reason: str
    was_asked: bool = False
    """It ended before a stop rule was met."""
