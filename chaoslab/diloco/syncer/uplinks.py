"""Measurements of every learner's link at the syncer: pings 4 times a second, reports once a
second.

    hello ─► attach(session, learner) ─► tick ─► Ping ══► learner
                                          └─► link.measured, direction up

A link is reported from its learner's first hello until the syncer ends, also while there is no
stream: then the report says for how long it has been silent.
"""

from dataclasses import dataclass

from chaoslab.core.link_meter import MEASURE_S, NOTHING_QUEUED, PING_S, Meter, Periodic
from chaoslab.core.payloads import LinkMeasured
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.syncer.sessions import Streams


@dataclass(slots=True)
class _Uplink:
    incarnation: int
    session: int
    meter: Meter


class Uplinks:
    """Links of all learners. For the syncer's main thread."""

    def __init__(self, hub: Streams, emit: Emit, now_s: float) -> None:
        self._hub = hub
        self._emit = emit
        self._by_learner: dict[str, _Uplink] = {}
        self._ping, self._measure = Periodic(PING_S, now_s), Periodic(MEASURE_S, now_s)

    def attach(self, session: int, learner: str, incarnation: int) -> None:
        """Measure this session as the link of `learner`, which was admitted on it."""
        pings = self._hub.pings(session)
        if pings is None:
            return
        known = self._by_learner.get(learner)
        meter = known.meter if known else pings.meter
        if known is not None:
            pings.use_meter(meter)
        self._by_learner[learner] = _Uplink(incarnation, session, meter)

    def tick(self, now_s: float) -> None:
        """Send the pings and reports that are due."""
        if self._ping.is_due(now_s):
            for uplink in self._by_learner.values():
                pings = self._hub.pings(uplink.session)
                if pings is not None:
                    pings.ping()
        if self._measure.is_due(now_s):
            for learner, uplink in self._by_learner.items():
                self._report(learner, uplink)

    def _report(self, learner: str, uplink: _Uplink) -> None:
        pings = self._hub.pings(uplink.session)
        measured = LinkMeasured.of(
            uplink.meter.read(),
            {"learner": learner, "incarnation": uplink.incarnation},
            direction="up",
            queued=pings.queue if pings else NOTHING_QUEUED,
        )
        self._emit(measured)
