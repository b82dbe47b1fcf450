"""Files that a plan names: which there are, and that their contents count."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.faults.network_wan import NetworkTrace
from chaoslab.fleet.base import Role
from chaoslab.fleet.remote.settings import Ssh
from chaoslab.fleet.tpu.settings import TpuVm
from chaoslab.plan.model import FaultPlan, FleetSpec, Stop, Training
from chaoslab.prepare.named_files import NamesFiles, digest
from chaoslab.sim.settings import Sim

PLAN = FaultPlan(name="p", training=Training(stop=Stop(rounds=40)))
TASK = replace(PLAN, training=replace(PLAN.training, task="my_own_package.task:make"))
PROGRAM = replace(PLAN, fleet=FleetSpec(programs={Role.LEARNER: "my_own_package.task --loud"}))
OWN_PROGRAM = replace(PLAN, fleet=FleetSpec(programs={Role.LEARNER: "chaoslab.diloco.learner"}))
HOSTS = replace(PLAN, fleet=FleetSpec(kind="ssh", settings=Ssh(inventory="hosts.yaml")))


@pytest.mark.parametrize(
    ("plan", "file"),
    [
        (TASK, "my_own_package/other.py"),
        (PROGRAM, "my_own_package/task.py"),
        (HOSTS, "hosts.yaml"),
    ],
    ids=["task", "program", "inventory"],
)
def test_what_is_in_a_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: FaultPlan, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_own_package").mkdir()
    for name in ("my_own_package/task.py", "my_own_package/other.py", "hosts.yaml"):
        Path(name).write_text("a = 1\n")
    before = digest(plan, is_simulated=False)
    assert before == digest(plan, is_simulated=False)
    Path(file).write_text("a = 2\n")
    after = digest(plan, is_simulated=False)
    assert len({None, before, after}) == 3


def test_what_comes_with_chaoslab_and_a_task_of_a_simulation_are_no_files_of_a_plan() -> None:
    for plan in (PLAN, OWN_PROGRAM):
        assert digest(plan, is_simulated=False) is None
    for plan in (PLAN, TASK):
        assert digest(plan, is_simulated=True) is None


@pytest.mark.parametrize(
    ("given", "absent"),
    [
        (Sim(costs="a"), Sim()),
        (NetworkTrace(file="a"), NetworkTrace()),
        (Ssh(inventory="a"), Ssh()),
        (TpuVm(inventory="a"), TpuVm()),
    ],
    ids=["costs", "trace", "ssh", "tpu-vm"],
)
def test_settings_tell_the_files_that_they_name(given: NamesFiles, absent: NamesFiles) -> None:
    assert given.named_files() == ("a",)
    assert absent.named_files() == ()
