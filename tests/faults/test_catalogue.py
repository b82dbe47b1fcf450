"""Every fault of the catalogue under its own name, each through its contract."""

from pathlib import Path

import pytest

from chaoslab.faults.base import Fault
from chaoslab.faults.catalogue import FAULTS
from chaoslab.faults.compute import ComputeSlow, ComputeThermal
from chaoslab.faults.control_storm import ControlRejoinStorm
from chaoslab.faults.network_break import NetworkFlap, NetworkReset
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
    ComputeThermal(ramp_s=1.0, hold_s=2.0, tooth_s=0.5),
    NetworkReset(times=3, every_s=1.0),
    NetworkFlap(times=2, down_s=0.5, up_s=0.5),
    NetworkTrace(file=str(Path(__file__).parent / "trace.csv")),
    ControlRejoinStorm(times=2, down_s=0.5, up_s=1.0),
)
"""With settings that are no defaults."""
BY_DEFAULT = [FAULTS[name]() for name in FAULTS if name not in {*APART, "network.trace"}]


class TestEveryFault(FaultKit):
    @pytest.fixture(params=[*BY_DEFAULT, *OF_THEIR_OWN], ids=lambda fault: fault.name)
    def fault(self, request: pytest.FixtureRequest) -> Fault:
        return request.param  # type: ignore[no-any-return]  # pytest knows no types


def test_every_fault_has_the_name_under_which_it_is_found() -> None:
    assert [FAULTS[name].name for name in FAULTS] == list(FAULTS)
