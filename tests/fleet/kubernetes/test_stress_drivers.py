"""A CPU limit as a stressor: what is owed meanwhile, and a kubelet that does not do it."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import FleetError
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.kubernetes.cpu_limit import limit_of
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.kubernetes.stress_drivers import Quota
from chaoslab.fleet.stress.registry import Wish
from chaoslab.fleet.stressors import Mechanism, Slowness
from chaoslab.undo.base import PendingUndos
from tests.fleet.kubernetes.test_cpu_limit import WHOLE, OnePod, pending
from tests.fleet.local_stage import Remembered

SPEC = NodeSpec(name="learner-1", role=Role.LEARNER, command=("true",), labels={})
SLOW = Slowness(factor=2.0, mechanism=Mechanism.CGROUP)


@dataclass(kw_only=True)
class Life:
    """A pod whose cgroup counts a second of throttling at each look."""

    cluster: OnePod = field(default_factory=OnePod)
    log: Remembered = field(default_factory=Remembered)
    spec: NodeSpec = SPEC
    pod: str = "one"
    has_exited: bool = False
    is_measured: bool = True
    looks: int = 0

    def __post_init__(self) -> None:
        self.pending_undos = PendingUndos(self.log)

    def owe(self, do: str, whose: str, **facts: Any) -> None:
        self.pending_undos.owe(do, whose, **facts)

    def cpu_used(self) -> tuple[float, float] | None:
        return (9.0, 9.0) if self.is_measured else None

    def execute(self, _: object) -> str:
        self.looks += 1
        return f"uptime 9.0\nusage_usec 1\nthrottled_usec {self.looks * 1_000_000}\n"


def quota(life: Life) -> Quota:
    """On a node that used one core."""
    pod = cast("PodIncarnation", life)
    wish = Wish(life=pod, injection="injection-0", stressor=SLOW, calm_cores=1.0, others=())
    return Quota(pod, cast("Any", wish), SLOW)


def test_a_limit_is_owed_before_it_is_lowered_and_until_it_is_restored() -> None:
    life = Life()
    driver = quota(life)
    driver.begin()
    assert life.log.opened == [{"do": "unlimit_pod", "limit": "2", "request": "2"}]
    assert limit_of(life.cluster.get(PODS, "one")).limit == "500m"
    assert driver.counts() == {"cores": 0.5, "throttled_s": 1.0}
    driver.set(Slowness(factor=4.0))
    assert limit_of(life.cluster.get(PODS, "one")).limit == "250m"
    driver.end()
    driver.end()
    assert limit_of(life.cluster.get(PODS, "one")) == WHOLE
    assert life.log.closed == [0]


def test_a_limit_that_the_kubelet_does_not_lower_is_an_error_and_is_taken_back() -> None:
    life = Life()
    driver = quota(life)
    life.cluster.says = [pending("Infeasible")]
    with pytest.raises(FleetError, match="Infeasible: not enough capacity"):
        driver.begin()
    life.cluster.says = []
    driver.end()  # as the registry does
    assert limit_of(life.cluster.get(PODS, "one")) == WHOLE
    assert life.log.closed == [0]


def test_a_limit_that_the_kubelet_does_not_restore_yet_stays_owed() -> None:
    life = Life()
    driver = quota(life)
    driver.begin()
    life.cluster.says = [pending("Deferred")]
    with pytest.raises(FleetError, match="Deferred"):
        driver.end()
    assert life.log.closed == []
    life.has_exited = True  # and its limit is gone with it
    driver.end()
    assert life.log.closed == []


def test_what_is_not_measured_is_not_cut() -> None:
    with pytest.raises(FleetError, match="learner-1"):
        quota(Life(is_measured=False))
