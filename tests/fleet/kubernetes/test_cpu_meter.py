"""The CPU time of pods: both versions of cgroups, and pods that cannot be asked."""

import threading

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import cpu_meter
from chaoslab.fleet.kubernetes.cpu_meter import CpuCount, CpuMeter

V1 = "uptime 900.50\nnr_throttled 3\nthrottled_time 1500000000\nusage_time 7250000000\n"
V2 = "uptime 900.50\nusage_usec 7250000\nuser_usec 1\nnr_throttled 3\nthrottled_usec 1500000\n"


@pytest.mark.parametrize("printed", [V1, V2])
def test_both_versions_of_cgroups_are_read(printed: str) -> None:
    assert CpuCount.of(printed) == CpuCount(at_s=900.5, used_s=7.25, throttled_s=1.5)


@pytest.mark.parametrize("printed", ["", "uptime 900.50\nusage_usec 1\n", "uptime now\n"])
def test_what_cannot_be_read_is_an_error(printed: str) -> None:
    with pytest.raises(FleetError):
        CpuCount.of(printed)


class Asked:
    """A pod that ends as soon as it is asked, and says when it was asked twice."""

    def __init__(self) -> None:
        self.times, self.was_asked_again = 0, threading.Event()

    def measure_cpu(self) -> None:
        self.times += 1
        if self.times > 1:
            self.was_asked_again.set()
        raise FleetError("it has ended")


def test_a_pod_that_cannot_be_asked_is_asked_again_until_the_meter_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_meter, "_EVERY_S", 0.001)
    pod = Asked()
    meter = CpuMeter(lambda: [pod])
    meter.start()
    assert pod.was_asked_again.wait(60.0)
    meter.close()
    assert not meter._thread.is_alive()
    CpuMeter(list).close()  # one that was not started
