"""Faults on links: their contract, and their evidence from records made by hand."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Status
from chaoslab.faults.base import Fault, variants
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.network import (
    NetworkBandwidth,
    NetworkLatency,
    NetworkLimitData,
    NetworkSlice,
)
from chaoslab.faults.network_break import (
    NetworkFlap,
    NetworkHalfOpen,
    NetworkRefuse,
    NetworkReset,
)
from chaoslab.faults.network_cut import NetworkPartition, Silence
from chaoslab.faults.network_packets import NetworkPackets, Packets
from chaoslab.faults.network_wan import NetworkRegionProfile, NetworkTrace
from chaoslab.faults.region import RegionOutage
from chaoslab.links.effects import Direction
from chaoslab.links.netem import bands
from chaoslab.links.proxied.embedded import EmbeddedLinks
from chaoslab.plan.model import Injection, Trigger
from chaoslab.prepare.preflight import require_all
from chaoslab.record.history import History
from tests.faults.fault_record import Case, FaultRecord, case, each_of

approx = pytest.approx
TRACE = str(Path(__file__).parent / "trace.csv")


@pytest.mark.parametrize("settings", [{}, {"file": "nowhere.csv"}], ids=["none", "absent"])
def test_a_trace_without_its_file_is_a_plan_error(settings: dict[str, str]) -> None:
    with pytest.raises(PlanError):
        NetworkTrace(**settings).shapings()


# ---------------------------------------------------------------- records made by hand


class Record(FaultRecord):
    """What both ends of one link reported: calm until second 20, then the fault begins."""

    def __init__(self, fault: Fault, *, for_s: float | None = 10.0, **calm: Json) -> None:
        super().__init__(fault, "learner-1", for_s=for_s)
        self._next = 21
        self.add(1.0, Kind.NODE_STARTED, node="learner-1", incarnation=1)
        self.opened(2.0)
        for second in range(3, 20):
            self.reported(second, **calm)
        self.begin(20.0)

    def add(self, time_s: float, kind: Kind, **data: Json) -> "Record":
        return self.say(time_s, kind, "x", **data)

    def reported(
        self, time_s: float, ways: Iterable[Direction] = Direction.BOTH.ways, **more: Json
    ) -> "Record":
        if "rtt_s" in more:
            more = {"rtt_s_min": more["rtt_s"], **more}
        for way in ways:
            usual: dict[str, Json] = {
                "learner": "learner-1",
                "incarnation": 1,
                "direction": way.value,
                "window_s": 1.0,
                "silent_s": 0.1,
                "rtt_s": 0.004,
                "rtt_s_min": 0.002,
                "pings_sent": 4,
                "pings_answered": 4,
                "bytes": int(100_000 * time_s),
                "payload_bytes": 80_000,
                "bytes_per_s": 9e6,
            }
            said = {**usual, **more}
            rate = float(str(said["bytes_per_s"] or 0.0))
            size = float(str(said["payload_bytes"])) if rate else 0.0
            timed: dict[str, Json] = {"timed_bytes": size, "timed_s": size / rate if size else 0.0}
            self.add(time_s, Kind.LINK_MEASURED, **{**timed, **said})
        return self

    def opened(self, time_s: float) -> "Record":
        return self.add(time_s, Kind.LINK_OPENED, learner="learner-1", attempts=1, after_s=0.1)

    def closed(self, time_s: float, *, was_open: bool = True) -> "Record":
        return self.add(
            time_s, Kind.LINK_CLOSED, learner="learner-1", was_open=was_open, reason="reset"
        )

    def counted(self, time_s: float, **counters: Json) -> "Record":
        unknown: dict[str, Json] = dict.fromkeys(
            ("up_bytes", "down_bytes", "connections", "opened", "packets", "dropped")
        )
        return self.add(time_s, Kind.LINK_COUNTED, link="learner-1", **{**unknown, **counters})

    def shaped(
        self,
        time_s: float,
        effect: str,
        *,
        injection: str = "injection-0",
        direction: Direction = Direction.BOTH,
    ) -> "Record":
        return self.add(
            time_s,
            Kind.LINK_SHAPED,
            link="learner-1",
            injection=injection,
            direction=direction.value,
            effect=effect,
        )

    def cleared(self, time_s: float, injection: str) -> "Record":
        return self.add(time_s, Kind.LINK_CLEARED, link="learner-1", injection=injection)

    def stepped(self, time_s: float, step_index: int) -> "Record":
        about: dict[str, Json] = {"injection": "injection-0", "targets": ["learner-1"]}
        return self.add(time_s, Kind.FAULT_STEPPED, **about, step=step_index)

    def until(self, end_s: float, **more: Json) -> "Record":
        """Both ends go on to report every second, with these figures."""
        for second in self._seconds(end_s):
            self.reported(second + 0.5, **more)
        return self

    def quiet(
        self,
        since_s: float = 20.0,
        ways: Iterable[Direction] = Direction.BOTH.ways,
        *,
        to_s: float = 30,
        **more: Json,
    ) -> "Record":
        """Every second the end that should hear of these ways has heard nothing since then."""
        for second in self._seconds(to_s):
            for way in Direction.BOTH.ways:
                heard = {**SILENT, "silent_s": second - since_s, **more} if way in ways else {}
                self.reported(second, (way,), **heard)
        return self

    def _seconds(self, end_s: float) -> range:
        """Those that were not reported yet."""
        left = range(self._next, int(end_s) + 1)
        self._next = left.stop
        return left


SILENT: dict[str, Json] = {
    "bytes": 1_900_000,
    "rtt_s": None,
    "pings_answered": 0,
    "payload_bytes": 0,
    "bytes_per_s": None,
}

PROBED: dict[str, Json] = {"probes_answered": 4, "probe_rtt_s": 0.004, "probe_rtt_s_min": 0.002}
DEAD: dict[str, Json] = {
    "bytes": 2_250_000, "rtt_s": None, "rtt_s_min": None, "payload_bytes": 0, "bytes_per_s": None,
    "silent_s": 5.0,
}  # fmt: skip
UP, DOWN = Direction.UP, Direction.DOWN
DELAY, RATE = NetworkLatency(mean_s=0.1), NetworkBandwidth(rate_bytes_per_s=1e5)
UP_DELAY = NetworkLatency(mean_s=0.24, direction=UP)


def changing(fault: Fault, **later: Json) -> Record:
    """It holds as asked for a second or two, and for ten more seconds it is `later`."""
    return Record(fault, for_s=12.0).until(22, rtt_s=0.21, bytes_per_s=1e5).until(32, **later)


def of_script(fault: Fault, given_s: float, connections: int = 1, **during: Json) -> Record:
    """A script's link, on which there are round trips, and which is given bytes until then."""
    record = Record(fault, unused_s=0.0, connections=connections)
    for second in range(20, 31):
        record.reported(second + 0.5, unused_s=max(0.0, second + 0.5 - given_s), **during)
    return record


