"""Types of the policy: members, inputs and actions, without decisions.

`policy` says what each means in a round. Standard library only.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypedDict

from chaoslab.core.protocol import LeaveReason
from chaoslab.diloco.settings import Source


@dataclass(slots=True, kw_only=True)
class Member:
    """One membership of one learner, as the syncer knows it."""

    learner: str
    incarnation: int
    epoch: int
    joined_s: float
    last_step_s: float
    """Time up to which no step was due: at which its step last advanced, or it said that it waits;
    at first, when it joined."""
    stepped_s: float
    """The same, without waits for other learners of a communicator."""
    has_stepped: bool = False
    is_suspected: bool = False
    is_lagging: bool = False
    """Missed the end of a round, and its late answer has not arrived."""
    has_reported: bool = False
    step: int = 0
    tokens: int = 0
    loss: float | None = None
    step_s: float = 0.0
    """Step time that it reported, limited to what the syncer observed; 0 before its first step."""
    own_step_s: float = 0.0
    """Step time that it reported, limited to its mean since it joined. Unlike `step_s` it does not
    fall when reports that waited somewhere arrive together."""
    reported_s: float = 0.0
    """Time of its first report of a step."""
    reported_step: int = 0
    """Step of its first report."""
    paces_s: tuple[float, ...] = ()
    """Seconds per step between its last reports of progress, by the syncer's clock."""
    versions: tuple[int, ...] = ()
    c_steps: tuple[int, ...] = ()
    c_tokens: tuple[int, ...] = ()
    waits: bool = False
    """Whether it waits for other learners, by its latest report."""
    communicator: int = 0
    """Number of the latest communicator that it was in, or is told to form; 0: of none."""
    meeting: str = ""
    """host:port at which it would let the members of a communicator meet; empty while it is in one,
    or has not said since it was told to form one."""
    giving: int = 0
    """Number of checkpoints that it was asked for and has not sent yet."""
    pushed_to: dict[int, int] = field(default_factory=dict)
    """By fragment: end of its last accepted contribution, in raw tokens of this incarnation. Shared
    by all memberships of one incarnation, so that joining again cannot replay old work."""

    @property
    def is_present(self) -> bool:
        """Whether a round waits for it: it steps, and its answers arrive in time."""
        return self.has_stepped and not self.is_suspected and not self.is_lagging

    def can_contribute(self, fragment: int, version: int) -> bool:
        """Whether it has work of its own on top of `version` of the fragment."""
        return (
            self.is_present
            and len(self.versions) > fragment
            and self.versions[fragment] == version
            and self.c_steps[fragment] > 0
        )


# ---------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A learner's request to join."""

    learner: str
    incarnation: int
    process: int = 0
    """Random number of the process; tells apart two processes that claim one incarnation."""
    versions: tuple[int, ...] = ()
    """Versions that it holds, by fragment; () for a new process."""


class Progress(NamedTuple):
    """A learner's counters after a step; per fragment since it last adopted that fragment."""

    step: int
    tokens: int
    c_steps: tuple[int, ...]
    c_tokens: tuple[int, ...]
    versions: tuple[int, ...]
    loss: float | None
    step_s: float
    data_position: int
    waits: bool = False
    """Whether it waits for other learners of a communicator, or for one to be formed."""
    communicator: int = 0
    meeting: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Header of a push; [tokens_from, tokens_to) are raw tokens of the learner's incarnation."""

    round: int
    fragment: int
    base_version: int
    step: int
    c_steps: int
    c_tokens: int
    tokens_from: int
    tokens_to: int


# ---------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """A learner's accepted part of a round: counters, weight and range of raw tokens."""

    learner: str
    incarnation: int
    epoch: int
    step: int
    c_steps: int
    c_tokens: int
    weight: float
    """c_tokens^2 / c_steps (arXiv 2604.21428), in an arbitrary unit; 0 without steps."""
    tokens_from: int
    tokens_to: int
    cosine: float | None = None
    """Cosine similarity of its outer gradient with the others' of its round, once it is merged;
    None where either has no direction."""

    @classmethod
    def of(cls, member: Member, offer: Offer) -> Self:
        """Contribution of a member by an accepted push."""
        return cls(
            learner=member.learner,
            incarnation=member.incarnation,
            epoch=member.epoch,
            step=offer.step,
            c_steps=offer.c_steps,
            c_tokens=offer.c_tokens,
            weight=offer.c_tokens**2 / offer.c_steps if offer.c_steps else 0.0,
            tokens_from=offer.tokens_from,
            tokens_to=offer.tokens_to,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Ask these memberships for their work on a fragment."""

    round: int
    fragment: int
    base_version: int
    epochs: tuple[int, ...]


class Place(TypedDict):
    """Where a merge is, in the words of events."""

    round: int
    fragment: int
    version: int
    """The version that it makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Merge these contributions into version `base_version + 1` and publish it."""

    round: int
    fragment: int
    base_version: int
    contributions: tuple[Contribution, ...]
    missed: tuple[str, ...]
    """Learners that were pulled from and did not answer in time."""
    quorum_s: float
    grace_s: float
    pulled_s: float
    """Time at which the pull was sent."""
    fragment_tokens: int
    """Sum of the contributors' c_tokens over all merges up to this one."""

    @property
    def place(self) -> Place:
        """Round, fragment and the version that it makes, as events name them."""
        version = self.base_version + 1
        return {"round": self.round, "fragment": self.fragment, "version": version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandon:
    """Abandon a round that cannot reach its quorum; its work goes into a later round."""

    round: int
    fragment: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspicionChange:
    """Report that a member is suspected and no longer waited for, or that it has stepped again."""

    member: Member
    is_over: bool
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """End a membership and tell the learner if it has a stream."""

    member: Member
    reason: LeaveReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Say that the learner is a member, and where its parameters come from.

    Said again, of the same membership, when they are to come from somewhere else.
    """

    member: Member
    source: Source
    donor: Member | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Donate:
    """Ask the donor to send the receiver a checkpoint at the current versions or later."""

    request: int
    donor: Member
    receiver: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAll:
    """Send the receiver every fragment from the syncer, except the versions that it holds."""

    receiver: Member
    known: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End training; no round is open. Unless `is_over`, report once that a stop rule is met."""

    reason: str
    is_over: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Let these members form a communicator; the state is taken from the first one."""

    number: int
    members: tuple[Member, ...]
    address: str
    """host:port of the first one, at which they meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dissolve:
    """End a communicator: tell those of its members that are left."""

    number: int
    members: tuple[Member, ...]
    reason: str


Action = (
    Pull | Merge | Abandon | SuspicionChange | Drop | Welcome | Donate | SendAll | Stop
    | Form | Dissolve
)  # fmt: skip
