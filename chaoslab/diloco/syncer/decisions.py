"""Types of the policy's inputs and actions: frozen data, no behaviour.

`policy` says what each means in a round. Standard library only.
"""

from dataclasses import dataclass
from enum import StrEnum

from chaoslab.diloco.settings import Source
from chaoslab.diloco.syncer.membership import LeaveReason, Member


class Refusal(StrEnum):
    """Reason for refusing a push or a hello."""

    HELLO = "hello"
    """A learner was not admitted; `member.refused` has the reason."""
    FENCED = "fenced"
    LATE = "late"
    UNKNOWN_ROUND = "unknown_round"
    NOT_ASKED = "not_asked"
    STALE = "stale"
    REPLAY = "replay"
    WRONG_COUNTS = "wrong_counts"
    MALFORMED = "malformed"
    NOT_FINITE = "not_finite"


# ---------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A learner's counters after a step; per fragment since it last adopted that fragment."""

    step: int
    tokens: int
    c_steps: tuple[int, ...]
    c_tokens: tuple[int, ...]
    versions: tuple[int, ...]
    loss: float | None
    step_s: float
    data_position: int


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
    """A learner's accepted part of a round."""

    learner: str
    incarnation: int
    epoch: int
    offer: Offer

    @property
    def weight(self) -> float:
        """c_tokens^2 / c_steps (arXiv 2604.21428), in an arbitrary unit; 0 without steps."""
        return self.offer.c_tokens**2 / self.offer.c_steps if self.offer.c_steps else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Ask these memberships for their work on a fragment."""

    round: int
    fragment: int
    base_version: int
    epochs: tuple[int, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandon:
    """Abandon a round that cannot reach its quorum; its work goes into a later round."""

    round: int
    fragment: int
    reason: str
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Suspect a member that has not stepped for a while; it is no longer waited for."""

    member: Member
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """End the suspicion of a member that stepped again."""

    member: Member
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """End a membership and tell the learner if it has a stream."""

    member: Member
    reason: LeaveReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Admit the learner and say where its parameters come from."""

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
    """Send the receiver every fragment from the syncer."""

    receiver: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End training; no round is open."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Report once that a stop rule is met and training continues because it is held."""

    reason: str


Action = (
    Pull | Merge | Abandon | Suspect | Recover | Drop | Welcome | Donate | SendAll | Hold | Stop
)