@each_of(
    *(
        case(
            f"{fault.name} on a script's link is {code} if bytes are given to it until {given_s} s",
            of_script(fault, given_s, **during),
            code,
        )
        for fault, during in (
            (DELAY, {"rtt_s": 0.21}),
            (NetworkPartition(), {**SILENT, "silent_s": 20.0}),
        )
        for given_s, code in ((12.0, Code.NOT_USED), (19.9, Code.AS_ASKED), (25.0, Code.AS_ASKED))
    ),
    *(
        case(
            f"a script's link is reset with {connections} connections open",
            of_script(NetworkReset(), 12.0, connections).closed(20.1),
            code,
        )
        for connections, code in ((0, Code.NOT_USED), (1, Code.AS_ASKED))
    ),
    case(
        "a delay is proved by the growth of the round trip",
        Record(DELAY).until(30, rtt_s=0.21),
        Code.AS_ASKED,
        requested={"added_rtt_s": approx(0.2)},
        added_rtt_s=approx(0.208, abs=0.001),
    ),
    case(
        "one way of delay is half of both",
        Record(NetworkLatency(mean_s=0.1, direction=UP)).until(30, rtt_s=0.11),
        Code.AS_ASKED,
        requested={"added_rtt_s": approx(0.1)},
    ),
    case("less delay is weak", Record(DELAY).until(30, rtt_s=0.1), Code.OUT_OF_TOLERANCE),
    case("more delay is weak", Record(DELAY).until(30, rtt_s=0.5), Code.OUT_OF_TOLERANCE),
    case("a delay that nobody feels is failed", Record(DELAY).until(30), Code.NO_EFFECT),
    case(
        "a delay behind a thin link is told by the probe and not by the queue",
        Record(UP_DELAY, **PROBED).until(
            30, rtt_s=3.02, probes_answered=4, probe_rtt_s=0.25, probe_rtt_s_min=0.243
        ),
        Code.AS_ASKED,
        added_rtt_s=approx(0.241),
    ),
    case(
        "without a probe the queue counts",
        Record(UP_DELAY).until(30, rtt_s=3.02),
        Code.OUT_OF_TOLERANCE,
    ),
    *(
        case(f"{fault.name} on a link without traffic", Record(fault).quiet(18.0), Code.NO_TRAFFIC)
        for fault in (DELAY, RATE, NetworkSlice())
    ),
    case(
        "windows that began before the fault do not count",
        Record(DELAY).reported(20.4).until(22, rtt_s=0.21),
        Code.AS_ASKED,
        rtt_s=approx(0.21),
    ),
    case(
        "how long it held is said",
        changing(DELAY, **DEAD),
        Code.NOT_THROUGHOUT,
        rtt_lasted_s=approx(2.21),
    ),
    case(
        "time under another fault counts neither way",
        Record(DELAY, for_s=12.0)
        .until(24, rtt_s=0.21)
        .add(24.6, Kind.FAULT_INJECTING, injection="injection-7", targets=["learner-1"])
        .quiet(24.5, to_s=32),
        Code.AS_ASKED,
    ),
    case(
        "a rate is proved by the payloads that arrive",
        Record(RATE).until(30, bytes_per_s=0.95e5),
        Code.AS_ASKED,
        requested={"up_bytes_per_s": 1e5, "down_bytes_per_s": 1e5, "for_s": 10.0},
        up_bytes_per_s=approx(0.95e5),
    ),
    case(
        "a rate is told from all the time in which the link was full",
        Record(NetworkBandwidth(rate_bytes_per_s=6e4, direction=UP), for_s=4.0)
        .reported(21.5, bytes_per_s=6e4, payload_bytes=0, timed_bytes=60_000, timed_s=1.0)
        .reported(22.5, bytes_per_s=6e4, payload_bytes=0, timed_bytes=60_000, timed_s=1.0)
        .reported(23.5, bytes_per_s=84e3, payload_bytes=162_000, timed_bytes=42_000, timed_s=0.5),
        Code.AS_ASKED,
        up_bytes_per_s=approx(162_000 / 2.5),
        up_timed_s=approx(2.5),
        up_bytes_per_s_low=approx(60_000),
        up_bytes_per_s_high=approx(68_000),
        down_bytes_per_s=None,
    ),
    case(
        "what passes while an effect is on its way to the links does not count",
        Record(RATE)
        .fault_event(20.3, Kind.FAULT_INJECTED)
        .reported(21.2)
        .until(30, bytes_per_s=0.95e5),
        Code.AS_ASKED,
        up_bytes_per_s=approx(0.95e5),
    ),
    case("too low a rate", Record(RATE).until(30, bytes_per_s=0.3e5), Code.OUT_OF_TOLERANCE),
    case("too high a rate", Record(RATE).until(30, bytes_per_s=2e5), Code.OUT_OF_TOLERANCE),
    case("the usual rate", Record(RATE).until(30, bytes_per_s=8.5e6), Code.NO_EFFECT),
    case("payloads too small to time", Record(RATE).until(30, bytes_per_s=None), Code.NOT_TIMED),
    *(
        case(  # some payloads have their first piece with their header, and that is not timed
            f"a report that looks fast shows a rate if it is far below the usual {usual:.0e}",
            Record(RATE, bytes_per_s=usual)
            .until(24, bytes_per_s=0.8e5)
            .until(30, bytes_per_s=1.7e5),
            code,
            up_bytes_per_s=approx(1.18e5, rel=0.05),
        )
        for usual, code in ((9e6, Code.AS_ASKED), (2.1e5, Code.NOT_THROUGHOUT))
    ),
)
def test_the_record_shows_delays_and_rates(case: Case) -> None:
    case.require()


