"""Closed lists of the protocol that nodes and harness share: points, reasons, corruptions.

    nodes ── report them ──► core.payloads ──► harness: plans, faults and checks name them

Standard library only, so the syncer's policy may use them, too.
"""

from enum import StrEnum


class Phase(StrEnum):
    """Points that a node can announce and wait at, in the order of a round; the syncer's first."""

    QUORUM = "quorum"
    """Enough learners answered: the round is closed and not merged yet."""
    BEFORE_WRITE = "before_write"
    """Merged in memory, nothing written."""
    WRITTEN = "written"
    """On disk with its line of the commit log; not published."""
    PUBLISH = "publish"
    """Sent to the first learner, not to the others."""
    PUSH = "push"
    """A learner has sent part of a push."""
    DONATE = "donate"
    """A donor has sent part of its checkpoint."""
    ADOPT = "adopt"
    """A learner has adopted a version of a fragment and not reported it yet."""


SYNCER_PHASES = frozenset({Phase.QUORUM, Phase.BEFORE_WRITE, Phase.WRITTEN, Phase.PUBLISH})
"""Phases of the syncer; the others are the learners'."""


class LeaveReason(StrEnum):
    """Why the syncer ended a membership."""

    CLOSED = "closed"
    NO_PROGRESS = "no_progress"
    SAID_GOODBYE = "said_goodbye"
    FENCED = "fenced"


class PushRefusal(StrEnum):
    """Why the syncer refused a push."""

    HELLO = "hello"
    """The learner was not admitted; `member.refused` has the reason."""
    FENCED = "fenced"
    LATE = "late"
    UNKNOWN_ROUND = "unknown_round"
    NOT_ASKED = "not_asked"
    STALE = "stale"
    REPLAY = "replay"
    WRONG_COUNTS = "wrong_counts"
    MALFORMED = "malformed"
    NOT_FINITE = "not_finite"


class Corruption(StrEnum):
    """What a learner's test hook does to a push (`diloco.learner.tampering`)."""

    NAN = "nan"
    SCALED = "scaled"
    STALE = "stale"
    DUPLICATE = "duplicate"
