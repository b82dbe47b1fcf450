"""Faults on links: their contract, and their evidence from records made by hand."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import Lack, Status
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.network import (
    NetworkBandwidth,
    NetworkLatency,
    NetworkLimitData,
    NetworkLoss,
    NetworkSlice,
)
from chaoslab.faults.network_break import (
    NetworkFlap,
    NetworkHalfOpen,
    NetworkRefuse,
    NetworkReset,
)
from chaoslab.faults.network_cut import NetworkBlackhole, NetworkFreeze, NetworkPartition
from chaoslab.faults.network_packets import NetworkCorrupt, NetworkDuplicate, NetworkReorder
from chaoslab.faults.network_wan import NetworkRegionProfile, NetworkTrace
from chaoslab.faults.region import RegionOutage
from chaoslab.links.effects import Direction
from chaoslab.links.netem import bands
from chaoslab.links.proxied.embedded import EmbeddedLinks
from chaoslab.plan.model import Injection, Trigger
from chaoslab.prepare.preflight import require_all
from chaoslab.record.journal import History
from tests.faults.fault_record import FaultRecord

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
                "rtt_s_max": 0.01,
                "pings_sent": 4,
                "pings_answered": 4,
                "bytes": int(100_000 * time_s),
                "payload_bytes": 80_000,
                "bytes_per_s": 9e6,
            }
            self.add(time_s, Kind.LINK_MEASURED, **{**usual, **more})
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
        return self.add(time_s, Kind.FAULT_STEPPED, **about, beat=step_index)

    def until(self, end_s: float, **more: Json) -> "Record":
        """Both ends go on to report every second, with these figures."""
        for second in range(21, int(end_s) + 1):
            self.reported(second + 0.5, **more)
        return self


SILENT: dict[str, Json] = {
    "bytes": 1_900_000,
    "rtt_s": None,
    "pings_answered": 0,
    "payload_bytes": 0,
    "bytes_per_s": None,
}


def test_a_delay_is_proved_by_the_growth_of_the_round_trip() -> None:
    found = Record(NetworkLatency(mean_s=0.1)).until(30, rtt_s=0.21).evidence
    assert (found.status, found.requested["added_rtt_s"]) == (Status.PROVED, pytest.approx(0.2))
    assert found.measured["added_rtt_s"] == pytest.approx(0.208, abs=0.001)
    assert found.proof


def test_a_rate_is_told_from_all_the_time_in_which_the_link_was_full() -> None:
    """Few payloads: one took three reports to arrive, the last second of which was fast."""
    record = Record(NetworkBandwidth(rate_bytes_per_s=6e4, direction=Direction.UP), for_s=4.0)
    for second, size, seconds in ((21.5, 60_000, 1.0), (22.5, 60_000, 1.0), (23.5, 42_000, 0.5)):
        record.reported(
            second, bytes_per_s=size / seconds, payload_bytes=162_000 if seconds < 1 else 0,
            timed_bytes=size, timed_s=seconds,
        )  # fmt: skip
    found = record.evidence
    assert found.status is Status.PROVED
    assert found.measured["up_bytes_per_s"] == pytest.approx(162_000 / 2.5)
    assert found.measured["up_timed_s"] == pytest.approx(2.5)
    assert found.measured["up_bytes_per_s_low"] == pytest.approx(60_000)
    assert found.measured["up_bytes_per_s_high"] == pytest.approx(68_000)


def test_a_delay_behind_a_thin_link_is_told_by_the_probe_and_not_by_the_queue() -> None:
    fault = NetworkLatency(mean_s=0.24, direction=Direction.UP)
    probed: dict[str, Json] = {"probes_answered": 4, "probe_rtt_s": 0.004, "probe_rtt_s_min": 0.002}
    record = Record(fault, **probed)
    probed |= {"probe_rtt_s": 0.25, "probe_rtt_s_min": 0.243}
    found = record.until(30, rtt_s=3.02, **probed).evidence
    assert (found.status, found.measured["added_rtt_s"]) == (Status.PROVED, pytest.approx(0.241))
    assert Record(fault).until(30, rtt_s=3.02).evidence.code is Code.OUT_OF_TOLERANCE


@pytest.mark.parametrize("rtt_s", [0.1, 0.5])
def test_a_delay_of_another_length_is_weak(rtt_s: float) -> None:
    found = Record(NetworkLatency(mean_s=0.1)).until(30, rtt_s=rtt_s).evidence
    assert found.code is Code.OUT_OF_TOLERANCE


@pytest.mark.parametrize("fault", [NetworkLatency(), NetworkBandwidth(), NetworkSlice()])
def test_a_link_that_carries_no_traffic_proves_nothing(fault: Fault) -> None:
    record = Record(fault)
    for second in range(21, 31):
        record.reported(second, **{**SILENT, "silent_s": float(second - 18)})
    assert (record.evidence.code, record.evidence.code.lack) == (Code.NO_TRAFFIC, Lack.THROUGHOUT)


def test_one_way_of_delay_is_half_of_both() -> None:
    found = Record(NetworkLatency(mean_s=0.1, direction=Direction.UP)).until(30, rtt_s=0.11)
    assert found.evidence.status is Status.PROVED
    assert found.evidence.requested["added_rtt_s"] == pytest.approx(0.1)


def test_windows_that_began_before_the_fault_do_not_count() -> None:
    record = Record(NetworkLatency(mean_s=0.1)).reported(20.4)
    assert record.until(22, rtt_s=0.21).evidence.measured["rtt_s"] == pytest.approx(0.21)


def test_what_passes_while_an_effect_is_on_its_way_to_the_links_does_not_count() -> None:
    record = Record(NetworkBandwidth(rate_bytes_per_s=1e5))
    record.fault_event(20.3, Kind.FAULT_INJECTED).reported(21.2)
    found = record.until(30, bytes_per_s=0.95e5).evidence
    assert found.measured["up_bytes_per_s"] == pytest.approx(0.95e5)
    assert found.status is Status.PROVED


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


def test_a_rate_is_proved_by_the_payloads_that_arrive() -> None:
    found = Record(NetworkBandwidth(rate_bytes_per_s=1e5)).until(30, bytes_per_s=0.95e5).evidence
    assert found.status is Status.PROVED
    assert found.requested == {"up_bytes_per_s": 1e5, "down_bytes_per_s": 1e5, "for_s": 10.0}
    assert found.measured["up_bytes_per_s"] == pytest.approx(0.95e5)


@pytest.mark.parametrize(
    ("rate", "code"),
    [(0.3e5, Code.OUT_OF_TOLERANCE), (2e5, Code.OUT_OF_TOLERANCE), (8.5e6, Code.NO_EFFECT)],
)
def test_another_rate_is_weak_and_the_usual_one_is_none(rate: float, code: Code) -> None:
    found = Record(NetworkBandwidth(rate_bytes_per_s=1e5)).until(30, bytes_per_s=rate).evidence
    assert found.code is code


def test_a_rate_in_one_direction_is_measured_there() -> None:
    record = Record(NetworkBandwidth(rate_bytes_per_s=1e5, direction=Direction.UP))
    for second in range(21, 31):
        record.reported(second + 0.5, (Direction.UP,), bytes_per_s=1e5)
        record.reported(second + 0.5, (Direction.DOWN,))
    assert record.evidence.status is Status.PROVED
    assert "down_bytes_per_s" not in record.evidence.measured


def changing(fault: Fault, **later: Json) -> Record:
    """It holds as asked for a second or two, and for ten more seconds it is `later`."""
    record = Record(fault, for_s=12.0).until(22, rtt_s=0.21, bytes_per_s=1e5)
    for second in range(23, 33):
        record.reported(second + 0.5, **later)
    return record


@pytest.mark.parametrize(
    "later",
    [
        {},
        {"bytes": 2_250_000, "rtt_s": None, "rtt_s_min": None, "payload_bytes": 0,
         "bytes_per_s": None, "silent_s": 5.0},
    ],
    ids=["as before", "dead"],
)  # fmt: skip
@pytest.mark.parametrize(
    "fault",
    [
        NetworkLatency(mean_s=0.1),
        NetworkBandwidth(rate_bytes_per_s=1e5),
        NetworkSlice(size_bytes=1000, delay_s=0.01),
        NetworkRegionProfile(latency_s=0.1, rate_bytes_per_s=1e5),
    ],
    ids=lambda fault: fault.name,
)
def test_what_held_for_a_small_part_of_its_time_is_not_proved(
    fault: Fault, later: dict[str, Json]
) -> None:
    assert changing(fault, **later).evidence.status is not Status.PROVED


@pytest.mark.parametrize(("usual", "status"), [(9e6, Status.PROVED), (2.1e5, Status.WEAK)])
def test_a_report_that_looks_fast_shows_a_rate_if_it_is_far_below_the_usual_one(
    usual: float, status: Status
) -> None:
    """Some payloads have their first piece with their header, and that is not timed."""
    record = Record(NetworkBandwidth(rate_bytes_per_s=1e5), bytes_per_s=usual)
    for second in range(21, 31):
        record.reported(second + 0.5, bytes_per_s=0.8e5 if second < 25 else 1.7e5)
    found = record.evidence
    assert found.measured["up_bytes_per_s"] == pytest.approx(1.18e5, rel=0.05)
    assert found.status is status


def test_how_long_it_held_is_said() -> None:
    dead: dict[str, Json] = {"bytes": 2_250_000, "rtt_s": None, "payload_bytes": 0}
    found = changing(NetworkLatency(mean_s=0.1), **dead, bytes_per_s=None).evidence
    assert (found.code, found.measured["rtt_held_s"]) == (Code.NOT_THROUGHOUT, pytest.approx(2.21))


def test_time_under_another_fault_counts_neither_way() -> None:
    record = Record(NetworkLatency(mean_s=0.1), for_s=12.0).until(24, rtt_s=0.21)
    record.add(24.6, Kind.FAULT_INJECTING, injection="injection-7", targets=["learner-1"])
    for second in range(25, 33):
        record.reported(second + 0.5, **{**SILENT, "silent_s": second - 24.0})
    assert record.evidence.status is Status.PROVED


def test_windows_without_a_payload_say_nothing_of_a_rate() -> None:
    record = Record(NetworkBandwidth(rate_bytes_per_s=1e5)).until(23, bytes_per_s=1e5)
    for second in range(24, 31):
        total = int(2_350_000 + 2000 * (second - 23))
        record.reported(second + 0.5, bytes=total, payload_bytes=0, bytes_per_s=None)
    assert record.evidence.status is Status.PROVED


@pytest.mark.parametrize("fault", [NetworkBlackhole(), NetworkFreeze(), NetworkPartition()])
def test_silence_is_proved_at_the_end_that_should_have_heard(fault: Fault) -> None:
    record = Record(fault)
    for second in range(21, 31):
        record.reported(second, **{**SILENT, "silent_s": second - 20.0})
    assert record.evidence.status is Status.PROVED
    assert record.evidence.measured["up_silent_s"] == pytest.approx(10.0)
    assert record.evidence.measured["down_silent_s"] == pytest.approx(10.0)


def test_silence_in_one_direction_says_nothing_of_the_other() -> None:
    record = Record(NetworkFreeze(direction=Direction.UP))
    for second in range(21, 31):
        record.reported(second, (Direction.UP,), **{**SILENT, "silent_s": second - 20.0})
        record.reported(second, (Direction.DOWN,))
    assert record.evidence.status is Status.PROVED
    assert "down_silent_s" not in record.evidence.measured


def test_silence_that_ended_early_is_weak() -> None:
    record = Record(NetworkFreeze())
    record.until(25)
    for second in range(26, 31):
        record.reported(second, bytes=2_550_000, silent_s=second - 25.0)
    assert record.evidence.code is Code.TOO_SHORT


def test_a_dial_in_vain_does_not_break_the_silence() -> None:
    record = Record(NetworkFreeze())
    for second in range(21, 31):
        record.reported(second, **{**SILENT, "silent_s": (second - 20.0) % 4})
    assert record.evidence.status is Status.PROVED


def test_a_link_that_was_silent_before_cannot_be_silenced() -> None:
    record = Record(NetworkFreeze())
    record.history = History(())
    record.reported(19.0, silent_s=15.0).begin(20.0).reported(30.0, silent_s=26.0)
    assert record.evidence.code is Code.NO_TRAFFIC_BEFORE


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


@pytest.mark.parametrize("fault", [NetworkBlackhole(direction=Direction.UP), NetworkFreeze()])
def test_a_link_that_another_fault_has_silenced_cannot_be_silenced_again(fault: Fault) -> None:
    assert silenced_twice(fault).evidence.code is Code.SILENCED_BEFORE


def test_a_link_that_was_just_healed_and_carried_nothing_yet_cannot_be_silenced() -> None:
    found = silenced_twice(NetworkFreeze(direction=Direction.UP), healed_s=19.9).evidence
    assert (found.code, found.code.lack) == (Code.NO_TRAFFIC_BEFORE, Lack.AT_START)


def test_of_two_silences_in_one_moment_the_links_own_order_tells_the_first() -> None:
    second = Record(NetworkFreeze()).shaped(20.1, "freeze", injection="injection-7")
    second.shaped(20.1, "freeze")
    for moment in range(21, 31):
        second.reported(moment, **{**SILENT, "silent_s": moment - 20.0})
    assert second.evidence.code is Code.SILENCED_BEFORE


def test_silence_that_began_when_another_fault_came_is_the_others() -> None:
    record = Record(NetworkFreeze(), for_s=11.0).shaped(20.1, "freeze").until(21)
    record.shaped(21.6, "blackhole", injection="injection-7")
    for second in range(22, 32):
        record.reported(second, bytes=2_150_000, silent_s=second - 21.5)
    assert record.evidence.code is Code.OTHER_FAULT
    assert record.evidence.code.lack is None


def test_silence_that_was_there_before_another_fault_came_is_its_own() -> None:
    record = Record(NetworkFreeze()).shaped(20.1, "freeze")
    for second in range(21, 31):
        record.reported(second, **{**SILENT, "silent_s": second - 20.0})
        if second == 24:
            record.shaped(24.5, "blackhole", injection="injection-7")
    assert record.evidence.status is Status.PROVED


def test_a_refusal_is_proved_by_the_end_of_the_stream_and_failed_dials() -> None:
    record = Record(NetworkRefuse()).closed(20.1).closed(20.6, was_open=False).until(30)
    found = record.evidence
    assert (found.status, found.measured["dials_failed"]) == (Status.PROVED, 1)
    assert record.opened(29.0).evidence.code is Code.WORKED_MEANWHILE


def test_a_stream_that_nobody_refused_or_reset_is_failed() -> None:
    assert Record(NetworkRefuse()).until(30).evidence.code is Code.NO_EFFECT
    assert Record(NetworkReset()).until(30).evidence.code is Code.NO_EFFECT
    assert Record(NetworkFlap()).until(30).evidence.code is Code.NO_EFFECT
    assert Record(NetworkLimitData()).until(30).evidence.code is Code.NO_EFFECT


def test_resets_are_counted_by_the_streams_that_they_ended() -> None:
    record = Record(NetworkReset(times=2, every_s=4.0)).closed(20.1).opened(20.9)
    assert record.evidence.code is Code.FEWER_TIMES
    found = record.closed(24.2).opened(25.0).evidence
    assert (found.status, found.measured["streams_ended"]) == (Status.PROVED, 2)


def test_a_flapping_link_is_proved_by_each_fall() -> None:
    record = Record(NetworkFlap(times=2, down_s=2.0, up_s=4.0))
    record.closed(20.1).closed(21.0, was_open=False).opened(22.5).closed(26.1)
    found = record.evidence
    assert (found.status, found.measured["streams_ended"]) == (Status.PROVED, 2)


def test_a_half_open_connection_is_noticed_at_once_or_late() -> None:
    down = Record(NetworkHalfOpen(direction=Direction.DOWN))
    assert down.until(30).evidence.code is Code.NO_EFFECT
    assert down.closed(24.0).evidence.status is Status.PROVED
    assert Record(NetworkHalfOpen()).closed(20.2).evidence.code is Code.WRONG_MOMENT
    up = Record(NetworkHalfOpen(direction=Direction.UP)).closed(20.2)
    assert up.evidence.status is Status.PROVED


def test_a_limit_of_data_is_proved_by_what_its_streams_carried() -> None:
    record = Record(NetworkLimitData(size_bytes=500_000)).until(24)
    assert record.closed(24.6).evidence.status is Status.PROVED
    assert Record(NetworkLimitData(size_bytes=1000)).until(24).closed(25).evidence.code is (
        Code.OUT_OF_TOLERANCE
    )


def test_a_loss_is_proved_by_the_packets_that_the_kernel_counted() -> None:
    record = Record(NetworkLoss(share=0.05)).counted(20.1, packets=0, dropped=0)
    assert record.evidence.code is Code.NO_EFFECT
    found = record.counted(30.0, packets=2000, dropped=96).evidence
    assert (found.status, found.measured["dropped_share"]) == (Status.PROVED, 0.048)


def test_too_much_loss_or_too_few_packets_are_weak() -> None:
    much = Record(NetworkLoss(share=0.05)).counted(30.0, packets=2000, dropped=400)
    few = Record(NetworkLoss(share=0.05)).counted(30.0, packets=40, dropped=2)
    assert much.evidence.code is few.evidence.code is Code.OUT_OF_TOLERANCE


def dark() -> Record:
    record = Record(RegionOutage())
    record.add(20.0, Kind.LINK_SHAPED, link="learner-1", injection="injection-0")
    record.add(20.1, Kind.NODE_EXITED, node="learner-1", incarnation=1, signal="SIGKILL")
    return record.counted(20.2, up_bytes=5, down_bytes=7, connections=0)


def test_an_outage_is_proved_by_dead_processes_and_dark_links() -> None:
    record = dark().counted(30.0, up_bytes=5, down_bytes=7, connections=0)
    assert record.evidence.status is Status.PROVED
    assert record.evidence.measured["down_s"] == pytest.approx(9.9)


def test_an_outage_whose_link_was_used_or_never_cut_is_none() -> None:
    used = dark().counted(30.0, up_bytes=900, down_bytes=7, connections=1)
    assert used.evidence.code is Code.WORKED_MEANWHILE
    uncut = Record(RegionOutage())
    uncut.add(20.1, Kind.NODE_EXITED, node="learner-1", incarnation=1, signal="SIGKILL")
    assert uncut.counted(30.0, connections=0).evidence.code is Code.NOT_APPLIED


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            Record(NetworkLatency(mean_s=0.1)).until(30),
            Code.NO_EFFECT,
            id="a delay that nobody feels is failed and had something to delay",
        ),
        pytest.param(
            Record(NetworkBandwidth()).until(30, bytes_per_s=None),
            Code.NOT_TIMED,
            id="payloads too small to time are weak",
        ),
        pytest.param(
            Record(NetworkFreeze()).until(30),
            Code.NO_EFFECT,
            id="a link on which bytes go on arriving is not silent",
        ),
        pytest.param(
            silenced_twice(NetworkFreeze(direction=Direction.DOWN)),
            Status.PROVED,
            id="a link silenced one way can be silenced the other way",
        ),
        pytest.param(
            Record(NetworkFreeze())
            .reported(21.0, silent_s=1.0)
            .add(30.0, Kind.FAULT_HEALING, injection="injection-0", targets=["learner-1"]),
            Code.NO_LINK_REPORT,
            id="an end that reports no more proves nothing",
        ),
        pytest.param(
            Record(NetworkReset(times=1)).closed(26.0),
            Code.NO_EFFECT,
            id="a stream that ended by itself in between is no reset",
        ),
        pytest.param(
            Record(NetworkLimitData(size_bytes=50_000_000)).until(24).closed(24.6),
            Code.OTHER_CAUSE,
            id="a stream that ended with far too few bytes proves no limit",
        ),
        pytest.param(
            Record(NetworkLimitData(size_bytes=500_000))
            .until(24)
            .shaped(24.5, "reset", injection="injection-1")
            .closed(24.6),
            Code.OTHER_FAULT,
            id="a stream that another fault broke off proves no limit",
        ),
        pytest.param(
            Record(NetworkLimitData(size_bytes=500_000))
            .until(24)
            .closed(24.6)
            .opened(25.0)
            .until(40),
            Status.PROVED,
            id="bytes after the last end are not those of streams that ended",
        ),
        pytest.param(
            Record(RegionOutage()).until(30),
            Code.NOT_KILLED,
            id="an outage without a death is failed",
        ),
    ],
)
def test_the_record_shows_what_the_link_did(record: Record, shown: Code | Status) -> None:
    assert shown in (record.evidence.code, record.evidence.status)


# ---------------------------------------------------------------- paths through the world


def test_a_profile_is_proved_by_its_delay_where_its_rate_is_out_of_reach() -> None:
    found = Record(NetworkRegionProfile(profile="transatlantic")).until(30, rtt_s=0.09).evidence
    assert (found.status, found.requested["added_rtt_s"]) == (Status.PROVED, pytest.approx(0.086))
    assert "up_bytes_per_s" not in found.measured


def test_a_thin_profile_is_proved_by_its_rates_too() -> None:
    thin = NetworkRegionProfile(rate_bytes_per_s=1e5, latency_s=0.1)
    assert Record(thin).until(30, rtt_s=0.9, bytes_per_s=0.9e5).evidence.status is Status.PROVED
    assert Record(thin).until(30, rtt_s=0.9, bytes_per_s=5e5).evidence.code is Code.OUT_OF_TOLERANCE
    assert (
        Record(thin).until(30, rtt_s=0.1, bytes_per_s=0.9e5).evidence.code is Code.OUT_OF_TOLERANCE
    )
    assert Record(thin).until(30, bytes_per_s=0.9e5).evidence.code is Code.NO_EFFECT


def thin_with_little_up(*, down_per_s: float, ups: int, up_bytes: int = 80_000) -> Record:
    """A thin link full of what comes down; some of what goes up looks too fast."""
    thin = NetworkRegionProfile(rate_bytes_per_s=1e5, latency_s=0.1)
    record = Record(thin)
    for second in range(21, 31):
        more: dict[str, Json] = {"rtt_s": 0.9, "bytes": 100_000 * second}
        record.reported(second + 0.5, [Direction.DOWN], bytes_per_s=down_per_s, **more)
        idle: dict[str, Json] = {"payload_bytes": 0, "bytes_per_s": None}
        fast: dict[str, Json] = {"payload_bytes": up_bytes, "bytes_per_s": 3e5}
        up = idle if second > 20 + ups else fast
        record.reported(second + 0.5, [Direction.UP], **more, **up)
    return record


def test_a_thin_profile_needs_no_proof_of_the_way_that_carried_hardly_anything() -> None:
    found = thin_with_little_up(down_per_s=0.9e5, ups=2).evidence
    assert (found.status, found.measured["up_bytes_per_s"]) == (Status.PROVED, pytest.approx(3e5))
    assert thin_with_little_up(down_per_s=0.9e5, ups=6).evidence.code is Code.OUT_OF_TOLERANCE
    assert thin_with_little_up(down_per_s=3e5, ups=2).evidence.code is Code.OUT_OF_TOLERANCE
    little = {"ups": 6, "up_bytes": 20_000}  # 0.4 s of ten
    assert thin_with_little_up(down_per_s=0.9e5, **little).evidence.status is Status.PROVED
    assert thin_with_little_up(down_per_s=3e5, **little).evidence.code is Code.OUT_OF_TOLERANCE


def test_a_profile_that_nobody_could_feel_proves_nothing() -> None:
    assert Record(NetworkRegionProfile(profile="lan")).until(30).evidence.code is Code.NEVER_BETTER


def traced(rtts_s: dict[int, float], *, file: str = TRACE, steps: int = 1, **more: Json) -> Record:
    record = Record(NetworkTrace(file=file))
    for step_index in range(steps):
        record.stepped(24.0, step_index)
    for second in range(21, 31):
        rtt_s = next(value for begin, value in reversed(rtts_s.items()) if second >= begin)
        record.reported(second + 0.5, rtt_s=rtt_s, **more)
    return record


def test_a_trace_is_proved_row_by_row_on_the_average() -> None:
    found = traced({20: 0.044, 24: 0.244}, bytes_per_s=1e6).evidence
    assert (found.status, found.requested["rows"]) == (Status.PROVED, 2)
    assert found.measured["added_rtt_s"] == pytest.approx(0.18, abs=0.02)


def test_a_trace_whose_later_rows_did_nothing_is_weak() -> None:
    assert traced({20: 0.044}, bytes_per_s=1e6).evidence.code is Code.OUT_OF_TOLERANCE


def test_a_trace_whose_later_rows_never_came_is_weak_and_says_how_many_did() -> None:
    found = traced({20: 0.044, 24: 0.244}, steps=0, bytes_per_s=1e6).evidence
    assert (found.code, found.measured["rows"]) == (Code.FEWER_TIMES, 1)


def test_a_trace_of_rates_that_the_link_never_reached_cannot_be_shown(tmp_path: Path) -> None:
    (tmp_path / "fast.csv").write_text("time,rate\n0s,1GB/s\n")
    fast = traced({20: 0.004}, file=str(tmp_path / "fast.csv"), steps=0).evidence
    assert fast.code is Code.NEVER_FASTER
    (tmp_path / "slow.csv").write_text("time,rate\n0s,1MB/s\n")
    slow = traced({20: 0.004}, file=str(tmp_path / "slow.csv"), steps=0, bytes_per_s=1e6).evidence
    assert slow.status is Status.PROVED


def test_a_trace_on_a_link_that_died_early_is_weak(tmp_path: Path) -> None:
    (tmp_path / "far.csv").write_text("time,latency\n0s,100ms\n")
    dead: dict[str, Json] = {"bytes": 2_250_000, "rtt_s": None, "payload_bytes": 0}
    found = changing(NetworkTrace(file=str(tmp_path / "far.csv")), **dead).evidence
    assert found.code is Code.NOT_THROUGHOUT


# ---------------------------------------------------------------- what only netem can do


@pytest.mark.parametrize("fault", [NetworkDuplicate(), NetworkReorder(), NetworkCorrupt()])
def test_what_nobody_counts_is_weak_at_best(fault: Fault) -> None:
    record = Record(fault).shaped(20.1, fault.name.removeprefix("network."))
    assert record.evidence.code is Code.NO_TRAFFIC
    assert record.until(30).evidence.code is Code.NOT_COUNTED


@pytest.mark.parametrize("fault", [NetworkDuplicate(), NetworkReorder(), NetworkCorrupt()])
def test_what_only_netem_can_do_is_refused_without_it(
    fault: NetworkDuplicate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bands, "is_available", lambda: (False, "this kernel has no tc netem"))
    with pytest.raises(AbilityError, match="this kernel has no tc netem"):
        require_all(EmbeddedLinks(tmp_path), fault.shapings())


def test_packets_of_a_link_that_carried_nothing_were_not_touched() -> None:
    record = Record(NetworkCorrupt()).shaped(20.1, "corrupt")
    for second in range(21, 31):
        record.reported(second + 0.5, **{**SILENT, "silent_s": second - 19.0})
    assert record.evidence.code is Code.NO_TRAFFIC


def test_a_trace_changes_the_strength_of_what_is_there() -> None:
    fault = NetworkTrace(file=TRACE)
    assert fault.steps() == (4.0,)
    assert len(fault.shapings()) == 4