def test_windows_without_a_payload_say_nothing_of_a_rate() -> None:
    record = Record(RATE).until(23, bytes_per_s=1e5)
    for second in range(24, 31):
        total = int(2_350_000 + 2000 * (second - 23))
        record.reported(second + 0.5, bytes=total, payload_bytes=0, bytes_per_s=None)
    assert record.evidence.code is Code.AS_ASKED


@pytest.mark.parametrize("later", [{}, DEAD], ids=["as before", "dead"])
@pytest.mark.parametrize(
    "fault",
    [
        DELAY,
        RATE,
        NetworkSlice(size_bytes=1000, delay_s=0.01),
        NetworkRegionProfile(latency_s=0.1, rate_bytes_per_s=1e5),
    ],
    ids=lambda fault: fault.name,
)
def test_what_held_for_a_small_part_of_its_time_is_not_proved(
    fault: Fault, later: dict[str, Json]
) -> None:
    assert changing(fault, **later).evidence.status is not Status.PROVED


def test_the_calm_before_is_measured_without_earlier_faults() -> None:
    record = Record(NetworkLatency(mean_s=0.1), for_s=5.0).until(24, rtt_s=5.0)
    record.add(25.0, Kind.FAULT_HEALED, injection="injection-0")
    record.injection = Injection(
        number=1,
        spec="again",
        fault=record.fault.name,
        settings=record.fault,
        targets=("learner-1",),
        trigger=Trigger(time_s=0.0),
        for_s=5.0,
    )
    record.add(40.0, Kind.FAULT_INJECTING, injection="injection-1", targets=["learner-1"])
    record.reported(42.0, rtt_s=0.2)
    assert record.evidence.measured["usual_rtt_s"] == pytest.approx(0.002)


