"""Payloads of events of the syncer: rounds, pushes, members, its own state."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypedDict, TypeVar

from chaoslab.core.events import Kind, Payload
from chaoslab.core.protocol import LeaveReason, PushRefusal

_T = TypeVar("_T")


class SyncerReady(Payload, kind=Kind.SYNCER_READY):
    """The syncer listens; with the state that it holds."""

    address: str
    rounds: int
    committed_tokens: float
    is_recovered: bool = False
    """Whether it continues from state on its disk."""
    last_epoch: int | None = None
    """No epoch up to this one is given again."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Version of each fragment."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digest of each fragment, in hex."""
    momentum_digests: Mapping[str, str] = field(default_factory=dict)


class SyncerBlocked(Payload, kind=Kind.SYNCER_BLOCKED):
    """The disk refuses; what is not on disk is not published, and is tried again.

    A snapshot is tried again after each merge, and in the end.
    """

    waiting: int
    """Merges that are not on disk."""
    reason: str
    is_snapshot: bool = False
    """Whether it is a snapshot for evaluation that is refused: merges and publications go on."""


class SyncerFreed(Payload, kind=Kind.SYNCER_FREED):
    """The disk accepts writes again."""

    waiting: int
    blocked_s: float
    is_snapshot: bool = False
    """Whether it is a snapshot that was accepted."""


class Round(Payload):
    """An event of one round."""

    round: int
    fragment: int


class LifeFields(TypedDict):
    """Fields of `OfLearner`, as those say them who write events of one incarnation."""

    learner: str
    incarnation: int


class MembershipFields(LifeFields):
    """Fields of `Membership`."""

    epoch: int


class OfLearner(Payload):
    """An event of one incarnation of a learner."""

    learner: str
    incarnation: int

    @property
    def life(self) -> tuple[str, int]:
        """Identifies a process of a learner among all others."""
        return self.learner, self.incarnation


class Membership(OfLearner):
    """An event of one membership of a learner."""

    epoch: int


class MemberJoined(Membership, kind=Kind.MEMBER_JOINED):
    source: str
    """Source of its parameters: initial, donor, syncer or resumed."""
    donor: str | None = None
    members: int


class MemberRefused(OfLearner, kind=Kind.MEMBER_REFUSED):
    """A learner was not admitted; nothing changed. Learner and incarnation as it stated them."""

    reason: str


class StreamRefused(Payload, kind=Kind.STREAM_REFUSED):
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


class MemberSuspected(Membership, kind=Kind.MEMBER_SUSPECTED):
    """The member is no longer waited for."""

    idle_s: float
    """Time without a step."""


class MemberRecovered(Membership, kind=Kind.MEMBER_RECOVERED):
    """It made a step again before it was dropped."""

    idle_s: float


class MemberLeft(Membership, kind=Kind.MEMBER_LEFT):
    members: int
    reason: LeaveReason


class Contributor(Membership):
    """A contribution that was merged."""

    step: int
    c_steps: int
    c_tokens: float
    weight: float
    tokens_from: float
    tokens_to: float
    cosine: float | None = None
    """Cosine similarity of its outer gradient with the sum of the others' of the round, as they are
    merged; null where either is zero, and where the values of updates are not known."""


class RoundMerged(Round, kind=Kind.ROUND_MERGED):
    """A syncer that came back says its last merge once more, because it may not have been
    heard: with `is_restated`, without members, missed and the times.
    """

    version: int
    base_version: int
    contributors: tuple[Contributor, ...]
    committed_tokens: float
    """Committed tokens of the run."""
    digest: str | None = None
    """Digest of the published values."""
    momentum_digest: str | None = None
    members: int | None = None
    missed: tuple[str, ...] = ()
    """Names of the learners."""
    quorum_s: float | None = None
    grace_s: float | None = None
    sync_s: float | None = None
    is_restated: bool = False


class RoundStored(Round, kind=Kind.ROUND_STORED):
    version: int
    took_s: float
    """Time until the merge was on the syncer's disk."""


class RoundAbandoned(Round, kind=Kind.ROUND_ABANDONED):
    reason: str


class CommunicatorFormed(Payload, kind=Kind.COMMUNICATOR_FORMED):
    """These learners average their gradients from now on (`data_parallel`)."""

    communicator: int
    """Number of the communicator."""
    learners: tuple[str, ...]
    """Learners in the order of their ranks; the state is that of the first."""


class CommunicatorEnded(Payload, kind=Kind.COMMUNICATOR_ENDED):
    communicator: int
    learners: tuple[str, ...]
    """Its members that are left."""
    reason: str


class Pushed(Round, Membership):
    """The header of a push."""

    base_version: int
    step: int
    c_steps: int
    c_tokens: float
    tokens_from: float
    """Beginning of the contribution in the learner's own raw tokens; it ends at `tokens_to`."""
    tokens_to: float


class PushAccepted(Pushed, kind=Kind.PUSH_ACCEPTED):
    norm: float | None = None
    """L2 norm of its outer gradient over the fragment."""
    payload_bytes: int | None = None
    """Size of its payload; None where a system of others does not tell it."""


class PushRejected(Round, Membership, kind=Kind.PUSH_REJECTED):
    """`learner` is the one that was let in on the stream (empty, with incarnation 0: none), `epoch`
    that under which it was pushed.
    """

    reason: PushRefusal
    """Why it was refused."""
    c_tokens: float
    detail: str = ""


class PushBounded(Round, Membership, kind=Kind.PUSH_BOUNDED):
    """A push that was scaled down."""

    norm: float
    usual: float
    """The norm that it was shortened to: that of other pushes of this many steps."""
    limit: float
    """Times the usual that a push may have."""


class SyncerStopRuleMet(Payload, kind=Kind.SYNCER_STOP_RULE_MET):
    """A stop rule is met, and training goes on until the syncer is asked to end."""

    reason: str


class SyncerStopped(Payload, kind=Kind.SYNCER_STOPPED):
    """Training has ended; said before any learner is told, so no learner may end before it."""

    reason: str


class SyncerFinal(Payload, kind=Kind.SYNCER_FINAL):
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
    """Whether it ended before a stop rule was met."""


def by_fragment(values: Sequence[_T]) -> dict[str, _T]:
    """One value for each fragment, as events contain it."""
    return {str(index): value for index, value in enumerate(values)}
