"""Samples of a machine: whose work keeps its cores busy, and what the kernel says beside it."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaoslab.run.machine_load import Machine

TICKS = os.sysconf("SC_CLK_TCK")
HARNESS, NODE, CHILD, STRANGER = 10, 11, 12, 99


@dataclass(kw_only=True)
class Kernel:
    """What a kernel shows below a folder, in seconds. Each process: its parent, own, reaped."""

    root: Path
    user_s: float = 0.0
    idle_s: float = 0.0
    stolen_s: float = 0.0
    processes: dict[int, tuple[int, float, float]] = field(default_factory=dict)
    groups: dict[int, int] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def show(self) -> None:
        seconds = (self.user_s, 0, 0, self.idle_s, 0, 0, 0, self.stolen_s, 0, 0)
        cpu = " ".join(str(round(s * TICKS)) for s in seconds)
        self.write("proc/stat", f"cpu  {cpu}\ncpu0 1\ncpu1 1\nintr 5\n")
        self.write("proc/loadavg", "13.00 5.00 2.00 4/136 29310\n")
        for entry in (self.root / "proc").glob("[0-9]*/stat"):
            entry.unlink()
        for pid, (parent, own_s, reaped_s) in self.processes.items():
            used = f"{round(own_s * TICKS)} 0 {round(reaped_s * TICKS)} 0"
            self.write(
                f"proc/{pid}/stat",
                f"{pid} (a (b) c) S {parent} {self.groups.get(pid, 0)} " + "0 " * 8 + used,
            )
        for name, text in self.files.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    kernel = Kernel(root=tmp_path)
    kernel.processes = {1: (0, 50.0, 0.0), HARNESS: (1, 5.0, 0.0), NODE: (HARNESS, 9.0, 0.0)}
    kernel.processes[STRANGER] = (1, 70.0, 0.0)
    kernel.show()
    return kernel


def sampled(kernel: Kernel, machine: Machine, now_s: float = 2.0) -> Mapping[str, object]:
    kernel.show()
    sample = machine.sample(now_s, {"learner-0": NODE})
    assert sample is not None
    assert sample.nodes == 1
    return sample


@pytest.fixture
def machine(kernel: Kernel) -> Machine:
    """It has looked once."""
    machine = Machine(root=kernel.root, harness=HARNESS)
    assert machine.sample(0.0, {"learner-0": NODE}) is None
    return machine


def test_the_cores_of_the_run_are_told_from_those_of_others(
    kernel: Kernel, machine: Machine
) -> None:
    kernel.processes |= {NODE: (HARNESS, 10.0, 0.0), CHILD: (NODE, 1.0, 0.0)}
    kernel.processes |= {STRANGER: (1, 71.0, 0.0), HARNESS: (1, 5.1, 0.0)}
    kernel.user_s, kernel.idle_s, kernel.stolen_s = 3.1, 0.6, 0.4
    sample = sampled(kernel, machine)
    assert (sample.own_cores, sample.others_cores) == (1.05, 0.5)
    assert (sample.harness_cores, sample.cores) == (0.05, 2)
    assert (sample.stolen_cores, sample.idle_cores) == (0.2, 0.3)
    assert (sample.load_1m, sample.window_s) == (13.0, 2.0)


def orphan(kernel: Kernel) -> None:
    """A process in the group of a node, whose parent is gone."""
    kernel.processes[CHILD], kernel.groups[CHILD] = (1, 1.0, 0.0), NODE


def reaped(kernel: Kernel) -> None:
    del kernel.processes[NODE]
    kernel.processes[HARNESS] = (1, 5.0, 10.0)


@pytest.mark.parametrize("happens", [orphan, reaped])
def test_the_time_of_all_that_the_run_began_is_its_own(
    kernel: Kernel, machine: Machine, happens: Callable[[Kernel], None]
) -> None:
    happens(kernel)
    kernel.user_s = 1.0
    assert sampled(kernel, machine).others_cores == 0.0


def test_a_process_that_others_reap_leaves_what_still_runs(kernel: Kernel) -> None:
    kernel.processes[NODE] = (1, 9.0, 0.0)  # as in a container, below its engine
    kernel.show()
    machine = Machine(root=kernel.root, harness=HARNESS)
    machine.sample(0.0, {"learner-0": NODE})
    del kernel.processes[NODE]
    kernel.processes[HARNESS] = (1, 6.0, 0.0)
    kernel.user_s = 1.0
    assert sampled(kernel, machine).others_cores == 0.0


def test_what_the_kernel_says_of_waiting_is_told(kernel: Kernel) -> None:
    machine = Machine(root=kernel.root, harness=HARNESS)
    for waits, pressure, throttled in (("5 0 1", 0, 0), ("6 500000000 2", 1500000, 250000)):
        kernel.files = {
            "proc/10/schedstat": waits,
            "proc/pressure/cpu": f"some avg10=0 total={pressure}\nfull total=9\n",
            "sys/fs/cgroup/cpu.stat": f"throttled_usec {throttled}\n",
        }
        kernel.show()
        sample = machine.sample(2.0 * bool(pressure), {})
    assert (sample.waited_s, sample.cpu_pressure, sample.throttled_s) == (0.5, 0.75, 0.25)
    assert sample.io_pressure is None


def test_a_node_is_given_what_its_threads_get_of_the_time_in_which_they_are_ready(
    kernel: Kernel,
) -> None:
    kernel.processes[CHILD] = (NODE, 1.0, 0.0)
    machine = Machine(root=kernel.root, harness=HARNESS)
    for time_s, node, child in ((0.0, "5 5 1", "0 0 1"), (2.0, "1005 2005 2", "2000 0 9")):
        kernel.files = {"proc/11/task/11/schedstat": node, "proc/12/task/13/schedstat": child}
        kernel.show()
        sample = machine.sample(time_s, {"learner-0": NODE, "learner-1": 77})
    assert sample.given == {"learner-0": 0.6}


def test_a_second_sample_at_once_would_say_nothing(kernel: Kernel, machine: Machine) -> None:
    assert machine.sample(0.1, {}) is None
    assert sampled(kernel, machine).window_s == 2.0


def test_a_machine_without_proc_is_not_sampled(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path)
    assert [machine.sample(time_s, {}) for time_s in (0.0, 1.0)] == [None, None]


def test_this_machine_can_be_sampled() -> None:
    machine = Machine()
    machine.sample(0.0, {})
    sample = machine.sample(1.0, {})
    assert sample.cores == os.cpu_count()


def test_a_process_of_this_machine_is_given_a_share_of_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        machine = Machine()
        samples = (machine.sample(float(n), {"busy": busy.pid}) for n in range(10_000))
        shares = (said.given.get("busy", 0) for said in samples if said is not None)
        given = next(filter(None, shares), None)  # 0 until it first has a core
        busy.kill()
    assert given is not None
    assert 0 < given <= 1