def test_who_was_brought_in_is_calm_once_it_has_begun() -> None:
    record = Record(NetworkLatency(mean_s=0.1), for_s=5.0)
    late = FaultRecord(record.fault, "learner-1")
    about = {"injection": "injection-7", "targets": ["learner-1"], "spec": "grow"}
    for kind, time_s in ((Kind.FAULT_INJECTING, 0.5), (Kind.FAULT_INJECTED, 1.5)):
        late.say(time_s, kind, "harness", fault="control.scale_up", brings_in=True, **about)
    for event in record.reported(22.0, rtt_s=0.2).history.events:
        late.say(event.time_s, event.kind, event.source, **event.data)
    record.history = late.history
    assert record.evidence.measured["usual_rtt_s"] == pytest.approx(0.002)
    assert record.evidence.status is Status.PROVED


# ---------------------------------------------------------------- silence


def silenced_twice(fault: Fault, *, healed_s: float | None = None) -> Record:
    """Injection-7 froze the link up at second 18, two seconds before this one came."""
    record = Record(fault)
    record.history = History(())
    for second in range(3, 19):
        record.reported(second)
    record.shaped(18.0, "freeze", injection="injection-7", direction=Direction.UP)
    record.reported(19.0, (Direction.UP,), **{**SILENT, "bytes": 1_800_000, "silent_s": 1.1})
    record.reported(19.0, (Direction.DOWN,))
    if healed_s is not None:
        record.cleared(healed_s, "injection-7")
    record.begin(20.0).shaped(20.1, "freeze")
    for second in range(20, 31):
        up: dict[str, Json] = {**SILENT, "bytes": 1_800_000, "silent_s": second + 0.5 - 17.9}
        record.reported(second + 0.5, (Direction.UP,), **up)
        down: dict[str, Json] = {**SILENT, "silent_s": second + 0.5 - 19.9}
        record.reported(second + 0.5, (Direction.DOWN,), **down)
    return record


