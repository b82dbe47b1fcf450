"""Faults on links: their contract, and their evidence from records made by hand."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from chaoslab.errors import PlanError
from chaoslab.events import Event, Json, Kind
from chaoslab.faults.base import Evidence, Fault, Status
from chaoslab.faults.catalogue import FAULTS
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
from chaoslab.faults.network_wan import NetworkRegionProfile, NetworkTrace
from chaoslab.faults.region import RegionOutage
from chaoslab.journal import History
from chaoslab.links.base import Direction
from chaoslab.plan import Injection, Trigger
from tests.contracts.fault_kit import FaultKit

TRACE = str(Path(__file__).parent / "trace.csv")
QUICK: tuple[Fault, ...] = (
    NetworkLatency(),
    NetworkBandwidth(),
    NetworkSlice(),
    NetworkLoss(),
    NetworkLimitData(),
    NetworkBlackhole(),
    NetworkFreeze(),
    NetworkPartition(),
    NetworkRefuse(),
    NetworkReset(times=3, every_s=1.0),
    NetworkFlap(times=2, down_s=0.5, up_s=0.5),
    NetworkHalfOpen(),
    NetworkRegionProfile(),
    NetworkTrace(file=TRACE),
    RegionOutage(),
)


@pytest.fixture(params=QUICK, ids=lambda fault: fault.name)
def fault(request: pytest.FixtureRequest) -> Fault:
    return request.param  # type: ignore[no-any-return]  # pytest knows no types


class TestNetworkFaults(FaultKit):
    """The kit."""


def test_the_catalogue_has_every_one_under_its_name() -> None:
    assert all(FAULTS[fault.name] is type(fault) for fault in QUICK)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: NetworkLatency(mean_s=0.0), "mean"),
        (lambda: NetworkLatency(mean_s=0.1, jitter_s=0.2), "jitter"),
        (lambda: NetworkBandwidth(rate_bytes_per_s=0.0), "rate"),
        (lambda: NetworkSlice(delay_s=0.0), "delay"),
        (lambda: NetworkLoss(share=1.0), "share"),
        (lambda: NetworkLimitData(size_bytes=0), "limit of data"),
        (lambda: NetworkReset(times=0), "times"),
        (lambda: NetworkReset(every_s=0.0), "every"),
        (lambda: NetworkFlap(times=0), "times"),
        (lambda: NetworkFlap(down_s=0.0), "down"),
        (lambda: NetworkRegionProfile(profile="transatlantik"), "did you mean transatlantic"),
        (lambda: NetworkRegionProfile(rate_bytes_per_s=1.0), "rate"),
        (lambda: NetworkTrace().shapings(), "file"),
        (lambda: NetworkTrace(file="nowhere.csv").shapings(), "cannot be read"),
    ],
)
def test_a_setting_that_cannot_work_is_a_plan_error(wrong: type, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong()


# ---------------------------------------------------------------- records made by hand


class Record:
    """What both ends of one link reported: calm until second 20, then the fault begins."""

    def __init__(self, fault: Fault, *, for_s: float | None = 10.0) -> None:
        self.fault = fault
        self.injection = Injection(
            number=0,
            spec="it",
            fault=fault.name,
            settings=fault,
            targets=("learner-1",),
            trigger=Trigger(time_s=0.0),
            for_s=for_s,
        )
        self.history = History(())
        self.add(1.0, Kind.NODE_STARTED, node="learner-1", incarnation=1)
        self.opened(2.0)
        for second in range(3, 20):
            self.reported(second)
        self.begin(20.0)

    def add(self, time_s: float, kind: Kind, **data: Json) -> "Record":
        event = Event(seq=len(self.history.events), time_s=time_s, source="x", kind=kind, data=data)
        self.history.append(event)
        return self

    def begin(self, time_s: float) -> "Record":
        about: dict[str, Json] = {"injection": "injection-0", "targets": ["learner-1"]}
        return self.add(time_s, Kind.FAULT_INJECTING, **about)

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

    def until(self, end_s: float, **more: Json) -> "Record":
        """Both ends go on to report every second, with these figures."""
        for second in range(21, int(end_s) + 1):
            self.reported(second + 0.5, **more)
        return self

    @property
    def evidence(self) -> Evidence:
        (piece,) = self.fault.evidence(self.injection, self.history)
        return piece


SILENT: dict[str, Json] = {
    "bytes": 1_900_000,
    "rtt_s": None,
    "pings_answered": 0,
    "payload_bytes": 0,
    "bytes_per_s": None,
}


def test_a_delay_is_proved_by_the_growth_of_the_round_trip() -> None:
    found = Record(NetworkLatency(mean_s=0.1)).until(30, rtt_s=0.21).evidence
    assert found.status is Status.PROVED
    assert found.requested["added_rtt_s"] == pytest.approx(0.2)
    assert found.measured["added_rtt_s"] == pytest.approx(0.208, abs=0.001)
    assert found.proof


@pytest.mark.parametrize("rtt_s", [0.1, 0.5])
def test_a_delay_of_another_length_is_weak(rtt_s: float) -> None:
    found = Record(NetworkLatency(mean_s=0.1)).until(30, rtt_s=rtt_s).evidence
    assert found.status is Status.WEAK
    assert "70% to 150%" in found.text


def test_a_delay_that_nobody_feels_is_failed() -> None:
    assert Record(NetworkLatency(mean_s=0.1)).until(30).evidence.status is Status.FAILED


@pytest.mark.parametrize("fault", [NetworkLatency(), NetworkBandwidth(), NetworkSlice()])
def test_a_link_that_carries_no_traffic_proves_nothing(fault: Fault) -> None:
    record = Record(fault)
    for second in range(21, 31):
        record.reported(second, **{**SILENT, "silent_s": float(second - 18)})
    assert record.evidence.status is Status.FAILED
    assert "no traffic" in record.evidence.text


def test_one_way_of_delay_is_half_of_both() -> None:
    found = Record(NetworkLatency(mean_s=0.1, direction=Direction.UP)).until(30, rtt_s=0.11)
    assert found.evidence.status is Status.PROVED
    assert found.evidence.requested["added_rtt_s"] == pytest.approx(0.1)


def test_windows_that_began_before_the_fault_do_not_count() -> None:
    record = Record(NetworkLatency(mean_s=0.1)).reported(20.4)
    assert record.until(22, rtt_s=0.21).evidence.measured["rtt_s"] == pytest.approx(0.21)


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


def test_a_rate_is_proved_by_the_payloads_that_arrive() -> None:
    fault = NetworkBandwidth(rate_bytes_per_s=1e5)
    found = Record(fault).until(30, bytes_per_s=0.95e5).evidence
    assert found.status is Status.PROVED
    assert found.requested == {"up_bytes_per_s": 1e5, "down_bytes_per_s": 1e5, "for_s": 10.0}
    assert found.measured["up_bytes_per_s"] == pytest.approx(0.95e5)


@pytest.mark.parametrize(
    ("rate", "status"),
    [(0.3e5, Status.WEAK), (2e5, Status.WEAK), (8.5e6, Status.FAILED)],
)
def test_another_rate_is_weak_and_the_usual_one_is_none(rate: float, status: Status) -> None:
    found = Record(NetworkBandwidth(rate_bytes_per_s=1e5)).until(30, bytes_per_s=rate).evidence
    assert found.status is status


def test_a_rate_in_one_direction_is_measured_there() -> None:
    record = Record(NetworkBandwidth(rate_bytes_per_s=1e5, direction=Direction.UP))
    for second in range(21, 31):
        record.reported(second + 0.5, (Direction.UP,), bytes_per_s=1e5)
        record.reported(second + 0.5, (Direction.DOWN,))
    assert record.evidence.status is Status.PROVED
    assert "down_bytes_per_s" not in record.evidence.measured


def test_payloads_too_small_to_time_are_weak() -> None:
    record = Record(NetworkBandwidth()).until(30, bytes_per_s=None)
    assert record.evidence.status is Status.WEAK


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


def test_a_link_on_which_bytes_go_on_arriving_is_not_silent() -> None:
    assert Record(NetworkFreeze()).until(30).evidence.status is Status.FAILED


def test_silence_that_ended_early_is_weak() -> None:
    record = Record(NetworkFreeze())
    record.until(25)
    for second in range(26, 31):
        record.reported(second, bytes=2_550_000, silent_s=second - 25.0)
    assert record.evidence.status is Status.WEAK


def test_a_dial_in_vain_does_not_break_the_silence() -> None:
    record = Record(NetworkFreeze())
    for second in range(21, 31):
        record.reported(second, **{**SILENT, "silent_s": (second - 20.0) % 4})
    assert record.evidence.status is Status.PROVED


def test_a_link_that_was_silent_before_cannot_be_silenced() -> None:
    record = Record(NetworkFreeze())
    record.history = History(())
    record.reported(19.0, silent_s=15.0).begin(20.0).reported(30.0, silent_s=26.0)
    assert record.evidence.status is Status.FAILED


def test_an_end_that_reports_no_more_proves_nothing() -> None:
    record = Record(NetworkFreeze()).reported(21.0, silent_s=1.0)
    record.add(30.0, Kind.FAULT_HEALING, injection="injection-0", targets=["learner-1"])
    assert record.evidence.status is Status.FAILED


def test_a_refusal_is_proved_by_the_end_of_the_stream_and_failed_dials() -> None:
    record = Record(NetworkRefuse()).closed(20.1).closed(20.6, was_open=False).until(30)
    found = record.evidence
    assert (found.status, found.measured["dials_failed"]) == (Status.PROVED, 1)
    assert record.opened(29.0).evidence.status is Status.WEAK


def test_a_stream_that_nobody_refused_or_reset_is_failed() -> None:
    assert Record(NetworkRefuse()).until(30).evidence.status is Status.FAILED
    assert Record(NetworkReset()).until(30).evidence.status is Status.FAILED
    assert Record(NetworkFlap()).until(30).evidence.status is Status.FAILED
    assert Record(NetworkLimitData()).until(30).evidence.status is Status.FAILED


def test_resets_are_counted_by_the_streams_that_they_ended() -> None:
    record = Record(NetworkReset(times=2, every_s=4.0)).closed(20.1).opened(20.9)
    assert record.evidence.status is Status.WEAK
    found = record.closed(24.2).opened(25.0).evidence
    assert (found.status, found.measured["streams_ended"]) == (Status.PROVED, 2)


def test_a_stream_that_ended_by_itself_in_between_is_no_reset() -> None:
    record = Record(NetworkReset(times=1)).closed(26.0)
    assert record.evidence.status is Status.FAILED


def test_a_flapping_link_is_proved_by_each_fall() -> None:
    record = Record(NetworkFlap(times=2, down_s=2.0, up_s=4.0))
    record.closed(20.1).closed(21.0, was_open=False).opened(22.5).closed(26.1)
    found = record.evidence
    assert (found.status, found.measured["streams_ended"]) == (Status.PROVED, 2)


def test_a_half_open_connection_is_noticed_at_once_or_late() -> None:
    down = Record(NetworkHalfOpen(direction=Direction.DOWN))
    assert down.until(30).evidence.status is Status.FAILED
    assert down.closed(24.0).evidence.status is Status.PROVED
    assert Record(NetworkHalfOpen()).closed(20.2).evidence.status is Status.WEAK
    up = Record(NetworkHalfOpen(direction=Direction.UP)).closed(20.2)
    assert up.evidence.status is Status.PROVED


def test_a_limit_of_data_is_proved_by_what_its_streams_carried() -> None:
    record = Record(NetworkLimitData(size_bytes=500_000)).until(24)
    assert record.closed(24.6).evidence.status is Status.PROVED
    assert Record(NetworkLimitData(size_bytes=1000)).until(24).closed(25).evidence.status is (
        Status.WEAK
    )


def test_a_loss_is_proved_by_the_packets_that_the_kernel_counted() -> None:
    record = Record(NetworkLoss(share=0.05)).counted(20.1, packets=0, dropped=0)
    assert record.evidence.status is Status.FAILED
    found = record.counted(30.0, packets=2000, dropped=96).evidence
    assert (found.status, found.measured["dropped_share"]) == (Status.PROVED, 0.048)


def test_too_much_loss_or_too_few_packets_are_weak() -> None:
    much = Record(NetworkLoss(share=0.05)).counted(30.0, packets=2000, dropped=400)
    few = Record(NetworkLoss(share=0.05)).counted(30.0, packets=40, dropped=2)
    assert (much.evidence.status, few.evidence.status) == (Status.WEAK, Status.WEAK)


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
    assert used.evidence.status is Status.WEAK
    uncut = Record(RegionOutage())
    uncut.add(20.1, Kind.NODE_EXITED, node="learner-1", incarnation=1, signal="SIGKILL")
    assert uncut.counted(30.0, connections=0).evidence.status is Status.FAILED


def test_an_outage_without_a_death_is_failed() -> None:
    assert Record(RegionOutage()).until(30).evidence.status is Status.FAILED


# ---------------------------------------------------------------- paths through the world


def test_a_profile_is_proved_by_its_delay_where_its_rate_is_out_of_reach() -> None:
    found = Record(NetworkRegionProfile(profile="transatlantic")).until(30, rtt_s=0.09).evidence
    assert found.status is Status.PROVED
    assert found.requested["added_rtt_s"] == pytest.approx(0.086)
    assert "up_bytes_per_s" not in found.measured


def test_a_thin_profile_is_proved_by_its_rates_too() -> None:
    thin = NetworkRegionProfile(rate_bytes_per_s=1e5, latency_s=0.1)
    assert Record(thin).until(30, rtt_s=0.9, bytes_per_s=0.9e5).evidence.status is Status.PROVED
    assert Record(thin).until(30, rtt_s=0.9, bytes_per_s=5e5).evidence.status is Status.WEAK
    assert Record(thin).until(30, rtt_s=0.1, bytes_per_s=0.9e5).evidence.status is Status.WEAK
    assert Record(thin).until(30, bytes_per_s=0.9e5).evidence.status is Status.FAILED


def test_a_profile_that_nobody_could_feel_proves_nothing() -> None:
    assert Record(NetworkRegionProfile(profile="lan")).until(30).evidence.status is Status.FAILED


def traced(rtts_s: dict[int, float], **more: Json) -> Record:
    record = Record(NetworkTrace(file=TRACE))
    for second in range(21, 31):
        rtt_s = next(value for begin, value in reversed(rtts_s.items()) if second >= begin)
        record.reported(second + 0.5, rtt_s=rtt_s, **more)
    return record


def test_a_trace_is_proved_row_by_row_on_the_average() -> None:
    found = traced({20: 0.044, 24: 0.244}, bytes_per_s=1e6).evidence
    assert found.status is Status.PROVED
    assert found.requested["rows"] == 2
    assert found.measured["added_rtt_s"] == pytest.approx(0.18, abs=0.02)


def test_a_trace_whose_later_rows_did_nothing_is_weak() -> None:
    assert traced({20: 0.044}, bytes_per_s=1e6).evidence.status is Status.WEAK


def test_a_trace_changes_the_strength_of_what_is_there() -> None:
    fault = NetworkTrace(file=TRACE)
    assert fault.beats() == (4.0,)
    assert len(fault.shapings()) == 4
