"""Learners in pods of a real cluster that their CPU limits slow, and that have them back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.payloads import NodeCounted, NodeStressed, Status
from chaoslab.faults.compute import ComputeSlow
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.cpu_limit import CpuLimit, limit_of
from chaoslab.fleet.kubernetes.fleet import KubernetesFleet
from chaoslab.fleet.kubernetes.resources import PODS
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from chaoslab.fleet.stressors import Mechanism
from chaoslab.record.journal import Journal
from chaoslab.undo.actions import undo
from chaoslab.undo.janitor import Overdue, heal
from chaoslab.undo.log import UndoLogFile, open_undos
from chaoslab.undo.verbs import Healed
from tests.cluster import Cluster, small_fleet
from tests.contracts.fault_kit import VICTIMS, Director, injection_of
from tests.fleet.kubernetes import busy_learner
from tests.fleet.kubernetes.test_cleanup import killed_when
from tests.waiting import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]
FOR_S = 20.0
FAULT = ComputeSlow(factor=4.0, mechanism=Mechanism.CGROUP, tolerance=0.75)
WHOLE = CpuLimit(limit="500m", request="500m")


def busy(name: str) -> NodeSpec:
    """A learner that uses a tenth of a core."""
    source = Path(busy_learner.__file__).read_text(encoding="utf-8")
    command = ("python3", "-S", "-c", source, name, "{incarnation}")
    return NodeSpec(name=name, role=Role.LEARNER, command=command, labels={})


@pytest.fixture
def fleet(tmp_path: Path, here: Cluster) -> Iterator[KubernetesFleet]:
    """Two learners that compute, whose CPU time is measured."""
    with (
        UndoLogFile(tmp_path) as undo_log,
        small_fleet(tmp_path, WallClock(), here, undo_log, cpus=0.5, measures_cpu=True) as fleet,
    ):
        for name in VICTIMS:
            fleet.start(busy(name))
        yield fleet


@pytest.fixture
def stepping(tmp_path: Path, fleet: KubernetesFleet) -> Iterator[Director]:
    """Once both step."""
    clock = WallClock()
    with Journal(tmp_path, clock) as journal:
        found = Director(fleet=fleet, clock=clock, journal=journal)
        found.wait_for_steps(VICTIMS)
        yield found


@pytest.fixture
def director(stepping: Director, fleet: KubernetesFleet) -> Director:
    """Once it is known what both use."""
    while not all(fleet._stress_registry._cores(fleet._lives[name]) for name in VICTIMS):
        stepping.wait(stepping.clock.now_s() + 0.5)
    return stepping


def limits(fleet: KubernetesFleet) -> list[CpuLimit]:
    """Of both learners' pods, by the server's word."""
    return [limit_of(fleet._cluster.get(PODS, fleet._lives[name].pod)) for name in VICTIMS]


def open_verbs(run_directory: Path) -> list[str]:
    """What is to be undone by limits alone."""
    return [one.do for one in open_undos(run_directory) if one.do == names.UNLIMIT_POD]


def test_a_lower_limit_slows_learners_and_is_lifted(
    director: Director, fleet: KubernetesFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limits(fleet) == [WHOLE, WHOLE]
    while_it_holds: list[tuple[list[CpuLimit], list[str]]] = []
    monkeypatch.setattr(
        ComputeSlow, "heal",
        lambda fault, injection, on: (
            while_it_holds.append((limits(fleet), open_verbs(tmp_path))),
            super(ComputeSlow, fault).heal(injection, on),
        ),
    )  # fmt: skip
    for piece in director.carry_out(FAULT, injection_of(FAULT, for_s=FOR_S)):
        assert piece.status is Status.PROVED, piece.text
    history = director.journal.history
    assert {"CPU limit" in one.payload.mechanism for one in history.of(NodeStressed)} == {True}
    counted = {one.payload.node: one.payload.throttled_s for one in history.of(NodeCounted)}
    assert {name for name, kept_s in counted.items() if (kept_s or 0.0) > 1.0} == set(VICTIMS)
    ((lowered, verbs),) = while_it_holds
    assert all(one.cores < 0.2 for one in lowered)
    assert verbs == [names.UNLIMIT_POD] * 2
    assert limits(fleet) == [WHOLE, WHOLE]
    assert open_verbs(tmp_path) == []


def test_a_limit_that_a_killed_harness_lowered_is_restored(tmp_path: Path, here: Cluster) -> None:
    killed_when("limited", tmp_path, "--limited")
    (entry,) = [one for one in open_undos(tmp_path) if one.do == names.UNLIMIT_POD]
    pod = str(entry.facts["pod"])
    assert limit_of(here.get(PODS, pod)).cores < 0.2
    overdue = Overdue(run_directory=tmp_path)  # what a janitor does while a harness is silent
    wait_until(lambda: overdue.let_go() == [f"{pod} has its CPU limit of 500m again"])
    assert limit_of(here.get(PODS, pod)) == WHOLE
    assert undo(entry) == Healed(), "it may be done twice"
    assert heal(tmp_path).remaining == ()
    assert remains(here, run_name(tmp_path)) == ()
    assert undo(entry) == Healed(), "and when the pod is gone"