def dark() -> Record:
    record = Record(RegionOutage())
    record.add(20.0, Kind.LINK_SHAPED, link="learner-1", injection="injection-0")
    record.add(20.1, Kind.NODE_EXITED, node="learner-1", incarnation=1, signal="SIGKILL")
    return record.counted(20.2, up_bytes=5, down_bytes=7, connections=0)


@each_of(
    *(
        case(
            f"{fault} is proved at the end that should have heard",
            Record(fault).quiet(),
            Code.AS_ASKED,
            up_silent_s=approx(10.0),
            down_silent_s=approx(10.0),
        )
        for fault in variants(NetworkPartition())
    ),
    case(
        "silence in one direction says nothing of the other",
        Record(NetworkPartition(direction=UP)).quiet(ways=(UP,)),
        Code.AS_ASKED,
        down_silent_s=None,
    ),
    case("bytes go on arriving", Record(NetworkPartition()).until(30), Code.NO_EFFECT),
    case(
        "silence that ended early is weak",
        Record(NetworkPartition()).until(25).quiet(25.0, bytes=2_550_000),
        Code.TOO_SHORT,
    ),
    case(
        "a dial in vain does not break the silence",
        Record(NetworkPartition()).quiet(to_s=24).quiet(24.0, to_s=28).quiet(28.0),
        Code.AS_ASKED,
    ),
    case(
        "an end that reports no more proves nothing",
        Record(NetworkPartition())
        .reported(21.0, silent_s=1.0)
        .add(30.0, Kind.FAULT_HEALING, injection="injection-0", targets=["learner-1"]),
        Code.NO_LINK_REPORT,
    ),
    case(
        "what another fault has silenced one way cannot be silenced that way",
        silenced_twice(NetworkPartition(how=Silence.BLACKHOLE, direction=UP)),
        Code.SILENCED_BEFORE,
    ),
    case(
        "nor both ways",
        silenced_twice(NetworkPartition()),
        Code.SILENCED_BEFORE,
    ),
    case(
        "but the other way",
        silenced_twice(NetworkPartition(direction=DOWN)),
        Code.AS_ASKED,
    ),
    case(
        "a link that was just healed and carried nothing yet cannot be silenced",
        silenced_twice(NetworkPartition(direction=UP), healed_s=19.9),
        Code.NO_TRAFFIC_BEFORE,
    ),
    case(
        "of two silences in one moment the links' own order tells the first",
        Record(NetworkPartition())
        .shaped(20.1, "freeze", injection="injection-7")
        .shaped(20.1, "freeze")
        .quiet(),
        Code.SILENCED_BEFORE,
    ),
    case(
        "silence that began when another fault came is the other's",
        Record(NetworkPartition(), for_s=11.0)
        .shaped(20.1, "freeze")
        .until(21)
        .shaped(21.6, "blackhole", injection="injection-7")
        .quiet(21.5, to_s=31, bytes=2_150_000),
        Code.OTHER_FAULT,
    ),
    case(
        "silence that was there before another fault came is its own",
        Record(NetworkPartition())
        .shaped(20.1, "freeze")
        .quiet(to_s=24)
        .shaped(24.5, "blackhole", injection="injection-7")
        .quiet(),
        Code.AS_ASKED,
    ),
    case(
        "an outage is proved by dead processes and dark links",
        dark().counted(30.0, up_bytes=5, down_bytes=7, connections=0),
        Code.AS_ASKED,
        down_s=approx(9.9),
    ),
    case(
        "an outage whose link was used is weak",
        dark().counted(30.0, up_bytes=900, down_bytes=7, connections=1),
        Code.WORKED_MEANWHILE,
    ),
    case(
        "an outage whose link was not cut is none",
        Record(RegionOutage())
        .add(20.1, Kind.NODE_EXITED, node="learner-1", incarnation=1, signal="SIGKILL")
        .counted(30.0, connections=0),
        Code.NOT_APPLIED,
    ),
    case("an outage without a death", Record(RegionOutage()).until(30), Code.NOT_KILLED),
)
def test_the_record_shows_silence(case: Case) -> None:
    case.require()


