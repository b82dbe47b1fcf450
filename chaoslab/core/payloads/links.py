"""Payloads of events of links, from both ends and from the harness."""

from collections.abc import Mapping
from statistics import median
from typing import Self

from chaoslab.core.events import Json, Kind, Payload
from chaoslab.core.link_meter import Queued, Reading
from chaoslab.core.payloads.syncer import LifeFields, OfLearner


class LinkMeasured(OfLearner, kind=Kind.LINK_MEASURED):
    """Each end reports about once a second: a learner as long as it lives, the syncer for every
    learner that ever attached, those that are silent or gone included.
    """

    direction: str
    """up is reported by the syncer, down by the learner; of a script, by the end at the service and
    by that at the worker."""
    window_s: float
    """Length of the window, since the last report."""
    silent_s: float
    """Time since anything arrived; it grows while there is no stream."""
    rtt_s: float | None = None
    """Median of the pings answered in the window."""
    rtt_s_min: float | None = None
    pings_sent: int
    """Pings sent in the window."""
    pings_answered: int
    probe_rtt_s: float | None = None
    """Median of the pings answered in the window on a connection of their own, where no payload is
    ahead of them; the learner's alone."""
    probe_rtt_s_min: float | None = None
    probes_answered: int = 0
    bytes: int
    """Bytes that arrived by this link in the reporter's life, payloads and headers."""
    payload_bytes: int
    """Bytes of the payloads completed in the window."""
    bytes_per_s: float | None = None
    """Rate of payloads while they arrived: `timed_bytes` over `timed_s`."""
    timed_bytes: float
    """Bytes of payloads that arrived in the window."""
    timed_s: float
    """Time in which `timed_bytes` arrived."""
    queued: int
    """Messages and payloads that wait at the reporter to be sent."""
    queued_bytes: int
    unused_s: float | None = None
    """Of a script: time since this end last got bytes or a connection to carry; null if it never
    did. Of a learner null: its stream is always used."""
    connections: int | None = None
    """Open connections of a script, by the end at the worker."""

    @classmethod
    def of(
        cls,
        reading: Reading,
        whose: LifeFields,
        *,
        direction: str,
        queued: Queued,
        unused_s: float | None = None,
        connections: int | None = None,
    ) -> Self:
        """Report of one window at one end."""
        rtts_s, probe_rtts_s, rate = reading.rtts_s, reading.probe_rtts_s, reading.bytes_per_s
        return cls(
            **whose,
            direction=direction,
            window_s=round(reading.window_s, 6),
            silent_s=round(reading.silent_s, 6),
            rtt_s=round(median(rtts_s), 6) if rtts_s else None,
            rtt_s_min=round(min(rtts_s), 6) if rtts_s else None,
            pings_sent=reading.pings_sent,
            pings_answered=len(rtts_s),
            probe_rtt_s=round(median(probe_rtts_s), 6) if probe_rtts_s else None,
            probe_rtt_s_min=round(min(probe_rtts_s), 6) if probe_rtts_s else None,
            probes_answered=len(probe_rtts_s),
            bytes=reading.bytes,
            payload_bytes=reading.payload_bytes,
            bytes_per_s=None if rate is None else round(rate, 1),
            timed_bytes=reading.timed_bytes,
            timed_s=round(reading.timed_s, 6),
            **queued,
            unused_s=unused_s,
            connections=connections,
        )


class LinkOpened(OfLearner, kind=Kind.LINK_OPENED):
    """The syncer answered on a new stream; reported by the learner. Of a script's worker it is the
    connection for round trips that its link has from its first use on.
    """

    attempts: int
    """Attempts since the last stream ended, this one included."""
    after_s: float
    """Time since the last stream ended, or since the start."""


class LinkClosed(OfLearner, kind=Kind.LINK_CLOSED):
    """A stream or an attempt to connect ended; reported by the learner."""

    was_open: bool
    """Whether there was a stream; False if the attempt to connect failed."""
    open_s: float
    attempts: int
    reason: str


class LinkStarted(Payload, kind=Kind.LINK_STARTED):
    """A link was created; it has the name of its learner."""

    link: str
    kind: str
    """Kind of the links; none: the learner connects directly to the syncer."""
    address: str
    upstream: str


class LinkShaped(Payload, kind=Kind.LINK_SHAPED):
    """An effect is in force from now on."""

    link: str
    injection: str
    direction: str
    """up, down or both."""
    effect: str
    settings: Mapping[str, Json]


class LinkCleared(Payload, kind=Kind.LINK_CLEARED):
    link: str
    injection: str


class LinkCounted(Payload, kind=Kind.LINK_COUNTED):
    """Counters of the link; null for those it does not have. Of a container of a script that runs
    already they are those of its network interfaces, by the engine; null while it has none.
    """

    link: str
    up_bytes: int | None = None
    down_bytes: int | None = None
    connections: int | None = None
    """Number of open connections."""
    opened: int | None = None
    """Number of connections opened since the start."""
    packets: int | None = None
    dropped: int | None = None


class LinkRemade(Payload, kind=Kind.LINK_REMADE):
    """The proxy was stuck: the link was made anew, with the effects that are to be on it."""

    link: str
    streams: int | None = None
    """Number of the learner's streams that this ended; null where they cannot be counted."""
    reason: str


class LinkLost(Payload, kind=Kind.LINK_LOST):
    """The proxy or gateway of the links failed, not by a fault of the plan."""

    kind: str
    links: tuple[str, ...]
    reason: str
