"""Every fault of the catalogue under its own name, each through its contract."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.faults.base import Fault, variants
from chaoslab.faults.catalogue import FAULTS
from chaoslab.faults.compute import ComputeSlow, ComputeThermal
from chaoslab.faults.control_storm import ControlRejoinStorm
from chaoslab.faults.network_break import NetworkFlap, NetworkReset
from chaoslab.faults.network_packets import Packets
from chaoslab.faults.network_wan import NetworkTrace
from chaoslab.faults.process import ProcessCrashLoop
from chaoslab.faults.starvation import Killer, ProcessOom
from chaoslab.fleet.stressors import Mechanism
from tests.contracts.fault_kit import FaultKit

APART = {"control.scale_up"}
"""In `test_control`: its targets are not there before it."""
OF_THEIR_OWN: tuple[Fault, ...] = (
    ProcessCrashLoop(times=2, lives_s=0.3),
    ProcessOom(by=Killer.IMITATION),
    ComputeSlow(mechanism=Mechanism.HOOK, ramp_s=2.0),
    ComputeThermal(ramp_s=1.0, plateau_s=2.0, tooth_s=0.5),
    NetworkReset(times=3, every_s=1.0),
    NetworkFlap(times=2, down_s=0.5, up_s=0.5),
    NetworkTrace(file=str(Path(__file__).parent / "trace.csv")),
    ControlRejoinStorm(times=2, down_s=0.5, up_s=1.0),
)
"""With settings that are no defaults."""
BY_DEFAULT = [
    fault
    for name in FAULTS
    if name not in {*APART, "network.trace"}
    for fault in variants(FAULTS[name]())
]


class TestEveryFault(FaultKit):
    @pytest.fixture(params=[*BY_DEFAULT, *OF_THEIR_OWN], ids=lambda fault: fault.name)
    def fault(self, request: pytest.FixtureRequest) -> Fault:
        return request.param  # type: ignore[no-any-return]  # pytest knows no types


def test_every_fault_has_the_name_under_which_it_is_found() -> None:
    assert [FAULTS[name].name for name in FAULTS] == list(FAULTS)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("clock.step", {"by_s": 0.0}),
        ("clock.step", {"by_s": 0.5}),
        ("clock.step", {"by_s": -300.0}),
        ("clock.drift", {"rate": 1.0}),
        ("clock.drift", {"rate": 1.01}),
        ("clock.drift", {"rate": 0.0}),
        ("clock.drift", {"rate": -1.0}),
        ("clock.drift", {"rate": 100.0}),
        ("clock.drift", {"rate": math.nan}),
        ("compute.slow", {"factor": 1.1}),
        ("compute.slow", {"factor": 1000}),
        ("compute.slow", {"ramp_s": -1}),
        ("compute.slow", {"tolerance": 0}),
        ("compute.jitter", {"times": 1}),
        ("compute.thermal", {"tooth_share": 1.0}),
        ("compute.thermal", {"plateau_s": 0}),
        ("compute.steal", {"burners": 0}),
        ("compute.steal", {"least_factor": 1.0}),
        ("memory.pressure", {"size_bytes": 1}),
        ("process.oom", {"limit_bytes": 1}),
        ("network.latency", {"mean_s": 0.0}),
        ("network.latency", {"mean_s": 0.1, "jitter_s": 0.2}),
        ("network.bandwidth", {"rate_bytes_per_s": 0.0}),
        ("network.slice", {"delay_s": 0.0}),
        ("network.packets", {"share": 1.0}),
        ("network.packets", {"how": Packets.CORRUPT, "share": 0.0}),
        ("network.packets", {"how": Packets.REORDER, "delay_s": 0.0}),
        ("network.limit_data", {"size_bytes": 0}),
        ("network.reset", {"times": 0}),
        ("network.reset", {"every_s": 0.0}),
        ("network.flap", {"times": 0}),
        ("network.flap", {"down_s": 0.0}),
        ("network.region_profile", {"profile": "transatlantik"}),
        ("network.region_profile", {"rate_bytes_per_s": 1.0}),
        ("process.kill", {"signal": "SIGSTOP"}),
        ("process.crash_loop", {"times": 0}),
        ("process.crash_loop", {"lives_s": 0.0}),
        ("process.preempt", {"grace_s": -1.0}),
        ("storage.slow_disk", {"rate_bytes_per_s": 0.0}),
        ("storage.slow_disk", {"rate_bytes_per_s": -1.0}),
        ("storage.slow_disk", {"rate_bytes_per_s": math.nan}),
        ("spot.preempt", {"grace_s": -1.0}),
        ("update.tamper", {"factor": 0.0}),
        ("update.tamper", {"factor": 1.0}),
        ("update.tamper", {"factor": math.nan}),
        ("update.tamper", {"factor": math.inf}),
        ("control.rejoin_storm", {"times": 0}),
        ("control.rejoin_storm", {"down_s": 0.0}),
        ("control.rejoin_storm", {"up_s": -1.0}),
        ("container.replace", {"image": ""}),
    ],
)
def test_a_setting_that_cannot_work_or_be_measured_is_a_plan_error(
    name: str, settings: Mapping[str, object]
) -> None:
    with pytest.raises(PlanError):
        FAULTS[name](**settings)
