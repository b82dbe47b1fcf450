"""The words between the policy and whoever drives it: what it is told, and what it decides.

Frozen data only; `policy.py` says what each means in a round. Standard library only.
"""

from dataclasses import dataclass
from enum import StrEnum

from chaoslab.diloco.settings import Source
from chaoslab.diloco.syncer.membership import Leaving, Member


class Refusal(StrEnum):
    """Why a push, or a hello, was not taken."""

    HELLO = "hello"
    """A learner was not let in; `member.refused` says why."""
    FENCED = "fenced"
    LATE = "late"
    UNKNOWN_ROUND = "unknown_round"
    NOT_ASKED = "not_asked"
    STALE = "stale"
    REPLAY = "replay"
    WRONG_COUNTS = "wrong_counts"
    MALFORMED = "malformed"
    NOT_FINITE = "not_finite"


# ---------------------------------------------------------------- what goes in


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
    """The header of a push; [tokens_from, tokens_to) lies in the raw tokens of this life."""

    round: int
    fragment: int
    base_version: int
    step: int
    c_steps: int
    c_tokens: int
    tokens_from: int
    tokens_to: int


# ---------------------------------------------------------------- what comes out


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """One learner's accepted part of a round; weight = c_tokens^2 / c_steps."""

    learner: str
    incarnation: int
    epoch: int
    offer: Offer

    @property
    def weight(self) -> float:
        """Quantity x quality (arXiv 2604.21428), in an arbitrary unit; 0 without steps."""
        return self.offer.c_tokens**2 / self.offer.c_steps if self.offer.c_steps else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Ask these memberships for a fragment."""

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
    """Those pulled from who did not answer in time."""
    quorum_s: float
    grace_s: float
    pulled_s: float
    """When the pull went out."""
    fragment_tokens: int
    """Sum of the contributors' c_tokens over all merges up to this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandon:
    """The round cannot reach its quorum any more; nobody's work is lost, a later round takes it."""

    round: int
    fragment: int
    reason: str
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """The member has not stepped for a while; nobody waits for it."""

    member: Member
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """A suspected member stepped again."""

    member: Member
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """The membership has ended; tell it so if it can still hear."""

    member: Member
    reason: Leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Let the learner in and say where its parameters come from."""

    member: Member
    source: Source
    donor: Member | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Donate:
    """Ask the donor for a checkpoint that has seen the current versions, for the receiver."""

    request: int
    donor: Member
    receiver: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAll:
    """Give the receiver every fragment from the syncer itself."""

    receiver: Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Training has reached its end; no round is open any more."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The stop rule is met, and training goes on because somebody holds it. Said once."""

    reason: str


Action = (
    Pull | Merge | Abandon | Suspect | Recover | Drop | Welcome | Donate | SendAll | Hold | Stop
)
