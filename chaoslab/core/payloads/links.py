"""Payloads of what both ends of a link, and the harness, say of it."""

from collections.abc import Mapping

from chaoslab.core.events import Json, Kind
from chaoslab.core.payload import Payload, payload_of
from chaoslab.core.payloads.syncer import OfLearner


@payload_of(Kind.LINK_MEASURED)
class LinkMeasured(OfLearner):
    """Each end reports about once a second: a learner as long as it lives, the syncer for every
    learner that ever attached, those that are silent or gone included.
    """

    direction: str
    """Which way it came: up is the syncer's word, down the learner's."""
    window_s: float
    """Since the last report."""
    silent_s: float
    """Since anything arrived; without a stream it goes on growing."""
    rtt_s: float | None = None
    """Median of the pings answered in the window."""
    rtt_s_min: float | None = None
    rtt_s_max: float | None = None
    pings_sent: int
    """In the window, as are those answered."""
    pings_answered: int
    probe_rtt_s: float | None = None
    """Median of the pings answered in the window on a connection of their own, where no payload is
    ahead of them; the learner's alone."""
    probe_rtt_s_min: float | None = None
    probes_answered: int = 0
    bytes: int
    """Of everything that arrived by this link in the reporter's life, payloads and headers."""
    payload_bytes: int
    """Of the payloads completed in the window."""
    bytes_per_s: float | None = None
    """How fast payloads arrived while they did: `timed_bytes` over `timed_s`; in older records,
    which lack both, of what followed the first chunk of each payload."""
    timed_bytes: float | None = None
    """Of payloads, those that arrived in the window."""
    timed_s: float | None = None
    """For how long they were awaited."""
    queued: int
    """Messages and payloads that wait at the reporter to be sent."""
    queued_bytes: int


@payload_of(Kind.LINK_OPENED)
class LinkOpened(OfLearner):
    """The syncer answered; the learner's word."""

    attempts: int
    """Dials since the last stream ended, this one included."""
    after_s: float
    """Since then, or since the start."""


@payload_of(Kind.LINK_CLOSED)
class LinkClosed(OfLearner):
    """The learner's word."""

    was_open: bool
    """False: this dial failed."""
    open_s: float
    attempts: int
    reason: str


@payload_of(Kind.LINK_STARTED)
class LinkStarted(Payload):
    """A link is called like its learner."""

    link: str
    kind: str
    """What carries it; none: the learner dials the syncer itself."""
    address: str
    upstream: str


@payload_of(Kind.LINK_SHAPED)
class LinkShaped(Payload):
    """An effect holds from then on."""

    link: str
    injection: str
    direction: str
    """up, down or both."""
    effect: str
    settings: Mapping[str, Json]


@payload_of(Kind.LINK_CLEARED)
class LinkCleared(Payload):
    link: str
    injection: str


@payload_of(Kind.LINK_COUNTED)
class LinkCounted(Payload):
    """What carries the link has counted; null for what it cannot count."""

    link: str
    up_bytes: int | None = None
    down_bytes: int | None = None
    connections: int | None = None
    """Open now."""
    opened: int | None = None
    """Ever."""
    packets: int | None = None
    dropped: int | None = None


@payload_of(Kind.LINK_LOST)
class LinkLost(Payload):
    """What carried the links is broken, and nobody had asked for that."""

    kind: str
    links: tuple[str, ...]
    reason: str