def test_a_link_that_was_silent_before_cannot_be_silenced() -> None:
    record = Record(NetworkPartition())
    record.history = History(())
    record.reported(19.0, silent_s=15.0).begin(20.0).reported(30.0, silent_s=26.0)
    assert record.evidence.code is Code.NO_TRAFFIC_BEFORE


# ---------------------------------------------------------------- streams that end, and packets

BY_NETEM = {how.value: NetworkPackets(how=how) for how in Packets if how is not Packets.LOSS}


@each_of(
    *(
        case(f"{fault.name} that ended no stream", Record(fault).until(30), Code.NO_EFFECT)
        for fault in (NetworkRefuse(), NetworkReset(), NetworkFlap(), NetworkLimitData())
    ),
    case(
        "a refusal is proved by the end of the stream and failed dials",
        Record(NetworkRefuse()).closed(20.1).closed(20.6, was_open=False).until(30),
        Code.AS_ASKED,
        attempts_failed=1,
    ),
    case(
        "a refusal during which a stream was opened is weak",
        Record(NetworkRefuse()).closed(20.1).closed(20.6, was_open=False).opened(29.0),
        Code.WORKED_MEANWHILE,
    ),
    case(
        "fewer resets than asked are weak",
        Record(NetworkReset(times=2, every_s=4.0)).closed(20.1).opened(20.9),
        Code.FEWER_TIMES,
    ),
    case(
        "resets are counted by the streams that they ended",
        Record(NetworkReset(times=2, every_s=4.0))
        .closed(20.1)
        .opened(20.9)
        .closed(24.2)
        .opened(25.0),
        Code.AS_ASKED,
        streams_ended=2,
    ),
    case(
        "a stream that ended by itself in between is no reset",
        Record(NetworkReset(times=1)).closed(26.0),
        Code.NO_EFFECT,
    ),
    case(
        "a flapping link is proved by each fall",
        Record(NetworkFlap(times=2, down_s=2.0, up_s=4.0))
        .closed(20.1)
        .closed(21.0, was_open=False)
        .opened(22.5)
        .closed(26.1),
        Code.AS_ASKED,
        streams_ended=2,
    ),
    case(
        "a half-open connection that nobody notices is none",
        Record(NetworkHalfOpen(direction=DOWN)).until(30),
        Code.NO_EFFECT,
    ),
    case(
        "the learner notices late that it sends to nobody",
        Record(NetworkHalfOpen(direction=DOWN)).closed(24.0),
        Code.AS_ASKED,
    ),
    case(
        "who is told at once was not half open",
        Record(NetworkHalfOpen()).closed(20.2),
        Code.WRONG_MOMENT,
    ),
    case(
        "a learner that is reset is told at once",
        Record(NetworkHalfOpen(direction=UP)).closed(20.2),
        Code.AS_ASKED,
    ),
    case(
        "a limit of data is proved by what its streams carried",
        Record(NetworkLimitData(size_bytes=500_000)).until(24).closed(24.6),
        Code.AS_ASKED,
    ),
    case(
        "bytes after the last end are not those of streams that ended",
        Record(NetworkLimitData(size_bytes=500_000)).until(24).closed(24.6).opened(25.0).until(40),
        Code.AS_ASKED,
    ),
    case(
        "streams that carried far too much show no limit",
        Record(NetworkLimitData(size_bytes=1000)).until(24).closed(25),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "a stream that ended with far too few bytes proves no limit",
        Record(NetworkLimitData(size_bytes=50_000_000)).until(24).closed(24.6),
        Code.OTHER_CAUSE,
    ),
    case(
        "a stream that another fault broke off proves no limit",
        Record(NetworkLimitData(size_bytes=500_000))
        .until(24)
        .shaped(24.5, "reset", injection="injection-1")
        .closed(24.6),
        Code.OTHER_FAULT,
    ),
    case(
        "a stream that ended when a stuck link was made anew proves no limit",
        Record(NetworkLimitData(size_bytes=500_000))
        .until(24)
        .add(24.5, Kind.LINK_REMADE, link="learner-1", streams=1, reason="no answer")
        .closed(24.6),
        Code.OTHER_FAULT,
    ),
    case(
        "a loss without packets is none",
        Record(NetworkPackets(share=0.05)).counted(20.1, packets=0, dropped=0),
        Code.NO_EFFECT,
    ),
    case(
        "a loss is proved by the packets that the kernel counted",
        Record(NetworkPackets(share=0.05))
        .counted(20.1, packets=0, dropped=0)
        .counted(30.0, packets=2000, dropped=96),
        Code.AS_ASKED,
        dropped_share=0.048,
    ),
    case(
        "too much loss is weak",
        Record(NetworkPackets(share=0.05)).counted(30.0, packets=2000, dropped=400),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "too few packets are weak",
        Record(NetworkPackets(share=0.05)).counted(30.0, packets=40, dropped=2),
        Code.OUT_OF_TOLERANCE,
    ),
    *(
        case(
            f"{effect} of packets that did not come",
            Record(fault).shaped(20.1, effect).quiet(19.0),
            Code.NO_TRAFFIC,
        )
        for effect, fault in BY_NETEM.items()
    ),
    *(
        case(
            f"{effect}, which nobody counts, is weak at best",
            Record(fault).shaped(20.1, effect).until(30),
            Code.NOT_COUNTED,
        )
        for effect, fault in BY_NETEM.items()
    ),
)
def test_the_record_shows_ended_streams_and_packets(case: Case) -> None:
    case.require()


