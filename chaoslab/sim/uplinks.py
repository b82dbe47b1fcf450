"""Links of all learners as a simulated syncer measures them, by `diloco.syncer.uplinks`.

    hello ─► attach(stream, learner) ─► ping, four times a second ─► report, once a second

A link is reported from its learner's first hello on, also while there is no stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chaoslab.core.payloads import LinkMeasured
from chaoslab.sim.meter import Meter
from chaoslab.sim.process import Process
from chaoslab.sim.wires import SILENT_S, Stream, ping


@dataclass(slots=True)
class _Uplink:
    incarnation: int
    stream: Stream
    meter: Meter


class Uplinks:
    """Links of all learners."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._by_learner: dict[str, _Uplink] = {}

    def attach(self, stream: Stream, learner: str, incarnation: int) -> None:
        """Measure this stream as the link of a learner, which was let in on it."""
        known = self._by_learner.get(learner)
        meter = known.meter if known else Meter(self._process.now_s)
        meter.hear(self._process.now_s, 0)
        stream.meter_above = meter
        self._by_learner[learner] = _Uplink(incarnation, stream, meter)

    def ping(self) -> Iterator[Stream]:
        """Ping all; learners whose silence means that their stream is broken."""
        now_s = self._process.now_s
        for uplink in tuple(self._by_learner.values()):
            if uplink.stream.is_open_above:
                ping(now_s, uplink.stream, is_up=False)
                if now_s - uplink.meter.heard_s >= SILENT_S:
                    yield uplink.stream

    def report(self) -> None:
        """link.measured of all of them."""
        for learner, uplink in self._by_learner.items():
            self._process.say(
                LinkMeasured,
                learner=learner,
                incarnation=uplink.incarnation,
                direction="up",
                **uplink.meter.read(self._process.now_s),
                queued=uplink.stream.wire.down.waiting,
                queued_bytes=0,
            )