@pytest.mark.parametrize("fault", BY_NETEM.values(), ids=BY_NETEM)
def test_what_only_netem_can_do_is_refused_without_it(
    fault: NetworkPackets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bands, "is_available", lambda: (False, "this kernel has no tc netem"))
    with pytest.raises(AbilityError, match="this kernel has no tc netem"):
        require_all(EmbeddedLinks(tmp_path), fault.shapings())


# ---------------------------------------------------------------- paths through the world

THIN = NetworkRegionProfile(rate_bytes_per_s=1e5, latency_s=0.1)


def thin_with_little_up(*, down_per_s: float, ups: int, up_bytes: int = 80_000) -> Record:
    """A thin link full of what comes down; some of what goes up looks too fast."""
    record = Record(THIN)
    for second in range(21, 31):
        more: dict[str, Json] = {"rtt_s": 0.9, "bytes": 100_000 * second}
        record.reported(second + 0.5, [Direction.DOWN], bytes_per_s=down_per_s, **more)
        idle: dict[str, Json] = {"payload_bytes": 0, "bytes_per_s": None}
        fast: dict[str, Json] = {"payload_bytes": up_bytes, "bytes_per_s": 3e5}
        up = idle if second > 20 + ups else fast
        record.reported(second + 0.5, [Direction.UP], **more, **up)
    return record


def traced(*, steps: int, file: str = TRACE, first_s: float = 0.044, then_s: float = 0.244,
           **more: Json) -> Record:  # fmt: skip
    """Four seconds with the first round trip, and the rest of ten with the second."""
    record = Record(NetworkTrace(file=file))
    for step_index in range(steps):
        record.stepped(24.0, step_index)
    return record.until(23, rtt_s=first_s, **more).until(30, rtt_s=then_s, **more)


@each_of(
    case(
        "a profile is proved by its delay where its rate is out of reach",
        Record(NetworkRegionProfile(profile="transatlantic")).until(30, rtt_s=0.09),
        Code.AS_ASKED,
        requested={"added_rtt_s": approx(0.086)},
        up_bytes_per_s=None,
    ),
    case(
        "a profile that nobody could feel proves nothing",
        Record(NetworkRegionProfile(profile="lan")).until(30),
        Code.NEVER_BETTER,
    ),
    case(
        "a thin profile is proved by its rates too",
        Record(THIN).until(30, rtt_s=0.9, bytes_per_s=0.9e5),
        Code.AS_ASKED,
    ),
    case(
        "a thin profile with another rate",
        Record(THIN).until(30, rtt_s=0.9, bytes_per_s=5e5),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "a thin profile with too little delay",
        Record(THIN).until(30, rtt_s=0.1, bytes_per_s=0.9e5),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "a thin profile without a delay",
        Record(THIN).until(30, bytes_per_s=0.9e5),
        Code.NO_EFFECT,
    ),
    case(
        "a way that carried hardly anything needs no proof",
        thin_with_little_up(down_per_s=0.9e5, ups=2),
        Code.AS_ASKED,
        up_bytes_per_s=approx(3e5),
    ),
    case(
        "a way that carried more does",
        thin_with_little_up(down_per_s=0.9e5, ups=6),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "one of both ways has to be as thin as asked",
        thin_with_little_up(down_per_s=3e5, ups=2),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "0.4 s of ten are hardly anything",
        thin_with_little_up(down_per_s=0.9e5, ups=6, up_bytes=20_000),
        Code.AS_ASKED,
    ),
    case(
        "a trace is proved row by row on the average",
        traced(steps=1, bytes_per_s=1e6),
        Code.AS_ASKED,
        requested={"rows": 2},
        added_rtt_s=approx(0.18, abs=0.02),
    ),
    case(
        "a trace whose later rows did nothing is weak",
        traced(steps=1, then_s=0.044, bytes_per_s=1e6),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "a trace whose later rows never came says how many did",
        traced(steps=0, bytes_per_s=1e6),
        Code.FEWER_TIMES,
        rows=1,
    ),
)
def test_the_record_shows_paths(case: Case) -> None:
    case.require()


@pytest.mark.parametrize(
    ("rows", "more", "code"),
    [
        ("time,rate\n0s,1GB/s\n", {}, Code.NEVER_FASTER),
        ("time,rate\n0s,1MB/s\n", {"bytes_per_s": 1e6}, Code.AS_ASKED),
    ],
)
def test_a_trace_of_rates_that_the_link_never_reached_cannot_be_shown(
    tmp_path: Path, rows: str, more: dict[str, Json], code: Code
) -> None:
    (tmp_path / "trace.csv").write_text(rows)
    usual = {"first_s": 0.004, "then_s": 0.004}
    file = str(tmp_path / "trace.csv")
    assert traced(steps=0, file=file, **usual, **more).evidence.code is code


def test_a_trace_on_a_link_that_died_early_is_weak(tmp_path: Path) -> None:
    (tmp_path / "far.csv").write_text("time,latency\n0s,100ms\n")
    trace = NetworkTrace(file=str(tmp_path / "far.csv"))
    assert changing(trace, **DEAD).evidence.code is Code.NOT_THROUGHOUT


def test_a_trace_changes_the_strength_of_what_is_there() -> None:
    fault = NetworkTrace(file=TRACE)
    assert fault.steps() == (4.0,)
    assert len(fault.shapings()) == 4
